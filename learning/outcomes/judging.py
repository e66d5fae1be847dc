"""Judges a sample of finished requests in the background: asks the other side, has a judge compare, notes what came of it.

For a small engine's answer the other side is the reference; for the reference's it is a small engine, with the examples
that were found or without. Only a coin is tossed on the request's way out. What is sampled waits in a bounded queue, is
asked about when the engines have room and money is left, and lives in memory only: a crash loses samples, nothing else.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import structlog

from engines.asking import Bill, NotAnswered
from engines.engine import Engine
from engines.finished import Assembled
from learning.outcomes.comparison import Comparison, example_qualities
from learning.outcomes.judging_limits import JudgingLimits
from learning.outcomes.judging_metrics import JudgingMetrics
from learning.outcomes.judging_sample import Sample, sample, served_answer, why_not
from learning.outcomes.known_quality import OnOutcomes
from learning.outcomes.spend import Spend
from router.finished import Finished
from store.decisions.outcomes import Outcomes
from store.examples.accounting import Ledger

log = structlog.get_logger(__name__)

_LOOK_AGAIN_S = 0.25


class Judging:
    """Judges a sample of the finished requests that `take` is given between `start` and `aclose`; all on the event loop."""

    def __init__(
        self,
        engines: Mapping[str, Engine],
        models: Mapping[str, Sequence[str]],
        judge: str,
        outcomes: Outcomes,
        metrics: JudgingMetrics,
        limits: JudgingLimits,
        *,
        qualities: Ledger | None = None,
        known: OnOutcomes | None = None,
        opted_out_keys: Collection[str] = (),
        spend: Spend | None = None,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`models`: served model to its engines, small to large. `judge`: the name of the engine that judges."""
        self._engines = engines
        self._models = {name: tuple(names) for name, names in models.items()}
        self._judge = engines[judge]
        self._outcomes = outcomes
        self._metrics = metrics
        self._limits = limits
        self._comparison = Comparison(engines, self._judge, metrics, self._limits, self._room)
        self._qualities = qualities
        self._known = known
        self._opted_out_keys = frozenset(opted_out_keys)
        self.spend = spend or Spend(self._limits.max_usd_per_day, self._limits.max_usd_per_hour)
        self._rng = rng or random.Random()
        self._clock = clock
        self._queue: asyncio.Queue[tuple[float, Sample]] = asyncio.Queue(self._limits.max_waiting)
        self._waiting_bytes = 0
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to judge."""
        self._running = asyncio.get_running_loop().create_task(self._run(), name="judging")

    async def aclose(self) -> None:
        """Stop at once: what is under way is cancelled, what waits is forgotten. Before the engines are closed."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])
        while not self._queue.empty():
            self._queue.get_nowait()
            self._queue.task_done()
        self._waiting_bytes = 0

    async def join(self) -> None:
        """Wait until everything sampled so far is judged."""
        await self._queue.join()

    def take(self, finished: Finished) -> None:
        """Maybe sample a finished request. Never waits, never raises."""
        try:
            taken = self._sampled(finished)
            if taken is None:
                return
            if self._running is None:
                self._metrics.dropped.labels("stopped").inc()
                return
            if self._waiting_bytes + taken.size_bytes > self._limits.max_waiting_bytes:
                raise asyncio.QueueFull
            self._queue.put_nowait((time.monotonic(), taken))
            self._waiting_bytes += taken.size_bytes
        except asyncio.QueueFull:
            self._metrics.dropped.labels("queue_full").inc()
        except Exception as error:
            self._metrics.dropped.labels("failed").inc()
            log.error("judging_failed", request=finished.arrival.id, error=error)

    def _sampled(self, finished: Finished) -> Sample | None:
        engines = self._models.get(finished.model)
        if engines is None or finished.attempt is None:
            return None
        limits = self._limits
        reference_served = finished.attempt.engine == engines[-1]
        share = limits.share_reference if reference_served else limits.share_offloaded
        if share <= 0 or why_not(finished, engines, self._opted_out_keys, max_bytes=limits.max_bytes):
            return None
        return sample(finished, engines, share=share, others=limits.others, rng=self._rng)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as workers:
            for number in range(self._limits.max_in_flight):
                workers.create_task(self._work(), name=f"judging {number}")

    async def _work(self) -> None:
        while True:
            since, taken = await self._queue.get()
            self._waiting_bytes -= taken.size_bytes
            try:
                result = await self._judged(taken, since)
            except NotAnswered as error:
                result = "unanswered"
                log.debug("judging_unanswered", request=taken.request_id, reason=str(error))
            except Exception as error:
                result = "failed"
                log.error("judging_failed", request=taken.request_id, error=error)
            finally:
                self._queue.task_done()
            self._metrics.samples.labels(result).inc()

    async def _judged(self, taken: Sample, since: float) -> str:
        """What became of a sample. Raises NotAnswered, and whatever a store or a broken component raises."""
        served = await asyncio.to_thread(served_answer, taken.body)
        if served is None:
            return "unreadable"
        if not await self._quiet(taken, since + self._limits.patience_s):
            return "busy"
        most = self._comparison.most_usd(taken, served.text())
        if not self.spend.reserve(most):
            return "over_budget"
        bill = Bill({})
        try:
            async with asyncio.timeout(self._limits.deadline_s):
                return await self._compared(taken, served, bill)
        except TimeoutError:
            return "late"
        finally:
            self.spend.settle(most, bill.usd)
            for (engine, purpose), usd in bill.items.items():
                self._metrics.cost.labels(engine, purpose).inc(usd)

    async def _compared(self, taken: Sample, served: Assembled, bill: Bill) -> str:
        compared = await self._comparison.compare(taken, served, bill)
        if not compared:
            return "unread"
        at_s, judge = self._clock(), self._judge.info.name
        records = [each.record(taken, judge, at_s) for each in compared]
        written = self._outcomes.note_many(records)
        written.add_done_callback(_report_failure)
        if self._qualities is not None:
            for id, quality in example_qualities(compared):
                self._qualities.note_quality(id, quality)
        if self._known is not None:
            await asyncio.wrap_future(written)
            await asyncio.to_thread(self._known, taken.tenant, taken.request_id, records)
        return "judged"

    async def _quiet(self, taken: Sample, until: float) -> bool:
        """Wait until neither the judge nor an engine of the sample is pressed. False where that takes too long."""
        names = {taken.reference, taken.served.engine, *(way.engine for way in taken.others)}
        engines = [self._judge, *(self._engines[name] for name in names)]
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                while any(self._pressed(engine) for engine in engines):
                    await self._a_moment()
        except TimeoutError:
            return False
        return True

    async def _room(self, engine: Engine) -> None:
        """Wait until the engine is not pressed: what began in a quiet moment need not go on in a busy one."""
        while self._pressed(engine):
            await self._a_moment()

    async def _a_moment(self) -> None:
        # Not all workers at once when the load falls.
        await asyncio.sleep(_LOOK_AGAIN_S * (1 + self._rng.random()))

    def _pressed(self, engine: Engine) -> bool:
        load = engine.load()
        return not load.open or load.utilisation > self._limits.pause_above


def _report_failure(written: Future[Any]) -> None:
    error = written.exception() if not written.cancelled() else None
    if error is not None:
        log.error("store_failed", kind="outcome", error=error)
