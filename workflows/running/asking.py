"""Asks one step: fills its templates, says where it stands in its run, and makes variables of the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from engines.chat import CHARACTERS_PER_TOKEN, ChatRequest, prompt_tokens
from engines.errors import EngineError, RequestError
from engines.off_loop import off_loop
from engines.placement import Placement, Rank
from workflows.criteria import Criteria
from workflows.errors import WorkflowError
from workflows.graph import Step
from workflows.names import StepId, VariableId
from workflows.objective import Objective, Objectives
from workflows.progress import Changes, StepState, effort, outcomes
from workflows.running.chats import chat_of, streamed
from workflows.running.door import Answered, Door
from workflows.running.expected import ExpectedTokens
from workflows.running.flow_objective import FlowObjectives
from workflows.running.knobs import RunKnobs
from workflows.running.live import LiveRun
from workflows.template import Filled, fill
from workflows.transform import TransformFailed, Value

log = structlog.get_logger(__name__)

Said = Callable[[str], object]
Outcome = Mapping[VariableId, Value | TransformFailed]
_LENGTHS = frozenset({"max_tokens", "max_completion_tokens"})
"""Two names of one field."""
_UNDER_WAY = (StepState.QUEUED, StepState.RUNNING)


class StepAsker:
    """Asks by `door`, which is replaced where the configuration changes: steps under way end as they began."""

    def __init__(self, door: Door, knobs: RunKnobs) -> None:
        self.door = door
        self._knobs = knobs
        self._expected = ExpectedTokens()
        self.flowing = FlowObjectives(self._expected)

    async def ask(self, run: LiveRun, id: StepId, kept: Callable[[], Awaitable[None]], said: Said) -> Changes:
        """Ask a step whose start was noted, once that is committed; gives what follows from its answer. Raises nothing but
        CancelledError."""
        step, told = run.graph.steps[id], False
        rules: Mapping[str, Any] = step.what.get("on_error") or {}
        left, fault = int(rules.get("retry", 0)), ""
        unread = max(left, 1) if _formed(step) else left
        """The number of times it may be asked again for an answer that could not be read."""

        def heard(piece: str) -> None:
            nonlocal told
            told = True
            said(piece)

        while True:
            try:
                outcome = await self._once(run, step, kept, heard, fault)
            except (RequestError, EngineError, WorkflowError) as error:
                failed = StepFailed(*refused(error))
                if not isinstance(error, EngineError):
                    # It was not let in, or cannot be asked: that is no engine's failure.
                    rules, left = {}, 0
            except StepFailed as error:
                failed = error
            except LookupError:
                message = f"No engine serves the model of step {step.name!r}."
                return run.progress.refused(id, "model_not_found", message, 404)
            except Exception as error:
                log.error("step_failed", run=run.id, step=id, error=type(error).__name__)
                return run.progress.refused(id, "internal_error", "The gateway failed on this step.", 500)
            else:
                if outcome is None:
                    return Changes()
                broken = next((each for each in outcome.values() if isinstance(each, TransformFailed)), None)
                if broken is None:
                    return run.progress.answered(id, outcome)
                failed = StepFailed("transform_failed", broken.message, outcome=outcome)
                fault, left = broken.message, unread
            if told and _streams(step):
                # Who read its text as it came cannot take it back.
                rules, left = {}, 0
            if not left or not run.goes_on:
                return _given_up(run, step, rules, failed)
            left, unread = left - 1, unread - 1
            run.step(id, attempts=run.steps[id].attempts + 1)

    async def _once(
        self, run: LiveRun, step: Step, kept: Callable[[], Awaitable[None]], said: Said, fault: str
    ) -> Outcome | None:
        """Ask once and return what the answer makes of the step's variables; None if it is no longer wanted.

        `fault`: why the last answer could not be read. Raises StepFailed, and as Door.ask does.
        """

        async def begun(request_id: str) -> bool:
            run.step(step.id, request_id=request_id)
            if run.row.background:
                # A client that waits sends the run again with its key where this process ends; here nobody does.
                await kept()
            return run.goes_on

        chat, placement = await self._asked(run, step, fault, streams=_read_along(run))
        async with run.spent.held(run.row.budget, partial(self.door.most, chat)):
            answer = await self.door.ask(
                run.callers[step.id], chat, placement, said, self._knobs.max_value_bytes, begun
            )
        if answer is None:
            return None
        self._note(run, step, chat, answer)
        flow = run.flow
        if step.of != flow.definition.output or "tools" not in flow.fields:
            answer.calls = []
        for variable in step.writes.values():
            run.cells[variable].calls = answer.calls
        return await self._outcome(step, answer)

    async def call(self, run: LiveRun, id: StepId, client: Any, said: Said) -> Changes:
        """The same for a step that a client's own request carries out, which gets the answer as it comes.

        Raises as Door.call does.
        """
        step = run.graph.steps[id]
        chat, placement = await self._asked(run, step, streams=False)
        answer = await self.door.call(
            run.callers[id],
            chat,
            placement,
            said,
            self._knobs.max_value_bytes,
            client,
            run.id,
            lambda request_id: run.step(id, request_id=request_id),
        )
        self._note(run, step, chat, answer)
        try:
            return run.progress.answered(id, await self._outcome(step, answer))
        except StepFailed as failed:
            return run.progress.refused(id, failed.code, failed.message, failed.status)

    # ---- before

    async def _asked(
        self, run: LiveRun, step: Step, fault: str = "", *, streams: bool
    ) -> tuple[ChatRequest, Placement]:
        values = run.progress.inputs(step.id)
        messages: Any = step.chat["messages"]
        size = (
            sum(map(len, values.values())) + int(run.template_tokens.get(step.id, 0)) * CHARACTERS_PER_TOKEN
        )
        filled = await off_loop(
            size, fill, messages, values, max_characters=self._knobs.max_prompt_characters
        )
        fields = {**step.chat, "messages": list(filled.messages)}
        if fault:
            told = f"Your last answer could not be read: {fault} Answer once more, in the form that is asked for."
            fields["messages"] = [*fields["messages"], {"role": "user", "content": told}]
        if step.of == run.flow.definition.output:
            given = dict(run.flow.fields)
            called = given.pop("messages", [])
            fields = {**_left_open(given, fields), **fields, "messages": [*fields["messages"], *called]}
        if streams:
            fields = streamed(fields)
        return await off_loop(size, chat_of, fields), self._placement(run, step, filled)

    def placed_anew(self, run: LiveRun, now: Placement) -> Placement:
        """Place a step that waits for its engine by what is known by now; the same if it is another run's."""
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
        if run.flow.declared:
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

    def _note(self, run: LiveRun, step: Step, chat: ChatRequest, answer: Answered) -> None:
        figures: dict[str, Any] = {"engine": answer.engine}
        if answer.replica:
            figures["replica"] = answer.replica
        queued = run.steps[step.id].queued_at_s
        if queued is not None and answer.asked_s is not None:
            figures["started_at_s"] = queued + answer.asked_s
        usage = answer.usage
        if usage is not None:
            before = run.steps[step.id]
            figures |= {
                "prompt_tokens": before.prompt_tokens + usage.prompt_tokens,
                "cached_tokens": before.cached_tokens + usage.cached_tokens,
                "completion_tokens": before.completion_tokens + usage.completion_tokens,
                "cost_usd": before.cost_usd + answer.cost_usd,
            }
            run.spent.usd += answer.cost_usd
            run.spent.tokens += 0 if answer.kept else usage.prompt_tokens + usage.completion_tokens
            self._expected.answered(chat.model, usage.completion_tokens)
        elif answer.too_large:
            # It was broken off, and is charged for all the same.
            usd, tokens = self.door.most(chat)
            run.spent.usd += usd
            run.spent.tokens += tokens
        run.step(step.id, **figures)
        run.repeatable &= answer.repeatable
        if answer.finish_reason:
            for variable in (*step.writes.values(), *filter(None, [step.says])):
                run.cells[variable].finish_reason = answer.finish_reason

    async def _outcome(self, step: Step, answer: Answered) -> Outcome:
        """Read an answer into the step's variables. Raises StepFailed."""
        most_bytes = self._knobs.max_value_bytes
        if answer.too_large:
            raise StepFailed("value_too_large", f"The answer is larger than {most_bytes} bytes.", 413)
        if answer.status >= 400:
            message = answer.refusal or f"The engine refused it with status {answer.status}."
            raise StepFailed("step_failed", message, answer.status)
        if answer.broken:
            raise StepFailed("step_failed", answer.broken, 502)
        if answer.calls_tools and not answer.calls:
            raise StepFailed("no_text", "The answer calls tools and holds no text.")
        return await off_loop(effort(step, answer.text), outcomes, step, answer.text, most_bytes)


