"""One sample's comparison: the other answers are asked, a judge compares each with the reference's, and records come of it.

Knows no queue and no budget: what it costs is put on a bill, and whoever calls it decides what may be spent.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engines.asking import Bill, NotAnswered, ask, most_usd
from engines.chat import ChatRequest, message_text
from engines.engine import Engine
from engines.finished import Assembled
from learning.outcomes.judge import Judgement
from learning.outcomes.judging_limits import JudgingLimits
from learning.outcomes.judging_metrics import JudgingMetrics
from learning.outcomes.judging_sample import Sample, asked_again, most_tokens
from learning.outcomes.verdicts import Judge, VerdictRequest
from router.plan import Attempt
from store.records import OutcomeRecord

_PROMPT_BYTES = 3000
"""Instructions and markers of one prompt for the judge, generously."""
_TURN_BYTES = 64
_BAD_BELOW = 0.5
"""Quality below which an answer counts as bad, as in store.examples.contributors."""
_OTHER_TOKENIZER = 1.5
"""How many tokens of the judge's an answer may have per token of the engine that gave it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """An answer and what the judge said of it. The reference's own has no judgement: it is the standard."""

    way: Attempt
    text: str
    prompt_tokens: int
    completion_tokens: int
    latency_s: float
    cost_usd: float
    """Of finding out: of asking for it, which the served one's client paid for, and of the verdicts."""
    probability: float
    served: bool
    judgement: Judgement | None = None

    def record(self, sample: Sample, judge: str, at_s: float) -> OutcomeRecord:
        """As it is kept: figures, never text."""
        said = self.judgement
        detail: dict[str, Any] = {"reference": True, "judge": judge}
        if said is not None:
            detail = {
                "score": round(said.score, 4),
                "votes": [[v.score, int(v.ours_first)] for v in said.votes],
                "unread": said.unread,
                "result": said.result,
                "position_bias": round(said.position_bias, 4),
                "judge": judge,
            }
        return OutcomeRecord(
            request_id=sample.request_id,
            tenant=sample.tenant,
            at_s=at_s,
            source="judge",
            key=f"judge/{self.way.engine}/{'with' if self.way.examples else 'without'}",
            engine=self.way.engine,
            example_ids=tuple(c.example.id for c in self.way.examples),
            served=self.served,
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
        judge: Engine,
        metrics: JudgingMetrics,
        limits: JudgingLimits,
        room: Callable[[Engine], Awaitable[None]],
    ) -> None:
        """`room` is awaited before an engine is asked: it returns once the engine has room."""
        self._engines = engines
        self._judge = Judge(
            judge,
            votes=limits.samples,
            tie=limits.tie,
            verdict_tokens=limits.verdict_tokens,
            characters=limits.characters,
            fields=limits.judge_fields,
        )
        self._metrics = metrics
        self._limits = limits
        self._room = room

    def most_usd(self, sample: Sample, served: str) -> float:
        """What comparing can cost at most, tokens estimated on the high side; `served` is the text of the served answer."""
        limits, chat, total = self._limits, sample.asked.chat, 0.0
        to_ask = _to_ask(sample)
        for way, _ in to_ask:
            asked, _ = asked_again(chat, way, limits.max_tokens)
            price = self._engines[way.engine].info.price
            total += most_usd(price, len(asked.body), most_tokens(asked.fields))
        texts = [message_text(m.get("content")) for m in chat.messages]
        # What the judge is not shown is cut away first; the other answer is not known yet, only its bound.
        known = min(sum(map(_bytes, texts)), 4 * limits.characters) + min(
            _bytes(served), 4 * limits.characters
        )
        prompt_bytes = _PROMPT_BYTES + _TURN_BYTES * len(texts) + known
        unknown_tokens = min(int(_OTHER_TOKENIZER * limits.max_tokens), 2 * limits.characters)
        price = self._judge.engine.info.price
        verdict = most_usd(price, prompt_bytes, self._judge.most_tokens)
        verdict += price.cost_usd(unknown_tokens, 0)
        # Every answer but the reference's is judged; the served one comes on top of those that are asked.
        return total + verdict * len(to_ask) * self._judge.requests

    async def compare(self, sample: Sample, served: Assembled, bill: Bill) -> list[Compared]:
        """The reference's answer first, then those that could be judged against it; empty if none could.

        Raises NotAnswered where the reference, or every engine that was to be compared with it, gave no answer.
        """
        usage = served.usage()
        answers = [
            Compared(
                sample.served,
                served.text(),
                usage.prompt_tokens if usage else 0,
                usage.completion_tokens if usage else 0,
                sample.latency_s,
                0.0,
                sample.probability,
                served=True,
            )
        ]
        for way, probability in _to_ask(sample):
            try:
                answers.append(await self._answer(sample.asked.chat, way, probability, bill))
            except NotAnswered:
                if way.engine == sample.reference:
                    raise
        if len(answers) == 1:
            raise NotAnswered("no_other_answer")
        standard = next(a for a in answers if a.way.engine == sample.reference)
        judged = [
            await self._judged(sample.asked.chat, answer, standard.text, bill)
            for answer in answers
            if answer is not standard
        ]
        found = [answer for answer in judged if answer.judgement is not None]
        return [standard, *found] if found else []

    async def _answer(self, chat: ChatRequest, way: Attempt, probability: float, bill: Bill) -> Compared:
        asked, our_bound = asked_again(chat, way, self._limits.max_tokens)
        engine = self._engines[way.engine]
        await self._room(engine)
        said = await ask(
            engine,
            asked,
            most_tokens=most_tokens(asked.fields),
            bill=bill,
            purpose="answer",
        )
        if said.finish_reason == "length" and our_bound:
            # The client would have let it speak on: what was cut by us is not what it would have got.
            raise NotAnswered("cut_short")
        if not said.text.strip():
            raise NotAnswered("empty")
        return Compared(
            way,
            said.text,
            said.usage.prompt_tokens,
            said.usage.completion_tokens,
            said.latency_s,
            said.cost_usd,
            probability,
            served=False,
        )

    async def _judged(self, chat: ChatRequest, answer: Compared, reference: str, bill: Bill) -> Compared:
        """The answer with its judgement against the reference's text: none unless a verdict in each order could be read."""
        cost_usd = answer.cost_usd

        async def verdict(request: VerdictRequest) -> int | None:
            nonlocal cost_usd
            engine = self._judge.engine
            await self._room(engine)
            try:
                said = await ask(
                    engine, request.chat, most_tokens=request.most_tokens, bill=bill, purpose="verdict"
                )
            except NotAnswered:
                self._metrics.verdicts.labels("unanswered").inc()
                return None
            cost_usd += said.cost_usd
            found = request.read(said.text)
            self._metrics.verdicts.labels("unread" if found is None else "read").inc()
            return found

        said = await self._judge.compare(verdict, chat.messages, answer.text, reference)
        if said is not None:
            self._metrics.saw(answer.way.engine, said, with_examples=bool(answer.way.examples))
        return replace(answer, cost_usd=cost_usd, judgement=said)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _to_ask(sample: Sample) -> list[tuple[Attempt, float]]:
    """Ways of answering to be asked, each with the probability of that."""
    others = [(way, sample.probability_of_others) for way in sample.others]
    return others if sample.by_reference else [(Attempt(sample.reference), sample.probability), *others]


def example_qualities(compared: Sequence[Compared]) -> list[tuple[int, float]]:
    """What the judged answers to one request say of the examples that some were made with: (example id, quality).

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
