"""One sample's comparison: the other answers are asked, each is compared with the reference's, and records come of it.

Where equality settles it no judge is asked. Knows no queue and no budget: what it costs is put on a bill, and whoever calls
it decides what may be spent.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import structlog

from engines.answers.answer import Assembled, says_calls
from engines.asking import Bill, NotAnswered, Said, ask, most_usd
from engines.chat import ChatRequest, estimated_tokens, message_text
from engines.engine import Engine
from learning.outcomes.account import price_in
from learning.outcomes.equal import same, settles
from learning.outcomes.equality_alone import EqualityAlone
from learning.outcomes.judge import WORST, Judgement
from learning.outcomes.judge_exam import Exams, Known
from learning.outcomes.judging_limits import JudgingLimits
from learning.outcomes.judging_metrics import JudgingMetrics
from learning.outcomes.judging_sample import Sample, Told, asked_again, most_tokens
from learning.outcomes.looking import looked_at
from learning.outcomes.loss import loss, right_answer
from learning.outcomes.verdicts import Judge, VerdictRequest
from router.digest import carries_tools
from router.plan import Attempt
from store.records import OutcomeRecord

log = structlog.get_logger(__name__)

_NO_KEY = "no_key"
_REFUSALS = frozenset({"status_401", "status_403", _NO_KEY})
_LEFT_ALONE_S = 600.0
_PROMPT_BYTES = 3000
"""Instructions and markers of one prompt for the judge, generously."""
_TURN_BYTES = 64
_LONGER_TOKENS, _TIMES_AS_LONG = 64, 4
_BAD_BELOW = 0.5
"""Quality below which an answer counts as bad, as in store.examples.contributors."""
EQUALITY = "equality"
"""Stands for the judge if none was asked."""
TOLD = "told"
"""Begins the key of an outcome that was looked for because a person said how good the request's answer was."""
_AS_GOOD = Judgement(score=0.0, votes=(), unread=0, tie=True, quality=1.0, position_bias=0.0)
_WORSE = Judgement(score=-3.0, votes=(), unread=0, tie=False, quality=0.0, position_bias=0.0)


class Unjudged(Exception):
    """Nobody compares the answers. `said`: the reference's answer, which may teach something nevertheless."""

    def __init__(self, said: str) -> None:
        super().__init__(type(self).__name__)
        self.said = said


class TooDear(Unjudged):
    """The judge that a comparison turned out to need may not be paid."""


class NoJudge(Unjudged):
    """A judge is needed, and all that could judge were refused."""


@dataclass(frozen=True, slots=True)
class Means:
    """The ways to pay for one sample's verdicts, in the unit that the sample is paid in."""

    afford: Callable[[float], Awaitable[bool]]
    """Sets aside what they can cost, and tells whether they may be asked for."""
    pay: Callable[[float], AbstractAsyncContextManager[Bill]]
    """Sets aside what one verdict of an exam can cost, and books what is put on the bill. Raises TooDear."""
    questions: int
    """Most that a judge is examined with for now."""


@dataclass(frozen=True, slots=True)
class Compared:
    """An answer and what the judge said of it. The reference's own has no judgement: it is the standard."""

    way: Attempt
    text: str
    prompt_tokens: int
    completion_tokens: int
    latency_s: float
    cost_usd: float
    """The cost of finding out: of asking for it, which the served one's client paid for, and of the verdicts."""
    probability: float
    served: bool
    judgement: Judgement | None = None
    judge: str = EQUALITY
    loss: float | None = None
    """-1 to 1: the quality of the reference's answer less that of this one, where more is known than equality."""
    copies: bool | None = None
    """Tells of the reference's own answer if the nearest past one is equal. None without one; likewise the next."""
    again: float | None = None
    """Tells how good its second answer is found beside it."""
    fingerprint: str = ""
    """See Assembled.fingerprint."""
    length: float | None = None
    """Its share of its characters and the reference's together."""
    cut: bool = False
    """Our bound ended it: no judge could say what it would have become."""

    def record(self, sample: Sample, at_s: float) -> OutcomeRecord:
        """As it is kept: figures, never text."""
        said, judge, told = self.judgement, self.judge, sample.told
        detail: dict[str, Any] = {"reference": True}
        for name, equal in (("copies", self.copies), ("again", self.again)):
            if equal is not None:
                detail[name] = round(float(equal), 4)
        if said is not None:
            detail = {
                "score": round(said.score, 4),
                "votes": [[v.score, int(v.ours_first)] for v in said.votes],
                "unread": said.unread,
                "result": said.result,
                "position_bias": round(said.position_bias, 4),
                "judge": judge,
            }
        if self.fingerprint:
            detail["fingerprint"] = self.fingerprint
        if self.length is not None and told is None:
            detail["length"] = round(self.length, 3)
        if self.loss is not None:
            detail["loss"] = round(self.loss, 4)
        if told is not None:
            detail |= {"said": told.score, "of": sample.served.engine}
        return OutcomeRecord(
            request_id=sample.request_id,
            tenant=sample.tenant,
            at_s=at_s,
            source="judge",
            key=f"{'judge' if told is None else TOLD}/{self.way.engine}/{'with' if self.way.examples else 'without'}",
            engine=self.way.engine,
            example_ids=tuple(c.example.id for c in self.way.examples),
            # What a person said chose it: it is no sample of what clients got.
            served=self.served and told is None,
            quality=1.0 if said is None else said.quality,
            probability=self.probability,
            cost_usd=self.cost_usd,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            latency_s=self.latency_s,
            detail=json.dumps(detail, separators=(",", ":")),
        )


