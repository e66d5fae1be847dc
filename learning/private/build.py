"""Builds a private bank: releases noisy counts of the words of a tenant's questions; engines write examples from those.

`release` spends privacy and is booked before anybody learns of it; `write` spends money only, and may be repeated. See
docs/explanation/admission.md for what is guaranteed and what is not.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from engines.asking import Bill, NotAnswered, ask, chat_of, most_usd
from engines.engine import Engine
from learning.private.budget import (
    PrivacyBudget,
    Spent,
    epsilon_of,
    fits,
    share,
    threshold_for,
    together,
    variance_for,
)
from learning.private.words import Bin, Bounds, Cells, bins_of, counted, released, topics
from learning.replay.material import judged
from router.digest import NO_INSTRUCTIONS, asked_under, scope_of
from store import Store
from store.admission import Admission
from store.examples.private_bank import PrivateBank, PrivateQuestion, Release
from store.records import NewExample, Vector

log = structlog.get_logger(__name__)

_WRITE = """\
Write {count} different questions that people might put to an assistant. They are about one subject, of which only these
words are known, the most usual first: {words}.

Each question is complete in itself, uses some of the words, and names no person, company, place or number. Reply with
{count} lines and nothing else, each of the form:
QUESTION: the question"""
_LINE = re.compile(r"\s*QUESTION: *(.+?)\s*")
_QUESTION_TOKENS, _ANSWER_TOKENS = 600, 1024
_TWIN_CANDIDATES = 4


class BudgetExhausted(Exception):
    """One more release would exceed the privacy budget. The text says what is spent."""


class NothingToRelease(Exception):
    """No question was put aside: a release would spend privacy on nothing."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """The form of a release, its noise and its budget. All of it is public."""

    budget: PrivacyBudget
    releases: int
    bounds: Bounds
    planes: int
    least_words: int


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing a release's examples."""

    questions: int
    examples: int
    refused: int
    usd: float
    whole: bool
    """False when money ran out first: writing again goes on."""


def spent(releases: Sequence[Release]) -> Spent:
    """Add up what releases spent."""
    return together(Spent(each.rho, each.slip) for each in releases)


class PrivateBuilder:
    """For any tenant that is private. Embeds and counts on a thread; asks no engine."""

    def __init__(
        self,
        private: PrivateBank,
        mechanism: Mechanism,
        embed: Callable[[str], Vector],
        is_common: Callable[[str], bool],
        dimensions: int,
        sync: Callable[[], None],
    ) -> None:
        """`is_common`: whether a word says nothing of a subject; it must not depend on anybody's requests. `sync`: makes
        what was booked survive a power cut (Store.sync)."""
        self._private = private
        self._mechanism = mechanism
        self._embed = embed
        self._is_common = is_common
        self._cells = Cells(dimensions, mechanism.planes)
        self._sync = sync

    async def release(self, tenant: str) -> Release:
        """Release once more.

        Raises BudgetExhausted, NothingToRelease, BudgetMoved, AccountingMissing, and what the store raises.
        """
        return await asyncio.to_thread(self._release, tenant)

    def _release(self, tenant: str) -> Release:
        mechanism = self._mechanism
        before = self._private.releases(tenant)
        each = share(mechanism.budget, mechanism.releases)
        if not fits(mechanism.budget, spent(before), each):
            epsilon = epsilon_of(spent(before), mechanism.budget.delta)
            raise BudgetExhausted(
                f"{len(before)} releases spent epsilon {epsilon:.3f} of {mechanism.budget.epsilon:g} (delta "
                f"{mechanism.budget.delta:g}); one more does not fit"
            )
        questions = self._private.questions(tenant)
        if not questions:
            raise NothingToRelease("no question was put aside yet")
        bounds = mechanism.bounds
        variance = variance_for(each, bounds.bins)
        threshold = threshold_for(each, bounds.bins, variance)
        told_bins = released(counted(self._bins(questions)), variance, threshold)
        told = topics(told_bins, mechanism.least_words)
        made = {
            "bins": bounds.bins,
            "variance": f"{variance.numerator}/{variance.denominator}",
            "threshold": threshold,
            "planes": mechanism.planes,
        }
        last = before[-1].id if before else 0
        # Booked with what it told, in one transaction, before anything else happens to it.
        id = self._private.book(
            tenant, after=last, rho=each.rho, slip=each.slip, made=made, told=told
        ).result(60.0)
        self._sync()
        log.info("private_release", tenant=tenant, release=id, topics=len(told))
        return next(r for r in self._private.releases(tenant) if r.id == id)

    def _bins(self, questions: Sequence[PrivateQuestion]) -> list[set[Bin]]:
        by_contributor: dict[str, list[tuple[str, int, str]]] = {}
        for each in questions:
            # Whoever is unknown counts as one and the same: never as more people than there were.
            cell = self._cells.of(self._embed(each.question))
            by_contributor.setdefault(each.contributor, []).append((each.scope, cell, each.question))
        rng = random.SystemRandom()
        bounds = self._mechanism.bounds
        return [bins_of(theirs, self._is_common, bounds, rng) for theirs in by_contributor.values()]


