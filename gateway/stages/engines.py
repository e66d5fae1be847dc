"""The innermost stage: the engines of the plan are asked, and the answer of the first that gives one is sent."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from engines.attempts import Attempts, CarriedOn
from engines.chat import IN_BODY, prompt_tokens
from engines.codecs.table import codec_of
from engines.engine import Engine, EngineReply, Price, unsayable
from engines.errors import Kind
from engines.off_loop import off_loop
from engines.trail import Tried
from gateway.booking import Meter
from gateway.cache_control import cache_control
from gateway.cache_status import BYPASS, MISS
from gateway.forward import Answer, forward
from gateway.limits.usage_chunk import UsageStripper
from gateway.served_model import ServedModel
from gateway.stages.replaying import explain
from gateway.stages.stage import Next, UnderWay
from gateway.stages.tries import asking_for_its_usage, try_of
from router.digest import carries_tools
from router.finished import Finished, Outcome
from router.plan import (
    AGREED,
    DISAGREED,
    PROOF_TOO_DEAR,
    REPAIRED,
    SHADOW,
    STUDENT_FAILED,
    WITHOUT_DECISION,
    Attempt,
    Plan,
)

_TOLD = WITHOUT_DECISION | {SHADOW, PROOF_TOO_DEAR, AGREED, DISAGREED, REPAIRED}
"""Reasons that the header x-understudy-reason tells."""


class EngineStage:
    """See gateway.stages.stage.Stage."""

    def __init__(self, engines: Mapping[str, Engine], stand_ins: Mapping[str, str] | None = None) -> None:
        """`stand_ins`: see engines.registry.Registry."""
        self._engines = engines
        self._stand_ins = {} if stand_ins is None else stand_ins

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """See Stage. The last one: asks no `next`. Raises LimitReached, too. Who asks is a router.asked.Admitted."""
        record, model = request.record, request.model
        asked, plan = record.asked, record.plan
        assert plan is not None
        size = len(asked.chat.body)
        proven = plan.proof.open_actions() if plan.proof is not None else ()
        found = model.stand_ins.ways(plan.attempts, proven, plan.settings.get("offload_cap", 0.0))
        if self._stand_ins:
            found += self._named_for_drained(request, [way.engine for way, _ in found])
        if model.larger_context:
            found.append((Attempt(model.larger_context), False))
        ways = [way for way, _ in found]
        chat = asking_for_its_usage(asked.chat, ways, self._engines, counted=request.spends)
        tries = [
            await off_loop(size, try_of, self._engines[way.engine], way, asked, chat, in_outage)
            for way, in_outage in found
        ]
        if request.reserve is not None:
            record.bill = await request.reserve(tries)
        larger = tries.pop() if model.larger_context else None
        if len(tries) > 1 and ways[0].engine != model.reference and carries_tools(asked.chat):
            tries[0] = replace(tries[0], checks_calls=True)
        attempts = Attempts(tries, larger, carry_on=model.continue_broken)
        record.asked_at = time.perf_counter()
        try:
            async with attempts as reply:
                record.waited_s += time.perf_counter() - record.asked_at
                way = ways[attempts.index]
                self._began(record, plan, way, attempts, reply)
                strip = UsageStripper() if chat is not asked.chat and reply.streams_events else None
                answer = self._answer(request, way, attempts, reply, strip)
                await forward(answer, request.shared or request.send)
        finally:
            self._ended(record, model, attempts)
        return None

    def _named_for_drained(self, request: UnderWay, planned: Collection[str]) -> list[tuple[Attempt, bool]]:
        """Engines that an operator has named for drained ones of a plan, where this request may be asked of them."""
        asked = request.record.asked
        # What a request continues is kept by the engine that answered before; and who names an engine wants no other.
        if asked.chat.state not in ("", IN_BODY) or asked.controls.engine is not None:
            return []
        reach, found = asked.arrival.reach, []
        # One look at each: another thread changes them meanwhile.
        named = filter(None, map(self._stand_ins.get, planned))
        for name in dict.fromkeys(each for each in named if each not in planned):
            info = self._engines[name].info
            affordable = not reach.priced_only or info.price_of(request.record.model).known
            sayable = info.speaks(asked.chat.api) and unsayable(self._engines[name], asked.chat) is None
            if affordable and sayable and reach.allows_region(info.region):
                found.append((Attempt(name), True))
        return found

    def _began(
        self, record: Finished, plan: Plan, way: Attempt, attempts: Attempts, reply: EngineReply
    ) -> None:
        """Note who answers, and tell the client."""
        record.attempt, headers = way, reply.headers
        record.engine, record.status = reply.engine, reply.status
        record.translated = reply.lost is not None
        answered_by = way.engine if reply.beside_usd is None else reply.engine
        record.price = self._engines[answered_by].info.price_of(record.model)
        record.replay_forbidden = cache_control(headers).forbids_replay
        if attempts.declined:
            _note_declined(record, plan, attempts)
        if reply.beside_usd is not None:
            record.reason, record.beside_usd = AGREED, reply.beside_usd
        record.bypassed.extend(f"engine:{name}" for name in attempts.failures)
        headers.add("Cache-Status", MISS if "exact" in record.stages_s else BYPASS)
        explain(headers, record, engine=answered_by, examples=len(way.examples))
        if plan.posed is not None:
            headers["x-understudy-task"] = plan.posed.task.name
        if record.reason in _TOLD:
            headers["x-understudy-reason"] = record.reason
        instead = _failed_before(plan, attempts)
        if instead is None:
            instead = record.instead_of = _down_then(plan, way.engine)
        if instead is not None:
            headers["x-understudy-failed-over"] = str(instead)

    def _answer(
        self,
        request: UnderWay,
        way: Attempt,
        attempts: Attempts,
        reply: EngineReply,
        strip: UsageStripper | None,
    ) -> Answer:
        """What is sent, and who watches it."""
        kept, asked = request.kept, request.record.asked
        kept.begin(reply.headers)
        chat = asked.chat
        tail = codec_of(chat).tail(reply.headers, chat.choices) if reply.status < 400 else None
        reply.rest = attempts.chunks(tail)
        if reply.streams_events or way.call is not None:
            # The recorder reads what it used. What a run costs is told by who carries it out.
            return Answer(reply, request.record, [kept.feed], None, tail, must_end=True, strip=strip)
        sent = way.messages or chat.messages
        answered_by = way.engine if reply.beside_usd is None else reply.engine
        meter = Meter(
            self._engines[answered_by].info,
            reply,
            method="POST",
            target=asked.target,
            model=chat.model,
            prompt_tokens=lambda: prompt_tokens(sent),
            only_cost=True,
            beside_usd=attempts.paid_usd + (reply.beside_usd or 0.0),
        )
        return Answer(reply, request.record, [kept.feed, meter.feed], meter, tail, must_end=True)

    def _ended(self, record: Finished, model: ServedModel, attempts: Attempts) -> None:
        """Note who was asked, and who had a part in the answer."""
        way, plan, carried_on = record.attempt, record.plan, attempts.carried_on
        record.trail = tuple(attempts.trail)
        record.engine_head_at = attempts.head_at
        record.engine_got = attempts.asked_for
        record.beside_usd += attempts.paid_usd
        if record.translated:
            record.bypassed.extend(f"translation:{name}" for name in attempts.lost)
        if way is None or plan is None:
            return
        if way.call is not None:
            record.replay_forbidden |= not way.call.repeatable
            if way.call.failed:
                record.outcome, record.error = Outcome.FAILED, way.call.failed
        if any(carried.engine.info.name != way.engine for carried in carried_on):
            record.failed_over = _planned(plan, attempts)
        else:
            record.failed_over = _failed_before(plan, attempts)
        if record.failed_over is not None or record.instead_of is not None:
            record.reason += "+failover"
            # What another engine charged says nothing of what the decision saved.
            record.reference_price = None
        by_reference = way.engine == model.reference and way.call is None
        record.from_reference = by_reference and not way.examples and not carried_on
        if carried_on:
            record.carried_on_by = tuple(carried.engine.info.name for carried in carried_on)
            record.price, record.broken_off = _shares(record.price, carried_on, record.model)


def _note_declined(record: Finished, plan: Plan, attempts: Attempts) -> None:
    """Note that a student, or a cascade, had no answer, or that a small engine's could not be used: no engine failed, but
    what was to spare one."""
    declined = attempts.declined
    if plan.attempts[0].prediction is not None:
        record.reason = STUDENT_FAILED
        record.bypassed.append("student:no_answer")
        declined -= 1
    if attempts.miscalled:
        # What was noted of the proof stays: it is a comparison that the small engine lost.
        record.reason, record.repaired = REPAIRED, plan.attempts[0]
        record.plan = replace(plan, choice=None, shadow=())
    elif declined:
        record.reason, record.plan = DISAGREED, plan.without_small()


def _failed_before(plan: Plan, attempts: Attempts) -> Tried | None:
    """The engine that was decided on, and how it failed before another one answered; None if it answered.

    Who has no answer did not fail: who is next is who would have been asked without it.
    """
    return _planned(plan, attempts) if attempts.index > attempts.declined else None


def _planned(plan: Plan, attempts: Attempts) -> Tried:
    name = plan.attempts[attempts.declined].engine
    failed = (one for one in attempts.trail if one.engine == name and one.kind is not None)
    return next(failed, Tried(name, "", Kind.OPEN, 0, 0.0))


def _down_then(plan: Plan, answered: str) -> Tried | None:
    """The engine that the router would have taken had it not been down, where that is not who answered."""
    name = plan.choice.instead_of if plan.choice is not None else ""
    return Tried(name, "", Kind.OPEN, 0, 0.0) if name and name != answered else None


def _shares(
    first: Price, carried_on: Sequence[CarriedOn], model: str
) -> tuple[Price, tuple[tuple[Price, int], ...]]:
    """The price of the engine that gave the end of an answer; and of each that broke off before, with the tokens it gave."""
    price, broken_off, before = first, [], 0
    for carried in carried_on:
        tokens = max(0, carried.tokens_before - before)
        broken_off.append((price, tokens))
        before += tokens
        price = carried.engine.info.price_of(model)
    return price, tuple(broken_off)
