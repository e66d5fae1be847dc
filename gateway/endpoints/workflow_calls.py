"""A chat completion whose model is a workflow: a run of it, answered with the text of its output step.

Until the first piece of that text is there nothing is sent, so that a step that fails by then is an error with a status. A
client that leaves cancels the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson
from aiohttp import web
from multidict import CIMultiDict

from engines.chat_json import read_chat_request
from engines.errors import RequestError
from engines.off_loop import off_loop
from gateway.endpoints.steps import RunCallers
from gateway.errors import error_body
from gateway.keys import needs_credential
from gateway.own_response import error_response, json_response
from gateway.relay import relay_for
from gateway.runs.caller import Caller
from gateway.runs.catalogue import Catalogue
from gateway.runs.intake import Idempotency, Taken, refusals, refuse_unstored
from gateway.send import SERVER
from router.finished import Journey, Outcome
from store.errors import StoreError
from store.workflows.records import RunBudget, StepProgress
from workflows.called import CallLimits, read_inputs
from workflows.criteria import Criteria
from workflows.definition import Definition
from workflows.progress import Failure
from workflows.running.cell import Cell
from workflows.running.chats import chat_of
from workflows.running.live import LiveRun, used_by
from workflows.running.runs import Runs
from workflows.running.workflow import NewWorkflow
from workflows.submitted import WorkflowAsked, read_workflow_call, read_workflow_run
from workflows.transform import as_text

_NO_STEPS_FAULT = frozenset(
    {
        "cancelled",
        "budget_exceeded",
        "run_lost",
        "too_many_steps",
        "total_too_large",
        "wait_too_long",
    }
)
_IDLE_S = 15.0
_IDLE = b": waiting\n\n"


class WorkflowCalls:
    """Answers chat completions that name a workflow."""

    def __init__(self, runs: Runs, catalogue: Catalogue, callers: RunCallers, limits: CallLimits) -> None:
        self._runs = runs
        self._catalogue = catalogue
        self._callers = callers
        self._limits = limits

    def concerns(self, fields: Mapping[str, Any]) -> bool:
        """See gateway.endpoints.model_endpoint.Instead."""
        model = fields.get("model")
        return isinstance(model, str) and model in self._catalogue

    async def names(self, tenant: str) -> list[str]:
        """The workflows that a tenant may call; none of its own where the store cannot be read."""
        try:
            return await self._catalogue.known(tenant)
        except StoreError:
            return sorted(self._catalogue.configured)

    async def answer(
        self,
        request: web.BaseRequest,
        target: str,
        body: bytes,
        fields: dict[str, Any],
        journey: Journey,
    ) -> web.StreamResponse | None:
        """See gateway.endpoints.model_endpoint.Instead. None: the model is no workflow of this tenant."""
        with refusals():
            definition = await self._catalogue.find(journey.admitted.tenant, fields["model"])
        if definition is None:
            return None
        needs_credential(journey.admitted.anonymous)
        journey.model = str(fields["model"])
        chat = await off_loop(len(body), read_chat_request, body, fields)
        with refusals():
            asked = read_workflow_call(fields)
        caller = self._callers.caller(request, target, fields, chat, journey.admitted)
        new = await self._new(definition, asked, fields, caller, len(body))
        with refusals():
            run = await self._runs.begin_workflow(new)
        assert isinstance(run, LiveRun)
        answer = Answer(self._runs, run, journey.model)
        try:
            if asked.stream:
                return await answer.stream(request, journey, usage=chat.include_usage)
            return await answer.whole(journey)
        except BaseException:
            # Its client has left. A step that fails ends what depends on it only.
            self._runs.left(run)
            raise

    async def run(
        self,
        request: web.BaseRequest,
        target: str,
        body: bytes,
        fields: dict[str, Any],
        repeat: Idempotency,
        journey: Journey,
    ) -> tuple[WorkflowAsked, Taken]:
        """A run of a workflow that the body of `POST /v1/runs` asks for, begun. Raises RequestError."""
        with refusals():
            asked = read_workflow_run(fields)
        journey.model = asked.name[:100]
        with refusals():
            definition = await self._catalogue.find(journey.admitted.tenant, asked.name)
        if definition is None:
            raise no_workflow(asked.name)
        chat = chat_of({"model": asked.name, "messages": [{"role": "user", "content": ""}]})
        caller = self._callers.caller(request, target, {}, chat, journey.admitted)
        refuse_unstored(caller, background=asked.background)
        new = await self._new(definition, asked, None, caller, len(body))
        with refusals():
            begun = await self._runs.begin_workflow(
                replace(new, idempotency_key=repeat.key, idempotency_hash=repeat.hash)
            )
        if isinstance(begun, LiveRun):
            return asked, Taken(begun.id, {}, begun)
        return asked, Taken(begun.run_id, {}, None)

    async def _new(
        self,
        definition: Definition,
        asked: WorkflowAsked,
        chat: Mapping[str, Any] | None,
        caller: Caller,
        size: int,
    ) -> NewWorkflow:
        with refusals():
            inputs = await off_loop(size, read_inputs, definition, chat, asked.inputs, self._limits)
        return NewWorkflow(
            caller,
            definition,
            inputs,
            criteria=Criteria.TTFT if asked.stream else Criteria.LATENCY,
            fields=asked.sampling,
            budget=RunBudget(asked.budget.usd, asked.budget.tokens, asked.budget.seconds),
            background=asked.background,
            size_bytes=size,
        )


class Answer:
    """The output of one run as a chat completion."""

    def __init__(self, runs: Runs, run: LiveRun, model: str) -> None:
        self._runs = runs
        self._run = run
        self._head = {"id": f"chatcmpl-{run.id}", "created": int(runs.now()), "model": model}

    @property
    def _cell(self) -> Cell:
        return self._run.cells[self._run.output]

    async def whole(self, journey: Journey) -> web.Response:
        """All of it; a 424 where there is none."""
        cell = await self._runs.until_ended(self._cell)
        if cell.state != "ready":
            return self._failed(cell, journey)
        journey.answered(200)
        message = {"role": "assistant", "content": text_of(cell), "refusal": None}
        response = json_response(
            self._head
            | {
                "object": "chat.completion",
                "choices": [
                    {"index": 0, "message": message, "logprobs": None, "finish_reason": cell.finish_reason}
                ],
                "usage": await self._usage(),
                "understudy": {"run": self._run.id},
            }
        )
        response.headers["x-understudy-run"] = self._run.id
        return response

    async def stream(self, request: web.BaseRequest, journey: Journey, *, usage: bool) -> web.StreamResponse:
        """The same as events, as it comes. A failure before the first piece is a 424, and later an event."""
        cell = self._cell
        while not cell.text and not (cell.ended and cell.kept):
            await cell.changed()
        if not cell.text:
            # Where another process carries it on by now, nothing of its text was sent.
            cell = await self._runs.until_ended(cell)
        if cell.ended and cell.state != "ready":
            return self._failed(cell, journey)
        journey.answered(200)
        send = relay_for(request)
        head = {
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-store",
            "Server": SERVER,
            "x-request-id": journey.admitted.id,
            "x-understudy-run": self._run.id,
        }
        write = await send.begin(200, CIMultiDict(head))
        await write(self._chunk({"role": "assistant", "content": ""}))
        async for piece in pieces(cell):
            await write(_IDLE if piece is None else self._chunk({"content": piece}))
        if cell.state != "ready":
            # Its code: an engine's message may quote what it was asked, and the log holds no words.
            journey.outcome, journey.error = Outcome.FAILED, step_failed(cell.failure).code
        await write(await self._end(cell, usage=usage))
        return send.response

    async def _usage(self) -> dict[str, Any]:
        store = self._runs.store
        whole = await store.reads(store.run, self._run.id, self._run.tenant) if self._run.lost else None
        if whole is None:
            return usage_of(self._run.steps.values())
        return usage_of(step.progress for step in whole.steps)

    def _failed(self, cell: Cell, journey: Journey) -> web.Response:
        error = step_failed(cell.failure)
        journey.answered(error.status, Outcome.FAILED)
        journey.error = error.code
        response = error_response(error.status, error.message, code=error.code, param=error.param)
        response.headers["x-request-id"] = journey.admitted.id
        response.headers["x-understudy-run"] = self._run.id
        # SDKs would have all other steps asked again, too.
        response.headers["x-should-retry"] = "false"
        return response

    async def _end(self, cell: Cell, *, usage: bool) -> bytes:
        if cell.state != "ready":
            error = step_failed(cell.failure)
            body = error_body(error.status, error.message, code=error.code, param=error.param)
            return b"data: " + body + b"\n\n"
        end = self._chunk({}, finish_reason=cell.finish_reason)
        if usage:
            end += self._event({"choices": [], "usage": await self._usage()})
        return end + b"data: [DONE]\n\n"

    def _chunk(self, delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._event({"choices": [choice]})

    def _event(self, more: Mapping[str, Any]) -> bytes:
        return b"data: " + orjson.dumps({**self._head, "object": "chat.completion.chunk", **more}) + b"\n\n"


async def pieces(cell: Cell) -> AsyncIterator[str | None]:
    """The text of a variable as it comes, until its end is committed; None where nothing came for a while."""
    told = 0
    while True:
        text = text_of(cell)
        if len(text) > told:
            piece, told = text[told:], len(text)
            yield piece
            continue
        if cell.ended and cell.kept:
            return
        try:
            async with asyncio.timeout(_IDLE_S):
                await cell.changed()
        except TimeoutError:
            yield None


def text_of(cell: Cell) -> str:
    """What a variable says so far; of a list its items, a line each."""
    return as_text(cell.value) if cell.value is not None else cell.text


def usage_of(steps: Iterable[StepProgress]) -> dict[str, Any]:
    """What a run has used by now: the sum over its steps."""
    used = used_by(steps)
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.prompt_tokens + used.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
    }


def no_workflow(name: str) -> RequestError:
    """The same for another tenant's and for one that never was."""
    return RequestError(
        f"There is no workflow {name[:100]!r}.", status=404, code="workflow_not_found", param="workflow"
    )


def step_failed(failure: Failure | None) -> RequestError:
    """Why a run has no output: the step where it began, and the cause."""
    if failure is None:
        return RequestError("The run was cancelled.", status=424, code="cancelled")
    step = failure.chain[-1] if failure.chain else ""
    if failure.code == "skipped":
        message = f"The branch of the output {step!r} was not taken."
        return RequestError(message, status=424, code="output_skipped", param=step)
    if failure.code in _NO_STEPS_FAULT:
        return RequestError(failure.message, status=424, code=failure.code, param=step or None)
    return RequestError(
        f"Step {step!r} failed: {failure.message}",
        status=failure.status or 424,
        code=failure.code,
        param=step,
    )