class Comparison:
    """Asks and judges, one sample at a time."""

    def __init__(
        self,
        engines: Mapping[str, Engine],
        judge: str | None,
        metrics: JudgingMetrics,
        limits: JudgingLimits,
        room: Callable[[Engine], Awaitable[None]],
        alone: EqualityAlone,
        *,
        models: Mapping[str, Sequence[str]] | None = None,
        exams: Exams | None = None,
    ) -> None:
        """`judge`: the engine that judges; None: the largest of each sample's model that passes and is not compared itself.
        `room` is awaited before an engine is asked: it returns once the engine has room. `models`: served model to its
        engines, small to large. `exams`: None: nobody is examined."""
        self._engines = engines
        self.judge_name = judge
        """None: see `judge_of`."""
        self._models = models or {}
        self._exams = exams
        self._metrics = metrics
        self._limits = limits
        self._room = room
        self._readable: set[str] = set()
        """Judges whose last verdicts could be read."""
        self._refused: dict[str, float] = {}
        self._alone = alone

    def refuses(self, engine: Engine) -> bool:
        """Tell if the engine refused lately to be asked without a client's key."""
        at = self._refused.get(engine.info.name)
        return at is not None and time.monotonic() < at + _LEFT_ALONE_S

    def judge_of(self, sample: Sample) -> Engine | None:
        """The engine that judges the sample, should it come to that; None if all that could were refused."""
        if self.judge_name is not None:
            may = [self.judge_name]
        else:
            compared = {sample.served.engine, *(way.engine for way, _ in sample.others)} - {sample.reference}
            larger = reversed(self._models.get(sample.asked.chat.model, ()))
            may = list(dict.fromkeys([sample.reference, *(name for name in larger if name not in compared)]))
        return next((self._engines[name] for name in may if not self._refused_judge(name)), None)

    def _refused_judge(self, name: str) -> bool:
        return self._exams is not None and self._exams.refuses(name)

    def likely_for_answers(self, sample: Sample, served: str) -> float:
        """Estimate the cost of asking the others, unless they are far longer than `served`; in the sample's unit."""
        total, long = 0.0, _LONGER_TOKENS + _TIMES_AS_LONG * estimated_tokens(served)
        for way, _ in sample.to_ask:
            asked, _ = asked_again(sample.asked.chat, way, self._limits.max_tokens)
            price = price_in(
                sample.unit, self._engines[way.engine].info.price, small=way.engine != sample.reference
            )
            total += most_usd(price, len(asked.body), min(long, most_tokens(asked.fields)))
        return total

    def most_for_verdicts(self, sample: Sample, pairs: Sequence[tuple[str, str]]) -> float:
        """Bound the cost of judging so many pairs of answers, in the sample's unit."""
        judge, shown = self._judge(sample), 4 * self._limits.characters
        if judge is None:
            return 0.0
        price = price_in(sample.unit, judge.engine.info.price)
        texts = [message_text(m.get("content")) for m in sample.asked.chat.messages]
        request = _PROMPT_BYTES + _TURN_BYTES * len(texts) + min(sum(map(_bytes, texts)), shown)
        # What the judge is not shown is cut away.
        sizes = [request + sum(min(_bytes(text), shown) for text in pair) for pair in pairs]
        return judge.requests * sum(most_usd(price, size, judge.most_tokens) for size in sizes)

    async def compare(self, sample: Sample, served: Assembled, bill: Bill, means: Means) -> list[Compared]:
        """The reference's answer first, then those that were to be compared with it, some maybe without a judgement.
        Raises NotAnswered if the reference, or every engine that was to be compared with it, gave no answer,
        TooDear and NoJudge.
        """
        answers = await self._answers(sample, served, bill)
        standard = next(a for a in answers if a.way.engine == sample.reference)
        others = [_beside_length(answer, standard) for answer in answers if answer is not standard]
        if sample.told is not None:
            return [
                standard,
                *await asyncio.to_thread(told_losses, sample, sample.told, standard.text, others),
            ]
        size = len(standard.text) + sum(map(len, sample.near[:1]))
        settled, standard = await looked_at(size, _beside, standard, sample.near)
        # The second answer is not known yet: it is taken to be as long as the first.
        pairs = [*others, standard] if sample.again else others
        # Before anybody looks whether they are equal: else only those would be noted once there is no money for a judge.
        judge = self._judge(sample)
        if not settled and not await self._may_judge(sample, judge, standard.text, pairs, means):
            if not sample.scope:
                refused = judge is None or self._refused_judge(judge.engine.info.name)
                raise (NoJudge if refused else TooDear)(standard.text)
            return [standard, *await self._by_equality_alone(sample, others, standard.text)]
        judged = [
            await self._compared(sample, judge, answer, standard.text, bill, settled=settled)
            for answer in others
        ]
        if sample.again:
            standard = await self._with_second(sample, judge, standard, bill, settled=settled)
        return [standard, *(_with_loss(each, judged=not settled, again=standard.again) for each in judged)]

    async def _with_second(
        self, sample: Sample, judge: Judge | None, standard: Compared, bill: Bill, *, settled: bool
    ) -> Compared:
        """The reference's answer with how good its second one is found beside it, by whoever compares the others: what is
        less than 1 is their error."""
        try:
            second = await self._answer(sample, Attempt(sample.reference), sample.probability, bill)
        except NotAnswered:
            return standard
        found = await self._compared(sample, judge, second, standard.text, bill, settled=settled)
        again = None if found.judgement is None else found.judgement.quality
        return replace(standard, again=again, cost_usd=standard.cost_usd + found.cost_usd)

    async def _answers(self, sample: Sample, served: Assembled, bill: Bill) -> list[Compared]:
        """Ask all ways but the reference for a second time, and return the served answer and theirs. Raises NotAnswered."""
        usage = served.usage()
        answers = [
            Compared(
                sample.served,
                served.said(),
                usage.prompt_tokens if usage else 0,
                usage.completion_tokens if usage else 0,
                sample.latency_s,
                0.0,
                sample.probability,
                served=True,
                fingerprint=served.fingerprint(),
            )
        ]
        for way, probability in sample.to_ask:
            if way.engine == sample.reference and sample.by_reference:
                continue
            try:
                answers.append(await self._answer(sample, way, probability, bill))
            except NotAnswered:
                if way.engine == sample.reference:
                    raise
        if len(answers) == 1:
            raise NotAnswered("no_other_answer")
        return answers

    async def _may_judge(
        self, sample: Sample, judge: Judge | None, standard: str, others: Sequence[Compared], means: Means
    ) -> bool:
        """Tell if the judge passed its exam, and its verdicts on these answers can be paid. Raises NotAnswered."""
        if judge is None or not await self._passes(sample, judge, standard, means):
            return False
        pairs = [(answer.text, standard) for answer in others]
        return await means.afford(self.most_for_verdicts(sample, pairs))

    async def _passes(self, sample: Sample, judge: Judge, standard: str, means: Means) -> bool:
        """Tell if the judge passed its exam, or passes it now; each verdict of it is paid by itself. Raises NotAnswered."""
        name = judge.engine.info.name
        if self._exams is None or self._exams.passed(name):
            return True
        price = price_in(sample.unit, judge.engine.info.price)

        async def ask_judge(request: VerdictRequest) -> int | None:
            async with means.pay(most_usd(price, len(request.chat.body), request.most_tokens)) as bill:
                found, _ = await self._verdict(judge, request, bill)
            return found

        also = Known(sample.asked.chat.messages, standard)
        try:
            passes = await self._exams.passes(judge, ask_judge, sample.tenant, also, most=means.questions)
        except TooDear:
            return False
        if passes:
            self._readable.add(name)
        return passes

    async def _verdict(self, judge: Judge, request: VerdictRequest, bill: Bill) -> tuple[int | None, float]:
        """A verdict, None if it cannot be read, and what it cost in US dollars. Raises NotAnswered."""
        said = await self._asked(judge.engine, request.chat, request.most_tokens, bill, "verdict")
        found = request.read(said.text)
        self._metrics.verdicts.labels("unread" if found is None else "read").inc()
        return found, said.cost_usd

    def _judge(self, sample: Sample) -> Judge | None:
        limits, engine = self._limits, self.judge_of(sample)
        if engine is None:
            return None
        return Judge(
            engine,
            votes=limits.samples,
            tie=limits.tie,
            verdict_tokens=limits.verdict_tokens,
            characters=limits.characters,
        )

    async def _compared(
        self,
        sample: Sample,
        judge: Judge | None,
        answer: Compared,
        reference: str,
        bill: Bill,
        *,
        settled: bool,
    ) -> Compared:
        """The answer with what equality says of it, or else the judge.

        Where a judge may be needed, equality counts only while its verdicts can be read: what is missing must not be just
        the answers that are not equal.
        """
        name = judge.engine.info.name if judge is not None else ""
        # An answer that is none, or that calls tools where the reference's calls none, is no judge's business.
        told = settled or not answer.text.strip() or says_calls(answer.text)
        if told or name in self._readable:
            equal = await looked_at(len(answer.text) + len(reference), same, answer.text, reference)
            if equal or told:
                said = _AS_GOOD if equal else _WORSE
                self._metrics.saw(answer.way.engine, said, with_examples=bool(answer.way.examples))
                return replace(answer, judgement=said)
        if answer.cut or judge is None:
            return answer
        judged = await self._judged(judge, sample.asked.chat, answer, reference, bill)
        if judged.judgement is None:
            self._readable.discard(name)
        else:
            self._readable.add(name)
        if self._exams is not None:
            self._exams.compared(name, read=judged.judgement is not None)
        return replace(judged, judge=name)

    async def _by_equality_alone(
        self, sample: Sample, answers: Sequence[Compared], reference: str
    ) -> list[Compared]:
        """The answers, those that are not equal counted for the worst. Raises TooDear if that does not tell."""
        counts = [self._alone.counts(equality_key(sample, answer.way)) for answer in answers]
        judged = []
        for answer, counted in zip(answers, counts, strict=True):
            equal = await looked_at(len(answer.text) + len(reference), same, answer.text, reference)
            self._alone.saw(equality_key(sample, answer.way), equal=equal)
            if counted:
                said = _AS_GOOD if equal else _WORSE
                self._metrics.saw(answer.way.engine, said, with_examples=bool(answer.way.examples))
                judged.append(replace(answer, judgement=said))
        if not judged:
            raise TooDear(reference)
        return judged

    async def _answer(self, sample: Sample, way: Attempt, probability: float, bill: Bill) -> Compared:
        rephrased = sample.by_reference and way.engine == sample.reference
        asked, our_bound = asked_again(sample.asked.chat, way, self._limits.max_tokens, rephrased=rephrased)
        engine = self._engines[way.engine]
        said = await self._asked(engine, asked, most_tokens(asked.fields), bill, "answer")
        # The client would have let it speak on: what was cut by us is not what it would have got.
        cut = said.finish_reason == "length" and our_bound
        if way.engine == sample.reference and (cut or not said.text.strip()):
            raise NotAnswered("cut_short" if cut else "empty")
        return Compared(
            way,
            said.text,
            said.usage.prompt_tokens,
            said.usage.completion_tokens,
            said.latency_s,
            said.cost_usd,
            probability,
            served=False,
            cut=cut,
            fingerprint=said.fingerprint,
        )

    async def _asked(
        self, engine: Engine, chat: ChatRequest, most_tokens: int, bill: Bill, purpose: str
    ) -> Said:
        """Ask once the engine has room. One that wants a key of its own is left alone for a while."""
        if self.refuses(engine):
            raise NotAnswered(_NO_KEY)
        await self._room(engine)
        try:
            return await ask(
                engine,
                chat,
                most_tokens=most_tokens,
                bill=bill,
                purpose=purpose,
                tools=carries_tools(chat),
            )
        except NotAnswered as error:
            if str(error) in _REFUSALS:
                if engine.info.name not in self._refused:
                    log.warning("judging_without_key", engine=engine.info.name)
                self._refused[engine.info.name] = time.monotonic()
            raise

    async def _judged(
        self, judge: Judge, chat: ChatRequest, answer: Compared, reference: str, bill: Bill
    ) -> Compared:
        """The answer with its judgement against the reference's text: none unless a verdict in each order could be read."""
        cost_usd = answer.cost_usd

        async def verdict(request: VerdictRequest) -> int | None:
            nonlocal cost_usd
            try:
                found, usd = await self._verdict(judge, request, bill)
            except NotAnswered:
                self._metrics.verdicts.labels("unanswered").inc()
                return None
            cost_usd += usd
            return found

        said = await judge.compare(verdict, chat.messages, answer.text, reference)
        self._metrics.saw(answer.way.engine, said, with_examples=bool(answer.way.examples))
        return replace(answer, cost_usd=cost_usd, judgement=said)


