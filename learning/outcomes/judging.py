"""Compares a sample of finished requests in the background: asks the other side, compares, notes what came of it.

For a small engine's answer the other side is the reference; for the reference's it is a small engine, with the examples
that were found and without. How often follows from what hangs on it (Plan.proof) or is configured. Only a coin is tossed on
the request's way out. What is sampled waits in a bounded queue, is asked about when the engines have room and the tenant's
account allows it, and lives in memory only: a crash loses samples, nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal, NamedTuple

import structlog

from engines.answers.answer import Assembled
from engines.asking import Bill, NotAnswered
from engines.chat import tokens_in_bytes
from engines.engine import Engine
from learning.outcomes.account import SMALL_TOKEN, Accounts, Purse, Unit, price_in, report_failure
from learning.outcomes.comparison import (
    Compared,
    Comparison,
    Means,
    NoJudge,
    TooDear,
    Unjudged,
    equality_key,
    example_qualities,
    miscalled,
    praised,
)
from learning.outcomes.equal import settles
from learning.outcomes.equality_alone import EqualityAlone
from learning.outcomes.judge_exam import QUESTIONS, READ_FROM_THE_FIRST, Exams
from learning.outcomes.judging_limits import JudgingLimits
from learning.outcomes.judging_metrics import JudgingMetrics
from learning.outcomes.judging_sample import (
    Sample,
    Told,
    held_bytes,
    miscalled_sample,
    sample,
    served_answer,
    told_sample,
    why_not,
)
from learning.outcomes.known_quality import OnOutcomes
from learning.outcomes.looking import looked_at
from router.finished import Finished
from router.plan import Attempt, Plan
from router.proving.standing import Proof
from router.shedding import NEVER, STILL_COMPARED, Loaded, Work
from store.decisions.outcomes import Outcomes
from store.decisions.usage import Amounts, Line, Used
from store.examples.accounting import Ledger
from store.records import OutcomeRecord

log = structlog.get_logger(__name__)

_LOOK_AGAIN_S = 0.25
_TOLD_TIMES = 8
_MOST_SAID = 1000
_RARE = 0.01
"""Most that is sampled where proof costs more than it can save."""
_HELD, _HELD_BYTES = 2_000, 16 * 1024 * 1024
"""Latest requests, and bytes of them, that are kept in memory for the case that a person says how good an answer was."""
_FIRST = -2.0
"""Before all that was drawn, in the queue."""
_LEAST_PROBING = 0.1
"""The least share of probes, once nothing is left of the allowance."""
_WORTH_A_JUDGE = 20
"""Comparisons for which a judge must be affordable where equality may tell without one; any proof takes more."""


class _Came(NamedTuple):
    """The result of a sample."""

    result: str
    unread: int = 0
    """Answers whose verdicts could not be read."""
    noted_usd: float = 0.0
    """The part of its cost that stands with its outcomes."""


class Judging:
    """Judges a sample of the finished requests that `take` is given between `start` and `aclose`; all on the event loop."""

    def __init__(
        self,
        engines: Mapping[str, Engine],
        models: Mapping[str, Sequence[str]],
        judge: str | None,
        outcomes: Outcomes,
        metrics: JudgingMetrics,
        limits: JudgingLimits,
        accounts: Accounts,
        *,
        qualities: Ledger | None = None,
        known: OnOutcomes | None = None,
        teacher_said: Callable[[str, str, str], bool] | None = None,
        opted_out_keys: Collection[str] = (),
        book: Callable[[Used], object] = lambda used: None,
        exams: Exams | None = None,
        load: Loaded = NEVER,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`models`: served model to its engines, small to large. `judge`: the name of the engine that judges; None: each
        model's largest that passes its exam. `teacher_said` is told, on a thread, the tenant and id of a task's request
        that a small engine answered, and what the reference says to it; it returns whether it knows the request. `book` is
        told what every comparison used: verdicts and answers apart. `exams`: which judges passed; None: nobody is
        examined."""
        self._book = book
        self._engines = engines
        self._models = {name: tuple(names) for name, names in models.items()}
        self._outcomes = outcomes
        self._metrics = metrics
        self._limits = limits
        self._rng = rng or random.Random()
        self._alone = EqualityAlone(self._rng)
        self._comparison = Comparison(
            engines,
            judge,
            metrics,
            self._limits,
            self._room,
            self._alone,
            models=self._models,
            exams=exams,
        )
        self._accounts = accounts
        self._said: set[tuple[str, str]] = set()
        self._qualities = qualities
        self._known = known
        self._teacher_said = teacher_said
        self._opted_out_keys = frozenset(opted_out_keys)
        self._load = load
        self._clock = clock
        self._queue: asyncio.PriorityQueue[tuple[float, int, float, Sample]] = asyncio.PriorityQueue(
            self._limits.max_waiting
        )
        """By probability: what was wished most comes first."""
        self._held: dict[tuple[str, str], tuple[Finished, int]] = {}
        """By tenant and id, each with its bytes."""
        self._held_bytes = 0
        self._taken = itertools.count()
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
            if finished.plan is not None and finished.plan.proof is not None:
                self._hold(finished)
            if finished.repaired is not None:
                self._miscalled(finished, finished.repaired)
                return
            taken = self._sampled(finished)
            if taken is not None:
                self._put(taken, -taken.probability)
        except Exception as error:
            self._metrics.dropped.labels("failed").inc()
            log.error("judging_failed", request=finished.arrival.id, error=error)

    def told(self, tenant: str, request_id: str, score: float, correction: str) -> None:
        """A person said how good an answer was, 0 to 1, and maybe how it should have been: the request is compared first, if
        this process answered it lately. Never waits, never raises."""
        held = self._held.pop((tenant, request_id), None)
        if held is None:
            return
        finished, size_bytes = held
        self._held_bytes -= size_bytes
        try:
            engines, limits = self._comparable(finished), self._limits
            if not engines or why_not(finished, engines, self._opted_out_keys, max_bytes=limits.max_bytes):
                return
            unit = self._accounts.unit(finished.model)
            taken = told_sample(finished, engines, unit, Told(score, correction))
            if taken is None:
                return
            if not taken.by_reference and score >= 1.0:
                self._note(taken, [praised(taken)])
            else:
                self._put(taken, _FIRST)
        except Exception as error:
            self._metrics.dropped.labels("failed").inc()
            log.error("judging_failed", request=request_id, error=error)

    def _put(self, taken: Sample, place: float) -> None:
        full = self._waiting_bytes + taken.size_bytes > self._limits.max_waiting_bytes or self._queue.full()
        if self._running is None or full:
            self._metrics.dropped.labels("stopped" if self._running is None else "queue_full").inc()
            return
        self._queue.put_nowait((place, next(self._taken), time.monotonic(), taken))
        self._waiting_bytes += taken.size_bytes

    def _hold(self, finished: Finished) -> None:
        size_bytes = held_bytes(finished)
        self._held[finished.arrival.tenant, finished.arrival.id] = finished, size_bytes
        self._held_bytes += size_bytes
        while len(self._held) > _HELD or self._held_bytes > _HELD_BYTES:
            _, gone_bytes = self._held.pop(next(iter(self._held)))
            self._held_bytes -= gone_bytes

    def _may_compare(self, finished: Finished, engines: Sequence[str]) -> bool:
        """Tell if everybody who may be asked to compare is in a region that the tenant's requests may go to."""
        reach = finished.arrival.reach
        if not reach.region:
            return True
        judge = self._comparison.judge_name
        asked = (*engines, *((judge,) if judge is not None else ()))
        return all(reach.allows_region(self._engines[name].info.region) for name in asked)

    def _comparable(self, finished: Finished) -> tuple[str, ...]:
        """The engines of a request's model that can be compared on it, small to large."""
        api = finished.asked.chat.api
        engines = self._models.get(finished.model, ()) if finished.attempt is not None else ()
        engines = tuple(name for name in engines if self._engines[name].info.speaks(api))
        return engines if engines and self._may_compare(finished, engines) else ()

    def _sampled(self, finished: Finished) -> Sample | None:
        engines = self._comparable(finished)
        if not engines or finished.attempt is None:
            return None
        limits = self._limits
        reference_served = finished.attempt.engine == engines[-1]
        share = limits.share_reference if reference_served else limits.share_offloaded
        unit = self._accounts.unit(finished.model)
        wished = self._wished(finished.plan, finished.arrival.tenant, unit)
        if max(share, wished) <= 0 or why_not(
            finished, engines, self._opted_out_keys, max_bytes=limits.max_bytes
        ):
            return None
        work: Work = "shadow" if reference_served else "checks"
        if self._load.holds(work):
            if self._rng.random() < (1 - STILL_COMPARED) * max(share, wished):
                self._load.sheds(work)
            share, wished = share * STILL_COMPARED, wished * STILL_COMPARED
        if self._accounts.refused(finished.arrival.tenant, unit):
            self._held_back("over_budget", finished.arrival.tenant)
            return None
        return sample(
            finished,
            engines,
            share=share,
            wished=wished,
            others=limits.others,
            unit=unit,
            rng=self._rng,
        )

    def _miscalled(self, finished: Finished, way: Attempt) -> None:
        """Count a comparison that a small engine lost before its client saw its answer: as often as any other of its answers
        is compared, so that what is compared stays a fair sample. It costs nothing."""
        engines, limits = self._comparable(finished), self._limits
        if not engines or why_not(finished, engines, self._opted_out_keys, max_bytes=limits.max_bytes):
            return
        unit = self._accounts.unit(finished.model)
        wished = self._wished(finished.plan, finished.arrival.tenant, unit)
        taken = miscalled_sample(finished, engines, max(limits.share_offloaded, wished), unit, way)
        if self._rng.random() < taken.probability:
            self._note(taken, [miscalled(taken)])
            self._metrics.samples.labels("repaired").inc()

    def _wished(self, plan: Plan | None, tenant: str, unit: Unit) -> float:
        """The share that the proof wishes for; hardly any where it costs more than it can save."""
        proof = plan.proof if plan is not None else None
        if proof is None:
            return 0.0
        if not self._not_worth(tenant, unit, proof):
            left = self._accounts.share_left(tenant, unit) if proof.probing else 1.0
            return proof.share * max(_LEAST_PROBING, left)
        self._held_back("not_worth", tenant, comparisons=proof.expected_more)
        return min(proof.share, _RARE)

    def too_dear(self, model: str, tenant: str, proof: Proof | None) -> bool:
        """Tell if proof is held back since it costs more than offloading a month's requests can save. Any thread."""
        return proof is not None and self._not_worth(tenant, self._accounts.unit(model), proof)

    def _not_worth(self, tenant: str, unit: Unit, proof: Proof) -> bool:
        more = proof.expected_more
        return not proof.open_actions() and more is not None and not self._accounts.worth(tenant, unit, more)

    def _held_back(self, why: Literal["over_budget", "not_worth"], tenant: str, **more: int | None) -> None:
        """Count that a comparison is held back; in the log once per tenant."""
        self._metrics.held_back.labels(why).inc()
        if (why, tenant) not in self._said and len(self._said) < _MOST_SAID:
            self._said.add((why, tenant))
            log.warning("judging_held_back", reason=why, tenant=tenant, **more)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as workers:
            for number in range(self._limits.max_in_flight):
                workers.create_task(self._work(), name=f"judging {number}")

    async def _work(self) -> None:
        while True:
            _, _, since, taken = await self._queue.get()
            self._waiting_bytes -= taken.size_bytes
            try:
                result = await self._judged(taken, since)
            except TooDear:
                result = "over_budget"
            except NoJudge:
                result = "no_judge"
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
        """Judge a sample and return its result. Raises NotAnswered, and whatever a store or a broken component raises."""
        served, settled = await looked_at(taken.size_bytes, _read, taken)
        if served is None:
            return "unreadable"
        if not await self._quiet(taken, since + self._limits.patience_s):
            return "busy"
        judge = self._comparison.judge_of(taken)
        # Whether a judge is needed shows in the reference's answer. Of an offloaded request it is not known yet: what a
        # judge costs is added once it is, so that a bad answer in bad form is checked like any other.
        no_judge = settled or taken.told is not None or not taken.by_reference
        if not no_judge and judge is None and not self._may_be_equal(taken):
            return "no_judge"
        # Without a judge that passed only equality tells.
        no_judge = no_judge or judge is None
        reference = self._engines[taken.reference]
        needed = ([] if taken.by_reference else [reference]) + ([] if no_judge or judge is None else [judge])
        if any(map(self._comparison.refuses, needed)):
            # Nobody else is asked in vain, let alone paid.
            return "unanswered"
        # The others' answers are not known yet: they are taken to be as long as this one.
        pairs = [] if no_judge else [(served.said(), served.said())] * len(taken.to_ask)
        verdicts = self._comparison.most_for_verdicts(taken, pairs)
        may_be_equal = (verdicts > 0 or judge is None) and self._may_be_equal(taken)
        own_price = self._own_price(taken, served)
        purse, alone = await self._set_aside(taken, served, verdicts, own_price, may_be_equal=may_be_equal)
        if purse is None:
            self._held_back("over_budget", taken.tenant)
            return "over_budget"

        async def afford(most: float) -> bool:
            return not alone and (most <= verdicts or await purse.add(most - verdicts, last=not taken.scope))

        @asynccontextmanager
        async def pay(most: float) -> AsyncIterator[Bill]:
            verdict = await self._accounts.reserve(taken.tenant, taken.unit, most, own_price, last=False)
            if verdict is None:
                raise TooDear(served.said())
            asked = Bill({})
            try:
                yield asked
            finally:
                self._accounts.note_in_vain(taken.tenant, asked.usd, 0)
                self._pay(taken, verdict, asked)

        # A judge that cannot be paid for its work anyway is only asked what shows that it cannot do it.
        means = Means(afford, pay, READ_FROM_THE_FIRST if alone else QUESTIONS)
        bill, came = Bill({}), _Came("late")
        try:
            async with asyncio.timeout(self._limits.deadline_s):
                came = await self._compared(taken, served, bill, means)
            return came.result
        except TimeoutError:
            return came.result
        finally:
            self._settle(taken, purse, bill, came)

    async def _set_aside(
        self, taken: Sample, served: Assembled, verdicts: float, own_price: float, *, may_be_equal: bool
    ) -> tuple[Purse | None, bool]:
        """Set aside what answers and `verdicts` cost, or the answers alone if that is too much and equality may tell.

        Returns the purse, None if there is too little for either, and whether it is without verdicts.
        """
        tenant, unit = taken.tenant, taken.unit
        answers = self._comparison.likely_for_answers(taken, served.said())
        if not (may_be_equal and await self._too_few(taken, verdicts)):
            whole = answers + verdicts
            purse = await self._accounts.reserve(tenant, unit, whole, own_price, last=not may_be_equal)
            if purse is not None or not may_be_equal:
                return purse, False
        return await self._accounts.reserve(tenant, unit, answers, own_price), True

    def _may_be_equal(self, taken: Sample) -> bool:
        """Tell if it is worth asking although no judge can be paid."""
        keys = [equality_key(taken, way) for way, _ in taken.others]
        return bool(taken.scope) and any(map(self._alone.worth_asking, keys))

    async def _too_few(self, taken: Sample, verdicts: float) -> bool:
        """Tell if what is left pays for too few verdicts to prove anything."""
        left = await self._accounts.left(taken.tenant, taken.unit)
        return left < _WORTH_A_JUDGE * verdicts

    def _settle(self, taken: Sample, purse: Purse, bill: Bill, came: _Came) -> None:
        self._accounts.note_in_vain(taken.tenant, bill.usd - came.noted_usd, came.unread)
        paid = self._pay(taken, purse, bill)
        small = sum(
            amount
            for (engine, purpose), amount in paid.items()
            if purpose == "answer" and engine != taken.reference
        )
        self._accounts.note(purse, sum(paid.values()), len(taken.others), small)

    def _pay(self, taken: Sample, purse: Purse, bill: Bill) -> dict[tuple[str, str], float]:
        """Book a bill. Returns it in the unit that the sample is counted in."""
        paid = _paid(taken, bill)
        purse.settle(sum(paid.values()))
        for (engine, purpose), usd in bill.items.items():
            self._metrics.cost.labels(engine, purpose).inc(usd)
            self._booked(taken, engine, purpose, usd, bill.tokens.get((engine, purpose), 0))
        return paid

    def _booked(self, taken: Sample, engine: str, purpose: str, usd: float, tokens: int) -> None:
        priced = self._engines[engine].info.price.known
        amounts = Amounts(requests=1, prompt_tokens=tokens, cost_usd=usd, unpriced=0 if priced else 1)
        line: Line = "judge" if purpose == "verdict" else "shadow"
        model = taken.asked.chat.model
        try:
            self._book(Used(time.time(), taken.tenant, amounts, line, model=model, engine=engine))
        except Exception as error:
            log.error("store_failed", kind="usage", error=error)

    def _own_price(self, taken: Sample, served: Assembled) -> float:
        """Return the price of the request at the reference."""
        usage = served.used(tokens_in_bytes(len(taken.asked.chat.body)))
        price = price_in(taken.unit, self._engines[taken.reference].info.price)
        return price.cost_usd(usage) or 0.0

    async def _compared(
        self,
        taken: Sample,
        served: Assembled,
        bill: Bill,
        means: Means,
    ) -> _Came:
        try:
            standard, *others = await self._comparison.compare(taken, served, bill, means)
        except Unjudged as error:
            await self._tell(taken, error.said)
            raise
        await self._tell(taken, standard.text)
        found = [each for each in others if each.judgement is not None]
        unread = sum(each.judgement is None and not each.cut for each in others)
        if taken.told is not None:
            records, _ = self._note(taken, found)
            return _Came("told" if found else "untold", 0, sum(record.cost_usd for record in records))
        if not found:
            return _Came("unread" if unread else "cut_short", unread)
        compared = [standard, *found]
        records, written = self._note(taken, compared)
        if self._qualities is not None:
            for id, quality in example_qualities(compared):
                self._qualities.note_quality(id, quality)
        if self._known is not None:
            await asyncio.wrap_future(written)
            await asyncio.to_thread(self._known, taken.tenant, taken.request_id, records)
        return _Came("judged", unread, sum(record.cost_usd for record in records))

    def _note(
        self, taken: Sample, compared: Sequence[Compared]
    ) -> tuple[list[OutcomeRecord], Future[list[OutcomeRecord]]]:
        at_s = self._clock()
        records = [each.record(taken, at_s) for each in compared]
        written = self._outcomes.note_many(records)
        written.add_done_callback(partial(report_failure, "outcome"))
        return records, written

    async def _tell(self, taken: Sample, text: str) -> None:
        """Say what the teacher says to a task's request that it did not answer, and which may not be written yet."""
        if self._teacher_said is None or not taken.of_task or taken.by_reference:
            return
        try:
            for _ in range(_TOLD_TIMES):
                if await asyncio.to_thread(self._teacher_said, taken.tenant, taken.request_id, text):
                    return
                await asyncio.sleep(_LOOK_AGAIN_S)
        except Exception as error:
            # The comparison stands without it.
            log.error("judging_failed", request=taken.request_id, error=error)

    async def _quiet(self, taken: Sample, until: float) -> bool:
        """Wait until neither the judge nor an engine of the sample is pressed. False if that takes too long."""
        names = {taken.reference, taken.served.engine, *(way.engine for way, _ in taken.others)}
        judge = self._comparison.judge_of(taken)
        engines = [*([judge] if judge is not None else []), *(self._engines[name] for name in names)]
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                while any(map(self._pressed, engines)):
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


def _read(taken: Sample) -> tuple[Assembled | None, bool]:
    """The served answer as one object, if it can be compared; and whether it is the reference's, and needs no judge."""
    served = served_answer(taken.body, taken.asked.chat)
    return served, served is not None and taken.by_reference and settles(served.said(), taken.near)


def _paid(taken: Sample, bill: Bill) -> dict[tuple[str, str], float]:
    """The bill in the unit that the sample is counted in."""
    if taken.unit == "usd":
        return bill.items
    return {
        (engine, purpose): tokens
        * (SMALL_TOKEN if purpose == "answer" and engine != taken.reference else 1.0)
        for (engine, purpose), tokens in bill.tokens.items()
    }
