"""Takes finished answers off the request path to the store: usage and cost, the exact answer, the example, the log row.

One thread, one bounded queue. The event loop hands a journey over in a single call that cannot be interrupted; when the
queue is full the journey is counted and not remembered, and the client never notices.
"""

from __future__ import annotations

import queue
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from engines.chat import Usage, estimated_tokens, message_text
from gateway.answer import Answer
from gateway.assemble import Assembled, from_events, from_json
from gateway.journey import Journey
from gateway.log import log
from gateway.metrics import Metrics
from router.admission import Finished, refusal
from router.digest import cut, question, scope
from store.records import ExactAnswer, NewExample, RequestRecord, Vector

_QUEUE_JOURNEYS = 10_000
_GZIP_OR_ZLIB = 47
_GATHER_S = 0.002


class ExactSink(Protocol):
    """What is needed of store.exact_cache.ExactCache."""

    def put(self, key: bytes, tenant: str, answer: ExactAnswer) -> Future[Any]: ...


class ExampleSink(Protocol):
    """What is needed of store.examples.ExampleBank."""

    def add(self, new: NewExample) -> Future[Any]: ...

    def note_use(self, ids: Sequence[int]) -> None: ...


class RequestSink(Protocol):
    """What is needed of store.decisions.DecisionLog."""

    def record(self, record: RequestRecord) -> Future[Any]: ...


class BlockingEmbedder(Protocol):
    """What is needed of router.embedder.Embedder."""

    @property
    def version(self) -> str: ...

    def embed_blocking(self, text: str) -> Vector: ...


@dataclass(frozen=True, slots=True)
class Sinks:
    """Where things go; None is not kept."""

    exact: ExactSink | None = None
    examples: ExampleSink | None = None
    requests: RequestSink | None = None
    embedder: BlockingEmbedder | None = None
    tool_calls: bool = False
    """Whether answers that call tools are kept for exact repeats."""
    max_example_chars: int = 8000
    embedded_characters: int = 1500