def praised(sample: Sample) -> Compared:
    """A small engine's served answer that a person found right: the reference's cannot be better, so it is not asked."""
    way, latency_s = sample.served, sample.latency_s
    return Compared(way, "", 0, 0, latency_s, 0.0, 1.0, served=True, judgement=_AS_GOOD, loss=0.0)


def miscalled(sample: Sample) -> Compared:
    """A small engine's answer that called tools as they are not to be called, and that no client saw."""
    return Compared(
        sample.served, "", 0, 0, 0.0, 0.0, sample.probability, served=False, judgement=_WORSE, loss=1.0
    )


def told_losses(sample: Sample, told: Told, reference: str, others: Sequence[Compared]) -> list[Compared]:
    """The answers with what they lose against the reference's, by what a person said of the served one; blocks. They are as
    they were where that does not tell, which is settled before anybody looks at them."""
    served = reference if sample.by_reference else others[0].text
    right = right_answer(served, told.score, told.correction, sample.near)
    if not right and sample.by_reference and not settles(reference, sample.near):
        return list(others)
    found = []
    for answer in others:
        equal = same(answer.text, reference)
        # Of a small engine's answer that a person found wrong nothing better is known than what the reference may be worth.
        score = told.score if sample.by_reference else 1.0
        quality = 1.0 if equal else 0.0 if sample.by_reference else told.score
        lost = loss(reference, answer.text, right=right, score=score, quality=quality)
        said = _AS_GOOD if equal else replace(_WORSE, quality=min(1.0, 1.0 - lost))
        found.append(replace(answer, judgement=said, loss=lost))
    return found


