"""Takes finished requests off the request path: usage and cost first, then whatever the keepers keep, then the report.

One thread, one bounded queue. The event loop hands a request over in a single call that cannot be interrupted; when the
queue is full the request is counted and not remembered, and the client never notices.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple, Protocol, TypeVar

import structlog
from cachetools import LRUCache

from engines.answers.answer import Assembled, Body
from engines.chat import Usage, prompt_tokens
from engines.codecs.table import codec_of
from gateway.booking import billed_usd, without_examples
from gateway.keepers.keeper import Gathering, Keeper
from gateway.metrics import Metrics
from router.finished import Finished, Outcome
from store.errors import StoreError, ValueRefused

log = structlog.get_logger(__name__)

T = TypeVar("T")

_QUEUED = 10_000
_QUEUED_BYTES = 2**28
"""Of requests and answers that wait, about: those that come when there are more are not remembered."""
_LOST_S = 30.0
"""For so long after a write that failed nobody can say that an answer is not there: it may be one that could not be kept."""
_TOLD_EVERY_S = 10.0
_GATHER_S = 0.02
_TOGETHER = 64
"""Requests that are kept together: as many rows go into one statement."""
_EXPECTED_BYTES = 16 * 1024
"""Up to here reading an answer costs the event loop less than a tenth of a millisecond."""
_TURN_S, _REST_S = 0.0005, 0.00005
"""An event loop that wakes up waits for the interpreter until this thread lets go of it: by itself that takes 5 ms."""
_HITS, _HIT_BYTES = 256, 64 * 1024


class Expecting(Protocol):
    """Gives out the answers of requests that are taken, and not kept yet."""

    def expect(self, finished: Finished, read: Callable[[Finished], None]) -> None:
        """Whoever repeats this request gets its answer from now on; `read` reads it, where it is asked for."""
        ...

    def kept(self, finished: Finished) -> None:
        """It has been kept, or is not to be."""
        ...


class _Taken(NamedTuple):
    finished: Finished
    size_bytes: int
    """Of its request and its answer."""


class _Mark(NamedTuple):
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

    `expecting` answers repeats of what waits here: of small answers, for the event loop reads them then.
    """

    def __init__(
        self,
        keepers: Sequence[Keeper],
        metrics: Metrics,
        report: Callable[[Finished], None],
        *,
        expecting: Expecting | None = None,
    ) -> None:
        self._expecting = expecting
        self._keepers = tuple(keepers)
        self._gathering = [keeper for keeper in keepers if isinstance(keeper, Gathering)]
        self._metrics = metrics
        self._remembered = lru_cache(maxsize=256)(metrics.remembered.labels)
        self._report = report
        self._hits: LRUCache[bytes, _Hit] = LRUCache(_HITS)
        # Not queue.Queue: what that costs a request, for conditions that nobody waits for, is more than all else here.
        self._queue: queue.SimpleQueue[_Taken | _Mark | None] = queue.SimpleQueue()
        self._untold = self._untold_bytes = 0
        """Taken and not reported yet."""
        self._lost_at_s = -_LOST_S
        """When a write failed last, since the database did."""
        self._unfinished: set[Future[Any]] = set()
        self._recorded_to_s = time.monotonic()
        self._turn_ends_s = 0.0
        self._closing = self._marking = False
        self._reached: tuple[float, tuple[Future[Any], ...]] | None = None
        """The mark that the thread came to last, and what was being written then."""
        self._failing: dict[str, _Failing] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def take(self, finished: Finished) -> None:
        """Take over a finished request. Never blocks, never raises."""
        if self._queue.qsize() >= _QUEUED or self._untold_bytes > _QUEUED_BYTES:
            self._metrics.remembered.labels("all", "queue_full").inc()
            self._report(finished)
            return
        body, asked_bytes = finished.body, len(finished.asked.chat.body)
        if (
            self._expecting is not None
            and finished.hit is None
            and finished.exact_key is not None
            and not body.encoded
            and max(body.size_bytes, asked_bytes) <= _EXPECTED_BYTES
        ):
            # Who repeats a request the moment its answer is there expects a hit, and the thread may be a while.
            self._expecting.expect(finished, self._read)
        size_bytes = body.size_bytes + asked_bytes
        with self._lock:
            self._untold += 1
            self._untold_bytes += size_bytes
        self._queue.put(_Taken(finished, size_bytes))

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
        while True:
            batch = self._next()
            taken = [one for one in batch if isinstance(one, _Taken)]
            if taken:
                self._record(taken)
            if isinstance(batch[-1], _Mark):
                with self._lock:
                    self._reached = batch[-1].at_s, tuple(self._unfinished)
            elif batch[-1] is None:
                return
            del batch, taken

    def _next(self) -> list[_Taken | _Mark | None]:
        """What waits, up to a mark or the end."""
        waited = self._queue.empty()
        batch = [self._queue.get()]
        if waited:
            # Let a few more gather: waking up for each one makes this thread and the event loop fight over the
            # interpreter, and costs a request more than all of its recording.
            time.sleep(_GATHER_S)
        while isinstance(batch[-1], _Taken) and len(batch) < _TOGETHER and not self._queue.empty():
            batch.append(self._queue.get())
        return batch

    def _record(self, taken: Sequence[_Taken]) -> None:
        read: list[Finished] = []
        for finished, _ in self._in_turns(taken):
            try:
                self._read(finished)
                read.append(finished)
            except Exception as error:
                self._metrics.remembered.labels("all", "failed").inc()
                log.error("recorder_failed", request=finished.arrival.id, error=error)
        for keeper, finished in self._in_turns(product(self._keepers, read)):
            self._keep(keeper, finished)
        for gathering in self._gathering:
            self._write(gathering)
        for finished, _ in self._in_turns(taken):
            if self._expecting is not None and finished.hit is None:
                self._expecting.kept(finished)
            self._report(finished)
        with self._lock:
            self._untold -= len(taken)
            self._untold_bytes -= sum(size_bytes for _, size_bytes in taken)

    def _in_turns(self, batch: Iterable[T]) -> Iterator[T]:
        """The same, with a rest after every half millisecond, in which the event loop gets the interpreter."""
        for one in batch:
            # Not by the clock on the wall: that goes on while this thread waits for its turn.
            if time.thread_time() >= self._turn_ends_s:
                time.sleep(_REST_S)
                self._turn_ends_s = time.thread_time() + _TURN_S
            yield one

    def _keep(self, keeper: Keeper, finished: Finished) -> None:
        try:
            for kind, kept in keeper.keep(finished):
                if isinstance(kept, str):
                    self._counted(kind, kept)
                else:
                    self.follow(kind, kept)
        except Exception as error:
            # One kind of memory that fails must not cost the others theirs.
            self._failed(keeper, error, request=finished.arrival.id)

    def _write(self, keeper: Gathering) -> None:
        try:
            for kind, kept, count in keeper.write():
                self.follow(kind, kept, count)
        except Exception as error:
            self._failed(keeper, error)

    def _failed(self, keeper: object, error: Exception, **which: str) -> None:
        self._metrics.remembered.labels(type(keeper).__name__, "failed").inc()
        log.error("keeper_failed", keeper=type(keeper).__name__, error=error, **which)

    def follow(self, kind: str, future: Future[Any], count: int = 1) -> None:
        """Count what becomes of a write, of so many; `settled` waits for it. From any thread."""
        with self._lock:
            self._unfinished.add(future)

        def done(finished: Future[Any]) -> None:
            error = finished.exception()
            # The bank tells what became of a pair (added, merged, ...); the others have stored what they were given.
            result = "failed" if error is not None else getattr(finished.result(), "outcome", "stored")
            self._counted(kind, result, count)
            if isinstance(error, StoreError) and not isinstance(error, ValueRefused):
                self._lost_at_s = time.monotonic()
            if error is not None:
                self._tell(kind, error)
            with self._lock:
                self._unfinished.discard(finished)

        future.add_done_callback(done)

    def _read(self, finished: Finished) -> None:
        """Note the answer as one object, and its tokens and cost: from the engine's own count where it gave one.

        A hit costs nothing, and neither does silence.
        """
        if finished.hit is not None:
            self._read_hit(finished)
            return
        chat, sent = finished.asked.chat, _sent(finished)
        assembled = finished.assembled = codec_of(chat).assembled(finished.body)
        if finished.status >= 400 and not finished.guardrail:
            finished.cost_usd = finished.beside_usd
            return
        if assembled is None:
            _unread(finished)
            return
        usage = assembled.used(prompt_tokens(sent))
        as_it_came = usage.prompt_tokens
        if sent is not chat.messages:
            share = prompt_tokens(chat.messages) / max(1, prompt_tokens(sent))
            as_it_came = round(usage.prompt_tokens * min(1.0, share))
        cost_usd = billed_usd(finished.price, usage, finished.broken_off)
        example_tokens = usage.prompt_tokens - as_it_came
        if example_tokens and cost_usd is not None:
            alone_usd = billed_usd(
                finished.price, without_examples(usage, example_tokens), finished.broken_off
            )
            finished.examples_usd = max(0.0, cost_usd - (alone_usd or 0.0))
        finished.usage, finished.cost_usd, finished.example_tokens = usage, cost_usd, example_tokens
        if cost_usd is not None:
            finished.cost_usd = cost_usd + finished.beside_usd
            # What was saved is only known where both are.
            _reckon(finished, Usage(as_it_came, usage.completion_tokens))

    def _read_hit(self, finished: Finished) -> None:
        """The same of a hit. A remembered answer is read once, however often it is given out."""
        chat, given, key = finished.asked.chat, finished.hit, finished.exact_key or b""
        read = self._hits.get(key) if given else None
        if read is None or read.given is not given:
            body = Body((given,), len(given), "application/json") if given else finished.body
            assembled = codec_of(chat).assembled(body)
            usage = assembled.used(prompt_tokens(chat.messages)) if assembled is not None else None
            read = _Hit(given, assembled, usage)
            if key and given and len(given) <= _HIT_BYTES:
                self._hits[key] = read
        finished.assembled = read.assembled
        if read.usage is not None and (finished.status < 400 or finished.guardrail):
            _reckon(finished, read.usage)

    def _counted(self, kind: str, result: str, count: int = 1) -> None:
        self._remembered(kind, result).inc(count)

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


