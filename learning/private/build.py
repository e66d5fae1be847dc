"""Builds a private bank: tells, with noise, which words a tenant's contributors use; has engines write examples from that.

`release` spends privacy and is booked before anybody learns of it; `write` spends money only, and may be repeated. See
docs/private-bank.md for what is guaranteed and what is not.
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
    Promise,
    Spent,
    epsilon_of,
    fits,
    share,
    threshold_for,
    together,
    variance_for,
)
from learning.private.words import Bin, Bounds, Cells, bins_of, counted, released, topics
from router.digest import carries_tools, is_plain_text, scope
from store.admission import Admission, Pair
from store.examples.bank import ExampleBank
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
NO_SCOPE = scope(chat_of({}, []))
"""The scope of requests without instructions."""


class PromiseSpent(Exception):
    """One more release would break what was promised. The text says what is spent."""


class NothingToTell(Exception):
    """No question was put aside: a release would spend privacy on nothing."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What is told, how exactly, and what is promised. Public, all of it."""

    promise: Promise
    releases: int
    bounds: Bounds
    planes: int
    least_words: int


@dataclass(frozen=True, slots=True)
class Written:
    """What came of a release."""

    questions: int
    examples: int
    refused: int
    usd: float
    whole: bool
    """False when money ran out first: writing again goes on."""


def spent(releases: Sequence[Release]) -> Spent:
    """What releases cost together."""
    return together(Spent(each.rho, each.slip) for each in releases)


class PrivateBuilder:
    """For any tenant that is private. Embeds and counts on a thread; asks engines from the event loop."""

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
        """Tell once more. Raises PromiseSpent, NothingToTell, BudgetMoved, AccountingMissing, and what the store raises."""
        return await asyncio.to_thread(self._release, tenant)

    def _release(self, tenant: str) -> Release:
        mechanism = self._mechanism
        before = self._private.releases(tenant)
        each = share(mechanism.promise, mechanism.releases)
        if not fits(mechanism.promise, spent(before), each):
            epsilon = epsilon_of(spent(before), mechanism.promise.delta)
            raise PromiseSpent(
                f"{len(before)} releases spent epsilon {epsilon:.3f} of {mechanism.promise.epsilon:g} (delta "
                f"{mechanism.promise.delta:g}); one more does not fit"
            )
        questions = self._private.questions(tenant)
        if not questions:
            raise NothingToTell("no question was put aside yet")
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
    tenant: str
    max_usd: float
    bill: Bill = field(default_factory=lambda: Bill({}))
    short: bool = False
    """Something was not asked for want of money."""


class PrivateWriter:
    """Has engines write a release's examples, and puts them into the bank as any others."""

    def __init__(
        self,
        private: PrivateBank,
        bank: ExampleBank,
        admission: Admission,
        generator: Engine,
        reference: Engine,
        embed: Callable[[str], Vector],
        embedding_version: str,
        nearest: Callable[[str, Vector, int], list[tuple[int, float]]],
        fields_of: Callable[[str, str], Mapping[str, Any]],
        *,
        book: Callable[[str, str, str, float], object],
        count: int,
    ) -> None:
        """`fields_of`: from (instructions, question) to the fields of a request under them.

        `book`: (tenant, engine, purpose, US dollars) of each request, for the report of costs.
        """
        self._private = private
        self._bank = bank
        self._admission = admission
        self._generator = generator
        self._reference = reference
        self._embed = embed
        self._embedding_version = embedding_version
        self._nearest = nearest
        self._fields_of = fields_of
        self._book = book
        self._count = count

    async def write(self, release: Release, max_usd: float) -> Written:
        """Ask and keep until every topic was asked about or the money is spent. What was kept before is not kept twice."""
        purse = _Purse(release.tenant, max_usd)
        questions = kept = refused = 0
        instructions = await asyncio.to_thread(self._instructions, release.tenant)
        for scope_, cell, words in release.told:
            if scope_ not in instructions:
                continue
            for number, question in enumerate(await self._questions(words, purse)):
                answer = await self._answer(instructions[scope_], question, purse)
                questions += 1
                if answer is None:
                    continue
                id = f"private-{release.id}-{scope_}-{cell}-{number}"
                new = await asyncio.to_thread(
                    self._example, release.tenant, scope_, instructions[scope_], question, answer, id
                )
                if new is None:
                    refused += 1
                    continue
                admitted = await asyncio.wrap_future(self._bank.admit(new))
                kept += admitted.outcome == "added"
        usd = purse.bill.usd
        log.info("private_written", tenant=release.tenant, release=release.id, examples=kept, usd=usd)
        return Written(questions, kept, refused, usd, not purse.short)

    def _instructions(self, tenant: str) -> dict[str, str]:
        known = {
            each.scope: each.instructions for each in self._private.questions(tenant) if each.instructions
        }
        return {NO_SCOPE: ""} | known

    async def _questions(self, words: Sequence[str], purse: _Purse) -> list[str]:
        prompt = _WRITE.format(count=self._count, words=", ".join(words))
        fields = {"max_tokens": _QUESTION_TOKENS, "messages": [{"role": "user", "content": prompt}]}
        said = await self._said(self._generator, fields, _QUESTION_TOKENS, "questions", purse)
        lines = [match[1] for line in (said or "").splitlines() if (match := _LINE.fullmatch(line))]
        return list(dict.fromkeys(lines))[: self._count]

    async def _answer(self, instructions: str, question: str, purse: _Purse) -> str | None:
        fields = {**self._fields_of(instructions, question), "max_tokens": _ANSWER_TOKENS}
        return await self._said(self._reference, fields, _ANSWER_TOKENS, "answer", purse)

    async def _said(
        self, engine: Engine, fields: Mapping[str, Any], tokens: int, purpose: str, purse: _Purse
    ) -> str | None:
        chat = chat_of({k: v for k, v in fields.items() if k != "messages"}, fields["messages"])
        if purse.bill.usd + most_usd(engine.info.price, len(chat.body), tokens) > purse.max_usd:
            purse.short = True
            return None
        before_usd = purse.bill.usd
        try:
            said = await ask(engine, chat, most_tokens=tokens, bill=purse.bill, purpose=purpose)
        except NotAnswered as error:
            log.warning("private_unanswered", engine=engine.info.name, reason=str(error))
            return None
        finally:
            self._book(purse.tenant, engine.info.name, f"private_{purpose}", purse.bill.usd - before_usd)
        return said.text if said.finish_reason == "stop" and said.text.strip() else None

    def _example(
        self, tenant: str, scope_: str, instructions: str, question: str, answer: str, id: str
    ) -> NewExample | None:
        asked = self._fields_of(instructions, question)
        chat = chat_of({k: v for k, v in asked.items() if k != "messages"}, asked["messages"])
        verdict = self._admission.judge(
            Pair(
                offers_tools=carries_tools(chat),
                plain_text=is_plain_text(chat.messages),
                status=200,
                complete=True,
                opted_out=False,
                from_reference=True,
                question=question,
                answer=answer,
                finish_reason="stop",
                choices=1,
                calls_tools=False,
            )
        )
        if not verdict.admitted:
            return None
        vector = self._embed(verdict.embedded_text)
        return NewExample(
            tenant=tenant,
            scope=scope_,
            question=verdict.question,
            answer=verdict.answer,
            embedded_text=verdict.embedded_text,
            vector=vector,
            embedding_version=self._embedding_version,
            source_engine=self._reference.info.name,
            request_id=id,
            neighbours=tuple(self._nearest(tenant, vector, _TWIN_CANDIDATES)),
            instructions=instructions,
            synthetic=True,
        )
