"""The engine behind each workflow that is called as a model: a run of it, answered with the text of its output step.

Until the first piece of that text is there no answer begins, so that a step that fails by then is an error with a status. A
client that leaves cancels the run. It charges nothing: its steps are requests, and are paid for one by one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import TracebackType

import orjson
from multidict import CIMultiDict

from engines.apis import Api
from engines.as_events import EVENTS
from engines.chat import ChatRequest, Usage
from engines.codecs.said import Said
from engines.codecs.table import codec_of, request_id_header
from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest, Price
from engines.errors import RequestError
from engines.loose_json import member
from engines.run_call import WORKFLOW, RunCall
from gateway.booking import COST, shown
from gateway.runs.events import IDLE, pieces, text_of
from gateway.runs.intake import refusals
from workflows.progress import Failure
from workflows.running.cell import Cell
from workflows.running.live import LiveRun, used_by
from workflows.running.runs import Runs
from workflows.running.workflow import NewWorkflow

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
_APIS: tuple[Api, ...] = ("chat", "responses", "messages", "completions")
_JSON = "application/json"


class WorkflowEngine:
    """See engines.engine.Engine. `runs` gives what carries runs out, once that is built."""

    def __init__(self, runs: Callable[[], Runs | None]) -> None:
        self._runs = runs
        self.info = EngineInfo(WORKFLOW, price=Price(0.0, 0.0), apis=frozenset(_APIS))

    def stream(self, request: EngineRequest) -> _Answer:
        """See Engine. Raises RequestError for a run that cannot begin."""
        runs, call, chat = self._runs(), request.call, request.chat
        assert runs is not None and call is not None and chat is not None
        if member(chat.own_fields.get("stream_options"), "include_usage"):
            # Its own client need not have asked: the usage is taken out of the stream on its way.
            chat = replace(chat, include_usage=True)
        return _Answer(runs, call, chat)

    def load(self) -> EngineLoad:
        return EngineLoad()

    async def health(self) -> None:
        """See Engine. It is part of this process."""

    async def aclose(self) -> None:
        """Runs outlive a configuration, and are closed elsewhere."""


class _Answer:
    """The answer of one run."""

    def __init__(self, runs: Runs, call: RunCall, chat: ChatRequest) -> None:
        self._runs = runs
        self._call = call
        self._chat = chat
        self._codec = codec_of(chat)
        self._run: LiveRun | None = None
        self._over = False
        """The run ends by itself from here on."""

    async def __aenter__(self) -> EngineReply:
        assert isinstance(self._call.new, NewWorkflow)
        with refusals():
            run = await self._runs.begin_workflow(self._call.new)
        assert isinstance(run, LiveRun)
        self._run, self._call.run = run, run.id
        try:
            return await self._begun(run, run.cells[run.output])
        except BaseException:
            self._leave()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        # Its client has left. A step that fails ends what depends on it only.
        if self._run is not None and not self._over:
            self._runs.left(self._run)

    async def _begun(self, run: LiveRun, cell: Cell) -> EngineReply:
        streams = self._chat.stream
        while streams and not cell.text and not (cell.ended and cell.kept):
            await cell.changed()
        if not cell.text or not streams:
            # Where another process carries it on by now, nothing of its text was sent.
            cell = await self._runs.until_ended(cell)
        if not (cell.ended and cell.kept):
            return self._reply(200, EVENTS, self._growing(run, cell))
        self._over = True
        if cell.state != "ready":
            return self._failed(cell)
        whole = self._codec.said(await self._said(run, cell), self._chat)
        if streams:
            return self._reply(200, EVENTS, self._codec.events(orjson.dumps(whole), self._chat))
        reply = self._reply(200, _JSON, orjson.dumps(whole | {"understudy": {"run": run.id}}))
        reply.headers[COST] = shown(run.used.cost_usd)
        return reply

    async def _growing(self, run: LiveRun, cell: Cell) -> AsyncIterator[bytes]:
        saying, begun = self._codec.saying(self._chat, streams=True), await self._said(run, cell)
        saying.begin(begun.id, begun.model, begun.created_s)
        async for piece in pieces(cell):
            if piece is not None:
                saying.text(piece)
            yield saying.take() or IDLE
        self._over = True
        if cell.state == "ready":
            (await self._said(run, cell)).ends(saying)
            yield saying.take()
        else:
            error = step_failed(cell.failure)
            self._call.failed = error.code
            yield saying.take() + self._codec.failed(error, number=saying.number)

    async def _said(self, run: LiveRun, cell: Cell) -> Said:
        self._call.repeatable = run.repeatable and not run.lost
        return Said(
            run.id,
            int(run.row.created_at_s),
            self._chat.model,
            text_of(cell),
            [{name: value for name, value in call.items() if name != "index"} for call in cell.calls],
            finish_reason=cell.finish_reason,
            usage=await self._usage(run),
        )

    async def _usage(self, run: LiveRun) -> Usage:
        """The sum over the steps of the run, whoever carried them out."""
        store = self._runs.store
        whole = await store.reads(store.run, run.id, run.tenant) if run.lost else None
        used = run.used if whole is None else used_by(step.progress for step in whole.steps)
        return Usage(used.prompt_tokens, used.completion_tokens, used.cached_tokens)

    def _failed(self, cell: Cell) -> EngineReply:
        error = step_failed(cell.failure)
        self._call.failed = error.code
        body = self._codec.error(error.status, error.message, code=error.code, param=error.param)
        reply = self._reply(error.status, _JSON, body)
        # SDKs would have all other steps asked again, too.
        reply.headers["x-should-retry"] = "false"
        return reply

    def _reply(self, status: int, content_type: str, body: bytes | AsyncIterator[bytes]) -> EngineReply:
        call = self._call
        headers = CIMultiDict(
            {
                "Content-Type": content_type,
                request_id_header(self._chat.api): call.request_id,
                "x-request-id": call.request_id,
                "x-understudy-run": call.run,
            }
        )
        if content_type == EVENTS:
            headers["Cache-Control"] = "no-cache"
        elif isinstance(body, bytes):
            headers["Content-Length"] = str(len(body))
        if isinstance(body, bytes):
            body = _one(body)
        return EngineReply(status, headers, body, engine=WORKFLOW)


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


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
