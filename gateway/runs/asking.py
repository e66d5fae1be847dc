"""Asks one step: fills its templates, says where it stands in its run, and makes variables of the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from multidict import CIMultiDict

from engines.chat import CHARACTERS_PER_TOKEN, ChatRequest, prompt_tokens
from engines.errors import EngineError, RequestError
from engines.placement import Placement, Rank
from gateway.admission import Admission
from gateway.off_loop import off_loop
from gateway.runs.caller import chat_of, streamed
from gateway.runs.expected import ExpectedTokens
from gateway.runs.flow_objective import FlowObjectives
from gateway.runs.knobs import RunKnobs
from gateway.runs.live import LiveRun
from gateway.runs.step_send import StepSend
from gateway.send import ClientGone, Send, Watched
from router.asked import Admitted, Asked
from router.finished import Finished, Outcome
from workflows.errors import WorkflowError
from workflows.graph import Step
from workflows.names import StepId
from workflows.objective import Objective, Objectives
from workflows.progress import Changes, StepState, effort, outcomes
from workflows.template import Filled, fill

log = structlog.get_logger(__name__)

Said = Callable[[str], object]
Most = Callable[[ChatRequest], tuple[float, int]]
LetIn = Callable[[Mapping[str, Any]], Awaitable[Admitted]]
"""Of a step's chat completion: see Admission.carried_out."""
_LENGTHS = frozenset({"max_tokens", "max_completion_tokens"})
"""Two names of one field."""
_UNDER_WAY = (StepState.QUEUED, StepState.RUNNING)


