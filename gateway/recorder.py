"""Takes finished requests off the request path: usage and cost first, then whatever the keepers keep, then the report.

One thread, one bounded queue. The event loop hands a request over in a single call that cannot be interrupted; when the
queue is full the request is counted and not remembered, and the client never notices.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

import structlog

from engines.answers.answer import Body
from engines.chat import Usage, prompt_tokens
from engines.codecs.table import codec_of
from gateway.booking import billed_usd, without_examples
from gateway.keepers.keeper import Keeper
from gateway.metrics import Metrics
from router.finished import Finished, Outcome
from store.errors import StoreError, ValueRefused

log = structlog.get_logger(__name__)

_QUEUED = 10_000
_QUEUED_BYTES = 2**28
"""Of requests and answers that wait, about: those that come when there are more are not remembered."""
_LOST_S = 30.0
"""For so long after a write that failed nobody can say that an answer is not there: it may be one that could not be kept."""
_TOLD_EVERY_S = 10.0
_GATHER_S = 0.02
_AT_ONCE_BYTES = 16 * 1024
"""Up to here assembling an answer costs the event loop less than a tenth of a millisecond."""


@dataclass(frozen=True, slots=True)
class _Taken:
    finished: Finished
    kept_at_once: bool = False
    """It was read, and the keepers that must not wait have had it."""
    size_bytes: int = 0
    """Of its request and its answer."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """Stands in the queue behind what was taken before it."""

    at_s: float
    """time.monotonic."""


@dataclass(slots=True)
class _Failing:
    """A kind of write that fails."""

    untold: int = 0
    silent_until_s: float = 0.0
    """Until then (time.monotonic) failures are counted only."""


class Recorder:
    """See the module. `report` is told of every finished request once its figures are complete.

    `at_once`: keepers that run in `take` itself for small answers, and like the others for large ones.
    """

    def __init__(
        self,
        keepers: Sequence[Keeper],
        metrics: Metrics,
        report: Callable[[Finished], None],
        *,
        at_once: Sequence[Keeper] = (),
    ) -> None:
        self._at_once = tuple(at_once)
        self._keepers = tuple(keepers)
        self._metrics = metrics
        self._remembered = lru_cache(maxsize=256)(metrics.remembered.labels)
        self._report = report
        # Not queue.Queue: what that costs a request, for conditions that nobody waits for, is more than all else here.
        self._queue: queue.SimpleQueue[_Taken | _Mark | None] = queue.SimpleQueue()
        self._untold = self._untold_bytes = 0
        """Taken and not reported yet."""
        self._lost_at_s = -_LOST_S
        """When a write failed last, since the database did."""
        self._unfinished: set[Future[Any]] = set()
        self._recorded_to_s = time.monotonic()
        self._closing = self._marking = False
        self._reached: tuple[float, tuple[Future[Any], ...]] | None = None
        """The mark that the thread came to last, and what was being written then."""
        self._failing: dict[str, _Failing] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def take(self, finished: Finished) -> None:
        """Take over a finished request. Never blocks, never raises."""
        taken = self._keep_at_once(finished)
        if self._queue.qsize() >= _QUEUED or self._untold_bytes > _QUEUED_BYTES:
            self._metrics.remembered.labels("all", "queue_full").inc()
            self._report(finished)
            return
        with self._lock:
            self._untold += 1
            self._untold_bytes += taken.size_bytes
        self._queue.put(taken)

    def _keep_at_once(self, finished: Finished) -> _Taken:
        """Who repeats a request the moment its answer is there expects a hit, and the thread may be a while."""
        body, chat = finished.body, finished.asked.chat
        size_bytes = body.size_bytes + len(chat.body)
        small = not body.encoded and max(body.size_bytes, len(chat.body)) <= _AT_ONCE_BYTES
        if finished.hit is not None or finished.exact_key is None or not small:
            return _Taken(finished, size_bytes=size_bytes)
        try:
            finished = _read(finished)
        except Exception as error:
            log.error("recorder_failed", request=finished.arrival.id, error=error)
            return _Taken(finished, size_bytes=size_bytes)
        self._keep(self._at_once, finished)
        return _Taken(finished, kept_at_once=True, size_bytes=size_bytes)

    def settled(self) -> bool:
        """Whether everything taken so far is committed."""
        with self._lock:
            return self._untold == 0 and not self._unfinished

    def queued(self) -> float:
        """The share of what may wait to be recorded that waits."""
        return max(self._untold / _QUEUED, self._untold_bytes / _QUEUED_BYTES)

    def recorded_to_s(self) -> float:
        """A time (time.monotonic): what was taken before is committed. Never blocks.

        To be asked again and again: each call begins to find out what a later one tells. It stands still for a while after
        the database failed.
        """
        if self._closing and self.settled():
            return time.monotonic()
        if time.monotonic() < self._lost_at_s + _LOST_S:
            return self._recorded_to_s
        with self._lock:
            if self._reached is not None and all(future.done() for future in self._reached[1]):
                self._recorded_to_s = self._reached[0]
                self._reached, self._marking = None, False
            if not self._marking and not self._closing:
                self._queue.put(_Mark(time.monotonic()))
                self._marking = True
            return self._recorded_to_s

    def close(self, timeout_s: float) -> bool:
        """Finish what was taken, within a limit. Returns whether all of it was."""
        with self._lock:
            # No mark may come after the end of the queue.
            self._closing = True
        self._queue.put(None)
        self._thread.join(timeout_s)
        end = time.monotonic() + timeout_s
        while not self.settled() and time.monotonic() < end:
            time.sleep(0.01)
        return self.settled()

    def _run(self) -> None:
        while (taken := self._next()) is not None:
            if isinstance(taken, _Mark):
                with self._lock:
                    self._reached = taken.at_s, tuple(self._unfinished)
                continue
            finished = taken.finished
            try:
                keepers = self._keepers
                if not taken.kept_at_once:
                    finished = _read(finished)
                    keepers = (*self._at_once, *keepers)
                self._keep(keepers, finished)
            except Exception as error:
                self._metrics.remembered.labels("all", "failed").inc()
                log.error("recorder_failed", request=finished.arrival.id, error=error)
            finally:
                self._report(finished)
                with self._lock:
                    self._untold -= 1
                    self._untold_bytes -= taken.size_bytes
            del taken, finished

    def _next(self) -> _Taken | _Mark | None:
        if self._queue.empty():
            taken = self._queue.get()
            # Let a few more gather: waking up for each one makes this thread and the event loop fight over the
            # interpreter, and costs a request more than all of its recording.
            time.sleep(_GATHER_S)
            return taken
        return self._queue.get()

    def _keep(self, keepers: Sequence[Keeper], finished: Finished) -> None:
        for keeper in keepers:
            try:
                for kind, kept in keeper.keep(finished):
                    if isinstance(kept, str):
                        self._counted(kind, kept)
                    else:
                        self.follow(kind, kept)
            except Exception as error:
                # One kind of memory that fails must not cost the others theirs.
                self._metrics.remembered.labels(type(keeper).__name__, "failed").inc()
                log.error(
                    "keeper_failed", keeper=type(keeper).__name__, request=finished.arrival.id, error=error
                )

    def follow(self, kind: str, future: Future[Any]) -> None:
        """Count what becomes of a write; `settled` waits for it. From any thread."""
        with self._lock:
            self._unfinished.add(future)

        def done(finished: Future[Any]) -> None:
            error = finished.exception()
            # The bank tells what became of a pair (added, merged, ...); the others have stored what they were given.
            result = "failed" if error is not None else getattr(finished.result(), "outcome", "stored")
            self._counted(kind, result)
            if isinstance(error, StoreError) and not isinstance(error, ValueRefused):
                self._lost_at_s = time.monotonic()
            if error is not None:
                self._tell(kind, error)
            with self._lock:
                self._unfinished.discard(finished)

        future.add_done_callback(done)

    def _counted(self, kind: str, result: str) -> None:
        self._remembered(kind, result).inc()

    def _tell(self, kind: str, error: BaseException) -> None:
        """Log a failure, and those that follow within seconds as a number: a full disk fails for every request."""
        with self._lock:
            failing = self._failing.setdefault(kind, _Failing())
            failing.untold += 1
            now_s = time.monotonic()
            if now_s < failing.silent_until_s:
                return
            count, failing.untold, failing.silent_until_s = failing.untold, 0, now_s + _TOLD_EVERY_S
        log.error("store_failed", kind=kind, count=count, error=error)


def _read(finished: Finished) -> Finished:
    """With the answer as one object, and its tokens and cost: from the engine's own count where it gave one.

    A hit costs nothing, and neither does silence.
    """
    hit, codec = finished.hit, codec_of(finished.asked.chat)
    assembled = codec.assembled(Body((hit,), len(hit), "application/json") if hit else finished.body)
    if finished.status >= 400 and not finished.guardrail:
        return _with(finished, assembled=assembled)
    if assembled is None:
        return _unread(finished)
    chat, sent = finished.asked.chat, _sent(finished)
    usage = assembled.used(prompt_tokens(sent))
    as_it_came = usage.prompt_tokens
    if sent is not chat.messages:
        share = prompt_tokens(chat.messages) / max(1, prompt_tokens(sent))
        as_it_came = round(usage.prompt_tokens * min(1.0, share))
    reference_usd = None
    if finished.reference_price is not None:
        # The reference would have got the request as it came. Its answer is taken to be as long as the one that was given.
        reference_usd = finished.reference_price.cost_usd(Usage(as_it_came, usage.completion_tokens))
    if finished.hit is not None:
        return _with(finished, assembled=assembled, reference_cost_usd=reference_usd)
    cost_usd = billed_usd(finished.price, usage, finished.broken_off)
    example_tokens = usage.prompt_tokens - as_it_came
    examples_usd = None
    if example_tokens and cost_usd is not None:
        alone_usd = billed_usd(finished.price, without_examples(usage, example_tokens), finished.broken_off)
        examples_usd = max(0.0, cost_usd - (alone_usd or 0.0))
    return _with(
        finished,
        assembled=assembled,
        usage=usage,
        cost_usd=cost_usd,
        example_tokens=example_tokens,
        examples_usd=examples_usd or 0.0,
        # What was saved is only known where both are.
        reference_cost_usd=None if cost_usd is None else reference_usd,
    )


def _unread(finished: Finished) -> Finished:
    """What can be said of an answer that cannot be read: it was too large, or none had come when its reader left."""
    if finished.hit is not None or not finished.asked_at:
        return finished
    if (reader := finished.body.reader()) is not None:
        usage = reader.usage(prompt_tokens(_sent(finished)))
        return _with(finished, usage=usage, cost_usd=billed_usd(finished.price, usage, finished.broken_off))
    asked_in_vain = finished.outcome is Outcome.FAILED and not finished.head_at
    return finished if asked_in_vain else _with(finished, cost_usd=None)


_FIELDS = tuple(field.name for field in fields(Finished))
_values = attrgetter(*_FIELDS)


def _with(finished: Finished, **changes: Any) -> Finished:
    """As dataclasses.replace, in two thirds of its time: these are many fields, and every request comes by here."""
    return Finished(**dict(zip(_FIELDS, _values(finished), strict=True)) | changes)


def _sent(finished: Finished) -> Sequence[Mapping[str, Any]]:
    """The messages that the engine got, examples among them."""
    attempt = finished.attempt
    return attempt.messages if attempt is not None and attempt.messages else finished.asked.chat.messages