class Recorder:
    """See the module. `report` is told every journey once its figures are complete."""

    def __init__(self, sinks: Sinks, metrics: Metrics, report: Callable[[Journey], None]) -> None:
        self._sinks = sinks
        self._metrics = metrics
        self._report = report
        self._queue: queue.Queue[Journey | None] = queue.Queue(_QUEUE_JOURNEYS)
        self._unfinished: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def take(self, journey: Journey) -> None:
        """Take over a finished journey. Never blocks, never raises."""
        if journey.answer is None:
            self._report(journey)
            return
        try:
            self._queue.put_nowait(journey)
        except queue.Full:
            self._metrics.remembered.labels("all", "queue_full").inc()
            self._report(journey)

    def settled(self) -> bool:
        """Whether everything taken so far is committed."""
        with self._lock:
            return self._queue.unfinished_tasks == 0 and not self._unfinished

    def close(self, timeout_s: float) -> bool:
        """Finish what was taken, within a limit. Returns whether all of it was."""
        self._queue.put(None)
        self._thread.join(timeout_s)
        end = time.monotonic() + timeout_s
        while not self.settled() and time.monotonic() < end:
            time.sleep(0.01)
        return self.settled()

    def _run(self) -> None:
        while (journey := self._next()) is not None:
            try:
                self._record(journey)
            except Exception as error:
                self._metrics.remembered.labels("all", "failed").inc()
                log("error", "recorder_failed", request=journey.id, error=error)
            finally:
                self._report(journey)
                journey.answer = None
                self._queue.task_done()
        self._queue.task_done()

    def _next(self) -> Journey | None:
        if self._queue.empty():
            journey = self._queue.get()
            # Let a few more gather: waking up for each one makes this thread and the event loop fight over the
            # interpreter, and costs a request more than all of its recording.
            time.sleep(_GATHER_S)
            return journey
        return self._queue.get()

    def _record(self, journey: Journey) -> None:
        answer = journey.answer
        assert answer is not None
        assembled = _assemble(answer)
        _count(journey, answer, assembled)
        if answer.hit is None:
            self._keep_exact(journey, answer, assembled)
            self._keep_example(journey, answer, assembled)
            if journey.example_ids and self._sinks.examples is not None:
                self._sinks.examples.note_use(journey.example_ids)
        if self._sinks.requests is not None and not answer.controls.no_store:
            self._follow("request", self._sinks.requests.record(_row(journey)))

    def _keep_exact(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> None:
        sink = self._sinks.exact
        if sink is None or answer.exact_key is None:
            return
        reason = _not_replayable(journey, answer, assembled, tool_calls=self._sinks.tool_calls)
        if reason is not None or assembled is None:
            self._metrics.remembered.labels("exact", reason or "not_understood").inc()
            return
        streamed = answer.content_type.startswith("text/event-stream")
        body = orjson.dumps(assembled.completion) if streamed else _decoded(answer)
        stored = ExactAnswer(
            body,
            "application/json" if streamed else answer.content_type,
            journey.engine,
            time.time(),
            usage_estimated=assembled.usage() is None,
        )
        self._follow("exact", sink.put(answer.exact_key, journey.tenant, stored))

    def _keep_example(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> None:
        sinks = self._sinks
        if sinks.examples is None or sinks.embedder is None or assembled is None:
            return
        chat = answer.chat
        text = question(chat.messages)
        reason = refusal(
            Finished(
                chat=chat,
                status=answer.status,
                complete=answer.complete and assembled.whole,
                opted_out=answer.controls.no_store,
                from_reference=answer.from_reference,
                question=text,
                answer=assembled.text(),
                finish_reason=assembled.finish_reason(),
                choices=len(assembled.choices()),
                calls_tools=assembled.calls_tools(),
                max_characters=sinks.max_example_chars,
            )
        )
        if reason is not None:
            self._metrics.remembered.labels("example", reason).inc()
            return
        embedded = cut(text, sinks.embedded_characters)
        new = NewExample(
            tenant=journey.tenant,
            scope=scope(chat),
            question=text,
            answer=assembled.text(),
            embedded_text=embedded,
            vector=self._vector(answer, embedded),
            embedding_version=sinks.embedder.version,
            source_engine=journey.engine,
            request_id=journey.id,
            prompt_tokens=journey.prompt_tokens,
            completion_tokens=journey.completion_tokens,
        )
        self._follow("example", sinks.examples.add(new))

    def _vector(self, answer: Answer, text: str) -> Vector | None:
        plan = answer.plan
        if plan is not None and plan.vector is not None and plan.embedded_text == text:
            return plan.vector
        assert self._sinks.embedder is not None
        try:
            return self._sinks.embedder.embed_blocking(text)
        except Exception as error:
            # Kept without a vector: a later pass embeds it.
            log("warning", "embedding_failed", error=error)
            return None

    def _follow(self, kind: str, future: Future[Any]) -> None:
        with self._lock:
            self._unfinished.add(future)

        def done(finished: Future[Any]) -> None:
            error = finished.exception()
            self._metrics.remembered.labels(kind, "stored" if error is None else "failed").inc()
            if error is not None:
                log("error", "store_failed", kind=kind, error=error)
            with self._lock:
                self._unfinished.discard(finished)

        future.add_done_callback(done)


def _decoded(answer: Answer) -> bytes:
    """The body without its content encoding. Raises zlib.error for one that is not gzip or deflate."""
    body = b"".join(answer.kept.chunks)
    return body if answer.identity else zlib.decompress(body, _GZIP_OR_ZLIB)


def _assemble(answer: Answer) -> Assembled | None:
    if answer.hit is not None:
        return from_json(answer.hit)
    if answer.kept.overflowed or not answer.kept.chunks:
        return None
    try:
        body = _decoded(answer)
    except zlib.error:
        return None
    streamed = answer.content_type.startswith("text/event-stream")
    return from_events(body) if streamed else from_json(body)


def _count(journey: Journey, answer: Answer, assembled: Assembled | None) -> None:
    """Tokens and cost, from the engine's own count where it gave one. A hit costs nothing, and neither does silence."""
    if answer.hit is not None or assembled is None or answer.status >= 400:
        return
    usage = assembled.usage()
    if usage is None:
        asked = (
            answer.attempt.messages if answer.attempt and answer.attempt.messages else answer.chat.messages
        )
        prompt = sum(estimated_tokens(message_text(m.get("content"))) + 4 for m in asked)
        said = sum(
            estimated_tokens(message_text(c.get("message", {}).get("content"))) for c in assembled.choices()
        )
        usage = Usage(prompt, said, estimated=True)
    journey.prompt_tokens, journey.completion_tokens = usage.prompt_tokens, usage.completion_tokens
    journey.usage_estimated = usage.estimated
    journey.cost_usd = answer.price.cost_usd(usage.prompt_tokens, usage.completion_tokens)


def _not_replayable(
    journey: Journey, answer: Answer, assembled: Assembled | None, *, tool_calls: bool
) -> str | None:
    """Why an answer may not be kept for exact repeats, or None."""
    if answer.controls.no_store:
        return "opted_out"
    if not 200 <= answer.status < 300:
        return "error"
    if not answer.complete or assembled is None or not assembled.whole:
        return "incomplete"
    if journey.reason.endswith("+failover"):
        return "stand_in"
    if assembled.calls_tools() and not tool_calls:
        return "tool_calls"
    if any(c.get("finish_reason") not in ("stop", "tool_calls") for c in assembled.choices()):
        return "cut_short"
    return None


def _row(journey: Journey) -> RequestRecord:
    def ms(seconds: float) -> float:
        return round(seconds * 1000, 3)

    return RequestRecord(
        id=journey.id,
        tenant=journey.tenant,
        started_at_s=journey.started_at_s,
        endpoint=journey.path,
        model=journey.model,
        engine=journey.engine,
        outcome=journey.outcome.value,
        status=journey.status,
        policy=journey.policy,
        policy_version=journey.policy_version,
        probability=journey.probability,
        reason=journey.reason,
        example_ids=journey.example_ids,
        prompt_tokens=journey.prompt_tokens,
        completion_tokens=journey.completion_tokens,
        usage_estimated=journey.usage_estimated,
        cost_usd=journey.cost_usd,
        total_ms=ms(journey.ended - journey.began),
        first_chunk_ms=None if journey.first_chunk is None else ms(journey.first_chunk - journey.began),
        overhead_ms=ms(journey.overhead_s),
        stages_ms=orjson.dumps({name: ms(s) for name, s in journey.stages.items()}).decode(),
    )