class StepAsker:
    """`answer` is Pipeline.answer. `admission` lets each step in, with what its client may do when it is asked."""

    def __init__(
        self,
        answer: Callable[[Asked, Send], Awaitable[Finished]],
        admission: Admission,
        knobs: RunKnobs,
        now: Callable[[], float],
        began: Callable[[], object] = lambda: None,
        most: Most = lambda chat: (0.0, 0),
    ) -> None:
        """`most` is Features.most at the prices of the model."""
        self._most = most
        self._began = began
        self._answer = answer
        self.admission = admission
        self._knobs = knobs
        self._now = now
        self._expected = ExpectedTokens()
        self.flowing = FlowObjectives(self._expected)

    def go_by(
        self, answer: Callable[[Asked, Send], Awaitable[Finished]], admission: Admission, most: Most
    ) -> None:
        """Have steps let in and answered by these from now on."""
        self._answer, self.admission, self._most = answer, admission, most

    async def ask(self, run: LiveRun, id: StepId, kept: Callable[[], Awaitable[None]], said: Said) -> Changes:
        """Ask a step whose start was noted, once that is committed; gives what follows from its answer. Raises nothing but
        CancelledError."""
        step, caller = run.graph.steps[id], run.callers[id]
        send = StepSend(said, max_text_bytes=self._knobs.max_value_bytes)
        try:
            chat, placement = await self._asked(run, step, streams=True)

            async def ask(admitted: Admitted) -> Changes:
                run.step(id, request_id=admitted.id)
                await kept()
                if run.ended is not None or run.lost:
                    return Changes()
                self._began()
                asked = caller.asked(admitted, chat, placement)
                finished = await self._answer(asked, send)
                self._note(run, step, asked, send, finished)
                return await self._answered(run, step, send)

            async with run.spent.held(run.budget, partial(self._most, chat)):
                return await self.admission.step(caller.arrival, chat.own_fields, ask)
        except (RequestError, EngineError, WorkflowError) as error:
            return run.progress.refused(id, *refused(error))
        except ClientGone:
            # It was broken off here, and is charged for all the same.
            usd, tokens = self._most(chat)
            run.spent.usd += usd
            run.spent.tokens += tokens
            return run.progress.refused(id, *self._too_large())
        except LookupError:
            return run.progress.refused(
                id, "model_not_found", f"No engine serves the model of step {step.name!r}.", 404
            )
        except Exception as error:
            log.error("step_failed", run=run.id, step=id, error=type(error).__name__)
            return run.progress.refused(id, "internal_error", "The gateway failed on this step.", 500)

    async def call(
        self, run: LiveRun, id: StepId, send: Send, said: Said, let_in: LetIn
    ) -> tuple[Changes, Finished]:
        """The same for a step that a client's own request carries out, which gets the answer as it comes.

        `let_in` admits the request once its inputs are there. Raises as it and Pipeline.answer do.
        """
        step = run.graph.steps[id]
        own = StepSend(said, max_text_bytes=self._knobs.max_value_bytes)
        chat, placement = await self._asked(run, step, streams=False)
        admitted = await let_in(chat.own_fields)
        asked = run.callers[id].asked(admitted, chat, placement)
        run.step(id, request_id=asked.arrival.id)
        finished = await self._answer(asked, Watched(send, _Reading(own, run.id)))
        self._note(run, step, asked, own, finished)
        return await self._answered(run, step, own), finished

    # ---- before

    async def _asked(self, run: LiveRun, step: Step, *, streams: bool) -> tuple[ChatRequest, Placement]:
        values = run.progress.inputs(step.id)
        messages: Any = step.chat["messages"]
        size = (
            sum(map(len, values.values())) + int(run.template_tokens.get(step.id, 0)) * CHARACTERS_PER_TOKEN
        )
        filled = await off_loop(
            size, fill, messages, values, max_characters=self._knobs.max_prompt_characters
        )
        fields = {**step.chat, "messages": list(filled.messages)}
        if run.flow is not None and step.of == run.flow.definition.output:
            fields = {**_left_open(run.flow.fields, fields), **fields}
        if streams:
            fields = streamed(fields)
        return await off_loop(size, chat_of, fields), self._placement(run, step, filled)

    def placed_anew(self, run: LiveRun, now: Placement) -> Placement:
        """What is known by now of a step that waits for its engine; the same where it is another run's."""
        if now.run != run.id or run.progress.steps.get(now.step) not in _UNDER_WAY:
            return now
        objective = self._objective(run, run.graph.steps[now.step])
        placed = replace(
            now,
            rank=Rank(objective.rank),
            group=objective.group,
            depth=objective.depth,
            work_left=objective.work_left,
        )
        if placed.rank is not now.rank:
            run.step(now.step, rank=placed.rank.label, group=placed.group, depth=placed.depth)
        return placed

    def _objective(self, run: LiveRun, step: Step) -> Objective:
        if run.flow is not None:
            return self.flowing.of(run, step)
        return self._objectives(run).of(step.id)

    def _objectives(self, run: LiveRun) -> Objectives:
        if run.objectives is None:
            run.objectives = Objectives(
                run.graph, run.progress.gets, run.progress.ended, self._expected.of_run(run)
            )
        return run.objectives

    def _placement(self, run: LiveRun, step: Step, filled: Filled) -> Placement:
        objective = self._objective(run, step)
        expected = prompt_tokens(filled.messages) + int(self._expected.answer(step.chat))
        run.step(step.id, rank=Rank(objective.rank).label, group=objective.group, depth=objective.depth)
        return Placement(
            Rank(objective.rank),
            run.id,
            objective.group,
            objective.depth,
            objective.work_left,
            expected,
            filled.boundaries,
            step.id,
        )

    # ---- after

    def _note(self, run: LiveRun, step: Step, asked: Asked, send: StepSend, finished: Finished) -> None:
        usage = send.used(prompt_tokens(asked.chat.messages))
        figures: dict[str, Any] = {"engine": finished.engine}
        if replica := _replica(finished):
            figures["replica"] = replica
        queued = run.steps[step.id].queued_at_s
        if queued is not None and finished.asked_at:
            figures["started_at_s"] = queued + max(0.0, finished.asked_at - asked.arrival.began)
        if usage is not None:
            hit = finished.outcome is Outcome.HIT
            cost = 0.0 if hit else finished.price.cost_usd(usage) or 0.0
            figures |= {
                "prompt_tokens": usage.prompt_tokens,
                "cached_tokens": usage.cached_tokens,
                "completion_tokens": usage.completion_tokens,
                "cost_usd": cost,
            }
            run.spent.usd += cost
            run.spent.tokens += 0 if hit else usage.prompt_tokens + usage.completion_tokens
            self._expected.answered(asked.chat.model, usage.completion_tokens)
        run.step(step.id, **figures)
        if send.finish_reason:
            for variable in (*step.writes.values(), *filter(None, [step.says])):
                run.cells[variable].finish_reason = send.finish_reason

    async def _answered(self, run: LiveRun, step: Step, send: StepSend) -> Changes:
        if send.too_large:
            return run.progress.refused(step.id, *self._too_large())
        if send.status >= 400:
            message = send.refusal or f"The engine refused it with status {send.status}."
            return run.progress.refused(step.id, "step_failed", message, send.status)
        if send.broken:
            return run.progress.refused(step.id, "step_failed", send.broken, 502)
        if send.calls_tools and not send.first:
            return run.progress.refused(step.id, "no_text", "The answer calls tools and holds no text.", None)
        text = send.text
        return run.progress.answered(
            step.id, await off_loop(effort(step, text), outcomes, step, text, self._knobs.max_value_bytes)
        )

    def _too_large(self) -> tuple[str, str, int]:
        return "value_too_large", f"The answer is larger than {self._knobs.max_value_bytes} bytes.", 413


class _Reading:
    """Lets a run read the answer to its client along. See gateway.send.Watcher."""

    def __init__(self, run: StepSend, run_id: str) -> None:
        self._run = run
        self._run_id = run_id

    def begins(self, status: int, headers: CIMultiDict[str]) -> None:
        """See Watcher."""
        headers["x-understudy-run"] = self._run_id
        self._run.begins(status, headers)

    def feed(self, chunk: bytes) -> None:
        """See Watcher."""
        if not self._run.too_large:
            # Too large for a variable: the client gets its answer all the same.
            with suppress(ClientGone):
                self._run.feed(chunk)

    def ends(self, error: EngineError | None = None) -> None:
        """See Watcher."""
        self._run.ends(error)

    def goes_on(self) -> bool:
        """See Watcher."""
        return False


def refused(error: RequestError | EngineError | WorkflowError) -> tuple[str, str, int]:
    """Code, message and status of a step that was not asked, or not answered."""
    code = error.code if isinstance(error.code, str) else "step_failed"
    return code, error.message, error.status


def _left_open(given: Mapping[str, Any], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of a client for the chat that answers it, without a second name of what that says itself, which is refused."""
    if _LENGTHS.isdisjoint(said):
        return given
    return {name: value for name, value in given.items() if name not in _LENGTHS}


def _replica(finished: Finished) -> str:
    return next((tried.replica for tried in finished.trail if tried.kind is None), "")
