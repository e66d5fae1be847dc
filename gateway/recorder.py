"""Takes finished answers off the request path: usage and cost first, then whatever the keepers keep, then the report.

One thread, one bounded queue. The event loop hands a journey over in a single call that cannot be interrupted; when the
queue is full the journey is counted and not remembered, and the client never notices.
"""

from __future__ import annotations

import queue
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import structlog

from engines.chat import Usage, estimated_tokens, message_text
from engines.finished import Assembled, from_events, from_json
from gateway.answer import Answer
from gateway.journey import Journey
from gateway.keepers.keeper import Keeper, decoded
from gateway.metrics import Metrics

log = structlog.get_logger(__name__)

_QUEUE_JOURNEYS = 10_000
_GATHER_S = 0.002
_AT_ONCE_BYTES = 16 * 1024
"""Up to here assembling an answer costs the event loop less than a tenth of a millisecond."""


class Recorder:
    """See the module. `report` is told every journey once its figures are complete.

    `at_once`: keepers that run in `take` itself for small answers, and like the others for large ones.
    """

    def __init__(
        self,
        keepers: Sequence[Keeper],
        metrics: Metrics,
        report: Callable[[Journey], None],
        *,
        at_once: Sequence[Keeper] = (),
    ) -> None:
        self._at_once = tuple(at_once)
        self._keepers = tuple(keepers)
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
        self._keep_at_once(journey, journey.answer)
        try:
            self._queue.put_nowait(journey)
        except queue.Full:
            self._metrics.remembered.labels("all", "queue_full").inc()
            self._report(journey)

    def _keep_at_once(self, journey: Journey, answer: Answer) -> None:
        """Who repeats a request the moment its answer is there expects a hit, and the thread may be a while."""
        small = answer.identity and answer.kept.size_bytes <= _AT_ONCE_BYTES
        if answer.hit is not None or answer.exact_key is None or not small:
            return
        try:
            answer.assembled = _assemble(answer)
        except Exception as error:
            log.error("recorder_failed", request=journey.id, error=error)
            return
        answer.kept_at_once = True
        self._keep(self._at_once, journey, answer)

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
                log.error("recorder_failed", request=journey.id, error=error)
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
        if not answer.kept_at_once:
            answer.assembled = _assemble(answer)
        _count(journey, answer, answer.assembled)
        keepers = self._keepers if answer.kept_at_once else (*self._at_once, *self._keepers)
        self._keep(keepers, journey, answer)

    def _keep(self, keepers: Sequence[Keeper], journey: Journey, answer: Answer) -> None:
        for keeper in keepers:
            try:
                for kind, kept in keeper.keep(journey, answer, answer.assembled):
                    if isinstance(kept, str):
                        self._metrics.remembered.labels(kind, kept).inc()
                    else:
                        self._follow(kind, kept)
            except Exception as error:
                # One kind of memory that fails must not cost the others theirs.
                self._metrics.remembered.labels(type(keeper).__name__, "failed").inc()
                log.error("keeper_failed", keeper=type(keeper).__name__, request=journey.id, error=error)

    def _follow(self, kind: str, future: Future[Any]) -> None:
        with self._lock:
            self._unfinished.add(future)

        def done(finished: Future[Any]) -> None:
            error = finished.exception()
            # The bank tells what became of a pair (added, merged, ...); the others have stored what they were given.
            result = "failed" if error is not None else getattr(finished.result(), "outcome", "stored")
            self._metrics.remembered.labels(kind, result).inc()
            if error is not None:
                log.error("store_failed", kind=kind, error=error)
            with self._lock:
                self._unfinished.discard(finished)

        future.add_done_callback(done)


def _assemble(answer: Answer) -> Assembled | None:
    if answer.hit is not None:
        return from_json(answer.hit)
    if answer.kept.overflowed or not answer.kept.chunks:
        return None
    try:
        body = decoded(answer)
    except zlib.error:
        return None
    streamed = answer.content_type.startswith("text/event-stream")
    return from_events(body) if streamed else from_json(body)


def _count(journey: Journey, answer: Answer, assembled: Assembled | None) -> None:
    """Tokens and cost, from the engine's own count where it gave one. A hit costs nothing, and neither does silence."""
    if assembled is None or answer.status >= 400:
        return
    sent = answer.attempt.messages if answer.attempt and answer.attempt.messages else answer.chat.messages
    usage = assembled.usage()
    if usage is None:
        said = sum(
            estimated_tokens(message_text((c.get("message") or {}).get("content")))
            for c in assembled.choices()
        )
        usage = Usage(_prompt_tokens(sent), said, estimated=True)
    if answer.reference_price is not None:
        # The reference would have got the request as it came. Its answer is taken to be as long as the one that was given.
        as_it_came = 1.0
        if sent is not answer.chat.messages:
            as_it_came = _prompt_tokens(answer.chat.messages) / max(1, _prompt_tokens(sent))
        prompt_tokens = round(usage.prompt_tokens * min(1.0, as_it_came))
        journey.reference_cost_usd = answer.reference_price.cost_usd(prompt_tokens, usage.completion_tokens)
    if answer.hit is not None:
        return
    journey.prompt_tokens, journey.completion_tokens = usage.prompt_tokens, usage.completion_tokens
    journey.usage_estimated = usage.estimated
    journey.cached_tokens = usage.cached_tokens
    journey.cost_usd = _cost_usd(answer, usage)


def _cost_usd(answer: Answer, usage: Usage) -> float:
    """Each engine that had a part in it was paid: for the request and what was said before, and for what it said."""
    cost_usd, before = 0.0, 0
    for price, said in answer.broken_off:
        cost_usd += price.cost_usd(usage.prompt_tokens + before, said)
        before += said
    last = max(0, usage.completion_tokens - before)
    return cost_usd + answer.price.cost_usd(usage.prompt_tokens + before, last)


def _prompt_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(estimated_tokens(message_text(m.get("content"))) + 4 for m in messages)