@dataclass(slots=True)
class _Purse:
    """The money that writing may spend, and has spent."""

    tenant: str
    max_usd: float
    bill: Bill = field(default_factory=lambda: Bill({}))
    short: bool = False
    """Something was not asked for want of money."""


@dataclass(frozen=True, slots=True)
class PrivateWriter:
    """Has engines write a release's examples, and puts them into the bank as any others. Over a store with an index."""

    store: Store
    admission: Admission
    generator: Engine
    reference: Engine
    embed: Callable[[str], Vector]
    embedding_version: str
    count: int
    """Questions per topic."""

    async def write(self, release: Release, max_usd: float) -> Written:
        """Ask and keep until every topic was asked about or the money is spent. What was kept before is not kept twice."""
        purse = _Purse(release.tenant, max_usd)
        questions = kept = refused = 0
        known = await asyncio.to_thread(self.store.examples.private.questions, release.tenant)
        instructions = {scope_of(NO_INSTRUCTIONS): NO_INSTRUCTIONS}
        instructions |= {each.scope: each.instructions for each in known if each.instructions}
        for scope, cell, words in release.told:
            if scope not in instructions:
                continue
            for number, question in enumerate(await self._questions(words, purse)):
                fields = asked_under(instructions[scope], question)
                answer = await self._said(
                    self.reference, fields | {"max_tokens": _ANSWER_TOKENS}, _ANSWER_TOKENS, "answer", purse
                )
                questions += 1
                if answer is None:
                    continue
                id = f"private-{release.id}-{scope}-{cell}-{number}"
                new = await asyncio.to_thread(
                    self._example, release.tenant, scope, instructions[scope], question, answer, id
                )
                if new is None:
                    refused += 1
                    continue
                admitted = await asyncio.wrap_future(self.store.examples.admit(new))
                kept += admitted.outcome == "added"
        usd = purse.bill.usd
        log.info("private_written", tenant=release.tenant, release=release.id, examples=kept, usd=usd)
        return Written(questions, kept, refused, usd, not purse.short)

    async def _questions(self, words: Sequence[str], purse: _Purse) -> list[str]:
        prompt = _WRITE.format(count=self.count, words=", ".join(words))
        fields = {"max_tokens": _QUESTION_TOKENS, "messages": [{"role": "user", "content": prompt}]}
        said = await self._said(self.generator, fields, _QUESTION_TOKENS, "questions", purse)
        lines = [match[1] for line in (said or "").splitlines() if (match := _LINE.fullmatch(line))]
        return list(dict.fromkeys(lines))[: self.count]

    async def _said(
        self, engine: Engine, fields: Mapping[str, Any], tokens: int, purpose: str, purse: _Purse
    ) -> str | None:
        """The engine's answer; None if it gave none, or if the money does not suffice to ask."""
        chat = chat_of(fields, fields["messages"])
        if purse.bill.usd + most_usd(engine.info.price, len(chat.body), tokens) > purse.max_usd:
            purse.short = True
            return None
        name, before_usd = engine.info.name, purse.bill.usd
        try:
            said = await ask(engine, chat, most_tokens=tokens, bill=purse.bill, purpose=purpose)
        except NotAnswered as error:
            log.warning("private_unanswered", engine=name, reason=str(error))
            return None
        finally:
            cost_usd = purse.bill.usd - before_usd
            self.store.jobs.replay.side_costs.book(purse.tenant, name, f"private_{purpose}", cost_usd)
        return said.text if said.finish_reason == "stop" and said.text.strip() else None

    def _example(
        self, tenant: str, scope: str, instructions: str, question: str, answer: str, id: str
    ) -> NewExample | None:
        """The example to keep; None if the rules of admission refuse it."""
        verdict = judged(self.admission, asked_under(instructions, question), answer)
        if not verdict.admitted:
            return None
        vector = self.embed(verdict.embedded_text)
        assert self.store.indexes is not None
        return NewExample(
            tenant=tenant,
            scope=scope,
            question=verdict.question,
            answer=verdict.answer,
            embedded_text=verdict.embedded_text,
            vector=vector,
            embedding_version=self.embedding_version,
            source_engine=self.reference.info.name,
            request_id=id,
            neighbours=tuple(self.store.indexes.nearest(tenant, vector, _TWIN_CANDIDATES)),
            instructions=instructions,
            synthetic=True,
        )