def _beside(standard: Compared, near: Sequence[str]) -> tuple[bool, Compared]:
    """Tell if the reference's answer needs no judge; return it with whether the nearest past one is equal. Blocks."""
    copies = [same(text, standard.text) for text in near[:1]]
    return settles(standard.text, near), replace(standard, copies=copies[0] if copies else None)


def _beside_length(answer: Compared, standard: Compared) -> Compared:
    together = len(answer.text) + len(standard.text)
    return replace(answer, length=len(answer.text) / together) if together else answer


def _with_loss(answer: Compared, *, judged: bool, again: float | None) -> Compared:
    """The loss as a judge sees it, both ways; or, where a difference is plainly one, beside that of the reference's second
    answer: equality is no more to be had of a small engine than of the reference itself."""
    said = answer.judgement
    if said is None:
        return answer
    if judged:
        return replace(answer, loss=0.0 if said.tie else said.score / WORST)
    return answer if again is None else replace(answer, loss=again - said.quality)


def equality_key(sample: Sample, way: Attempt) -> tuple[str, str, str, bool]:
    """Return the key under which the share of answers equal to the reference's is counted."""
    return sample.tenant, sample.scope, way.engine, bool(way.examples)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def example_qualities(compared: Sequence[Compared]) -> list[tuple[int, float]]:
    """Derive the quality of examples from the judged answers to one request: (example id, quality).

    The answer's quality is each example's, except for a bad answer where the same engine did no better without them: then
    its failure was not theirs, and nothing is said of them.
    """
    judged = [(each.way, each.judgement.quality) for each in compared if each.judgement is not None]
    alone = {way.engine: quality for way, quality in judged if not way.examples}
    return [
        (candidate.example.id, quality)
        for way, quality in judged
        for candidate in way.examples
        if quality >= _BAD_BELOW or alone.get(way.engine, 1.0) > quality
    ]