class StepFailed(Exception):
    """Why a chat has no value."""

    def __init__(
        self, code: str, message: str, status: int | None = None, outcome: Outcome | None = None
    ) -> None:
        """`outcome`: of an answer of which a part could not be read."""
        super().__init__(code)
        self.code, self.message, self.status, self.outcome = code, message, status, outcome


def _given_up(run: LiveRun, step: Step, rules: Mapping[str, Any], failed: StepFailed) -> Changes:
    """Apply the step's `on_error` to a chat that failed for good."""
    default = rules.get("default")
    if default is not None:
        return run.progress.answered(step.id, dict.fromkeys(step.writes.values(), default))
    if rules.get("skip"):
        return run.progress.leave_out(step.id)
    if failed.outcome is not None:
        return run.progress.answered(step.id, failed.outcome)
    return run.progress.refused(step.id, failed.code, failed.message, failed.status)


def _read_along(run: LiveRun) -> bool:
    """Tell if somebody may want the answers as they come; a whole one costs a tenth of a stream.

    Of a run whose client waits for its end nobody does, unless its gets or its stream say so; ids of what goes on in the
    background are known, and items of a list in a workflow are worked on as they come.
    """
    wanted = Criteria.TTFT in run.progress.gets.values()
    return run.row.background or run.flow.declared or bool(run.watchers) or wanted


def _streams(step: Step) -> bool:
    """Tell if its text is told as it comes."""
    return "splits" not in step.what and any(not output.transforms for output in step.outputs)


def _formed(step: Step) -> bool:
    """Tell if its answer is to be a list or JSON, which may break off; but for a list whose items others take early."""
    json = any(transform.kind == "json" for output in step.outputs for transform in output.transforms)
    return json or ("splits" in step.what and not step.what.get("handed_on"))


def refused(error: RequestError | EngineError | WorkflowError) -> tuple[str, str, int]:
    """Code, message and status of a step that was not asked, or not answered."""
    code = error.code if isinstance(error.code, str) else "step_failed"
    return code, error.message, error.status


def _left_open(given: Mapping[str, Any], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of a client for the chat that answers it, without a second name of what that says itself, which is refused."""
    if _LENGTHS.isdisjoint(said):
        return given
    return {name: value for name, value in given.items() if name not in _LENGTHS}
