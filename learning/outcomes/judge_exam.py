"""Examines judges before they are paid: pairs of answers whose verdict is known must be told apart.

A question is a request with its answer beside that same answer, or beside another request's: the first pair is as good as
equal, and in the second the request's own answer is better. The pairs are the operator's own traffic, so that a judge is
tried on what it is to judge. One wrong verdict is forgiven; the second refuses the judge, and so does one of the first two
that cannot be read.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from learning.outcomes.equal import same
from learning.outcomes.verdicts import AskVerdict, Judge

log = structlog.get_logger(__name__)

QUESTIONS = 12
_FORGIVEN = 1
"""Wrong or unreadable verdicts."""
_READ_FROM_THE_FIRST = 2
"""Verdicts that must be readable: one that cannot be read here is refused before the third is paid."""
_LIKE_EQUAL = 1
"""Points by which a judge may tell an answer from itself: both orders of a pair cancel them."""
_AGAIN_AFTER_S = 3600.0
"""A refused judge is examined again then: it may have been changed, or only have been out of sorts."""
_UNREAD_IN_A_ROW = 2
"""Comparisons without a judgement after which a judge that passed is examined again."""


@dataclass(frozen=True, slots=True)
class Known:
    """A request of the operator's traffic and its answer."""

    messages: Sequence[Mapping[str, Any]]
    answer: str


@dataclass(frozen=True, slots=True)
class Question:
    """A pair of answers whose verdict is known."""

    known: Known
    other: str
    """The same answer, or another request's."""
    ours_first: bool

    @property
    def shown(self) -> tuple[str, str]:
        """The two answers in the order in which the judge reads them."""
        ours, other = self.known.answer, self.other
        return (ours, other) if self.ours_first else (other, ours)

    def right(self, verdict: int) -> bool:
        """Whether a verdict on the first answer against the second, -3 to 3, is right."""
        ours = verdict if self.ours_first else -verdict
        return abs(ours) <= _LIKE_EQUAL if self.other == self.known.answer else ours > 0


@dataclass(frozen=True, slots=True)
class Result:
    """How a judge did."""

    asked: int
    right: int
    unread: int
    """Verdicts that could not be read."""
    enough: bool

    @property
    def told(self) -> str:
        """For people: what it got right, and why it is refused if it is."""
        figures = f"it judged {self.right} of {self.asked} known pairs rightly"
        if self.enough:
            return figures
        unread = f" ({self.unread} of its verdicts could not be read)" if self.unread else ""
        return f"{figures}{unread}: a judge may be wrong once, and its first two verdicts must be readable"


GENERAL = (
    Known(({"role": "user", "content": "What is the capital of France?"},), "Paris"),
    Known(({"role": "user", "content": "Translate 'good morning' into German."},), "Guten Morgen"),
    Known(({"role": "user", "content": "How are all files of a directory listed in a shell?"},), "ls -a"),
    Known(({"role": "user", "content": "What is 17 plus 25?"},), "42"),
    Known(({"role": "user", "content": "Which is the largest planet of the sun?"},), "Jupiter"),
    Known(({"role": "user", "content": "Who wrote Hamlet?"},), "William Shakespeare"),
)
"""For whoever has no traffic yet."""


def questions(known: Sequence[Known]) -> list[Question]:
    """A dozen known pairs out of some requests with their answers. With too few of them each is asked about again."""
    own = [each for each in known if each.answer.strip()] or list(GENERAL)
    asked: list[Question] = []
    for number in range(QUESTIONS // 2):
        each = own[number % len(own)]
        others = _others(each.answer, own)
        other = others[number // len(own) % len(others)]
        # Whoever likes the first place, or never decides, shows it in the first two.
        asked.append(Question(each, other, ours_first=number % 2 == 0))
        asked.append(Question(each, each.answer if number else other, ours_first=number % 2 == 1))
    return asked


def _others(answer: str, known: Sequence[Known]) -> list[str]:
    """Answers of other requests, those first that have the fewest words in common with this one; general ones come last."""
    told = (
        sorted({each.answer for each in some}, key=lambda other: (_in_common(other, answer), other))
        for some in (known, GENERAL)
    )
    return [other for some in told for other in some if not same(other, answer)]


def _in_common(one: str, other: str) -> float:
    a, b = set(one.casefold().split()), set(other.casefold().split())
    return len(a & b) / max(1, len(a | b))


async def examine(judge: Judge, ask: AskVerdict, asked: Sequence[Question]) -> Result:
    """Puts the questions one by one until the judge cannot pass any more. Raises what `ask` raises."""
    right = unread = 0
    for number, question in enumerate(asked):
        verdict = await ask(judge.request(number, question.known.messages, *question.shown))
        unread += verdict is None
        right += verdict is not None and question.right(verdict)
        wrong = number + 1 - right
        if wrong > _FORGIVEN or (unread and number < _READ_FROM_THE_FIRST):
            return Result(number + 1, right, unread, enough=False)
    return Result(len(asked), right, unread, enough=True)


class Exams:
    """Which judges passed, in one process; on one event loop."""

    def __init__(
        self,
        known: Callable[[str], Sequence[Known]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`known` returns some requests of a tenant with their answers, and may block."""
        self._known = known
        self._clock = clock
        self._passed: set[str] = set()
        self._refused: dict[str, float] = {}
        self._unread: defaultdict[str, int] = defaultdict(int)
        self._alone: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def refuses(self, judge: str) -> bool:
        """Whether a judge did not pass lately."""
        at_s = self._refused.get(judge)
        return at_s is not None and self._clock() < at_s + _AGAIN_AFTER_S

    async def due(self, judge: str, tenant: str, also: Known) -> list[Question]:
        """What a judge is asked before it may judge; nothing for one that passed. `also`: what it is to judge next."""
        if judge in self._passed:
            return []
        return await asyncio.to_thread(lambda: questions([*self._known(tenant), also]))

    async def passes(self, judge: Judge, ask: AskVerdict, asked: Sequence[Question]) -> bool:
        """Whether a judge may judge: examined at most by one sample at a time. Raises what `ask` raises."""
        name = judge.engine.info.name
        async with self._alone[name]:
            if name in self._passed or self.refuses(name):
                return name in self._passed
            result = await examine(judge, ask, asked)
            if result.enough:
                self._passed.add(name)
                self._refused.pop(name, None)
                log.info("judge_passed", engine=name, asked=result.asked, right=result.right)
            else:
                self._refused[name] = self._clock()
                log.warning("judge_refused", engine=name, reason=result.told)
            return result.enough

    def compared(self, judge: str, *, read: bool) -> None:
        """A comparison came to a judgement, or its verdicts could not be read."""
        self._unread[judge] = 0 if read else self._unread[judge] + 1
        if self._unread[judge] >= _UNREAD_IN_A_ROW:
            self._unread[judge] = 0
            self._passed.discard(judge)