class _Hit(NamedTuple):
    """A remembered answer, read."""

    given: bytes | None
    assembled: Assembled | None
    usage: Usage | None


def _reckon(finished: Finished, usage: Usage) -> None:
    """Note what the reference would have charged. It would have got the request as it came, and is taken to have answered
    at the same length."""
    if finished.reference_price is not None:
        finished.reference_cost_usd = finished.reference_price.cost_usd(
            Usage(usage.prompt_tokens, usage.completion_tokens)
        )


def _unread(finished: Finished) -> None:
    """Note what can be said of an answer that cannot be read: it was too large, or none had come when its reader left."""
    if not finished.asked_at:
        return
    if (reader := finished.body.reader()) is not None:
        usage = finished.usage = reader.usage(prompt_tokens(_sent(finished)))
        cost_usd = billed_usd(finished.price, usage, finished.broken_off)
        finished.cost_usd = None if cost_usd is None else cost_usd + finished.beside_usd
    elif finished.outcome is not Outcome.FAILED or finished.head_at:
        finished.cost_usd = None


def _sent(finished: Finished) -> Sequence[Mapping[str, Any]]:
    """The messages that the engine got, examples among them."""
    attempt = finished.attempt
    return attempt.messages if attempt is not None and attempt.messages else finished.asked.chat.messages
