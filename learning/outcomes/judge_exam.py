"""Examines judges before they are paid: pairs of answers whose verdict is known must be told apart.

Pairs are asked about one by one, each once it can be paid; an exam goes on where it stopped.

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
READ_FROM_THE_FIRST = 2
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
        """Tell if a verdict on the first answer against the second, -3 to 3, is right."""
        ours = verdict if self.ours_first else -verdict
        return abs(ours) <= _LIKE_EQUAL if self.other == self.known.answer else ours > 0


@dataclass(slots=True)
class Exam:
    """The results of a judge so far."""

    asked: int = 0
    right: int = 0
    unread: int = 0
    """Verdicts that could not be read."""
    refused: bool = False
    """True if the judge cannot pass any more."""

    @property
    def passed(self) -> bool:
        """Tell if all was asked, and enough was right."""
        return self.asked == QUESTIONS and not self.refused

    @property
    def told(self) -> str:
        """For people: what it got right, and why it is refused if it is."""
        figures = f"it judged {self.right} of {self.asked} known pairs rightly"
        if not self.refused:
            return figures
        unread = f" ({self.unread} of its verdicts could not be read)" if self.unread else ""
        return f"{figures}{unread}: a judge may be wrong once, and its first two verdicts must be readable"

    async def go_on(self, judge: Judge, ask: AskVerdict, asked: Sequence[Question]) -> None:
        """Puts those of the questions that are still to come until the judge cannot pass any more. Raises what `ask` raises;
        that question is asked again the next time."""
        for question in asked[self.asked :]:
            if self.refused:
                return
            verdict = await ask(judge.request(self.asked, question.known.messages, *question.shown))
            self.asked += 1
            self.unread += verdict is None
            self.right += verdict is not None and question.right(verdict)
            unread_early = self.unread > 0 and self.asked <= READ_FROM_THE_FIRST
            self.refused = unread_early or self.asked - self.right > _FORGIVEN


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


class Exams:
    """Which judges passed, in one process; on one event loop."""

    def __init__(
        self,
        known: Callable[[str], Sequence[Known]],
        *,
        ended: Callable[[str, str, bool], object] = lambda tenant, judge, passed: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`known` returns some requests of a tenant with their answers, and may block. `ended` is told the tenant whose
        traffic a judge was examined by, the judge, and whether it passed."""
        self._known = known
        self._ended = ended
        self._clock = clock
        self._begun: defaultdict[str, Exam] = defaultdict(Exam)
        self._passed: set[str] = set()
        self._refused: dict[str, float] = {}
        self._unread: defaultdict[str, int] = defaultdict(int)
        self._alone: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def refuses(self, judge: str) -> bool:
        """Tell if a judge did not pass lately."""
        at_s = self._refused.get(judge)
        return at_s is not None and self._clock() < at_s + _AGAIN_AFTER_S

    def passed(self, judge: str) -> bool:
        """Tell if a judge may judge."""
        return judge in self._passed

    async def passes(
        self, judge: Judge, ask: AskVerdict, tenant: str, also: Known, *, most: int = QUESTIONS
    ) -> bool:
        """Tell if a judge may judge, by up to `most` questions in all.

        It is examined by one sample at a time, by that sample's tenant's traffic. `also`: what it is to judge next.
        Raises what `ask` raises.
        """
        name = judge.engine.info.name
        async with self._alone[name]:
            if self.passed(name) or self.refuses(name):
                return self.passed(name)
            exam = self._begun[name]
            if exam.asked < most:
                asked = await asyncio.to_thread(lambda: questions([*self._known(tenant), also]))
                await exam.go_on(judge, ask, asked[:most])
            if exam.passed or exam.refused:
                self._end(name, tenant, exam)
            return exam.passed

    def _end(self, name: str, tenant: str, exam: Exam) -> None:
        del self._begun[name]
        if exam.passed:
            self._passed.add(name)
            self._refused.pop(name, None)
            log.info("judge_passed", engine=name, asked=exam.asked, right=exam.right)
        else:
            self._refused[name] = self._clock()
            log.warning("judge_refused", engine=name, reason=exam.told)
        self._ended(tenant, name, exam.passed)

    def compared(self, judge: str, *, read: bool) -> None:
        """A comparison came to a judgement, or its verdicts could not be read."""
        self._unread[judge] = 0 if read else self._unread[judge] + 1
        if self._unread[judge] >= _UNREAD_IN_A_ROW:
            self._unread[judge] = 0
            self._passed.discard(judge)
