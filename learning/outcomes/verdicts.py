"""Compares two answers: a judge is asked in both orders, several times, and its verdicts amount to one judgement.

Who asks the judge, when, and who pays is the caller's: learning.outcomes.comparison judges live traffic, learning.replay
improves stored examples.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.asking import chat_of
from engines.chat import ChatRequest
from engines.engine import Engine
from learning.outcomes.judge import TIE_BAND, Judgement, Vote, judge_prompt, judgement, read_verdict, vote


@dataclass(frozen=True, slots=True)
class VerdictRequest:
    """One request to a judge."""

    number: int
    """Its place among the requests of one comparison, from 0."""
    chat: ChatRequest
    most_tokens: int
    """Bound on the judge's answer."""
    code: str

    def read(self, reply: str) -> int | None:
        """The verdict in the judge's reply, -3 to 3; None if it gives none."""
        return read_verdict(reply, self.code)


AskVerdict = Callable[[VerdictRequest], Awaitable[int | None]]
"""Sends a request to the judge; gives its verdict, None if there is none."""


@dataclass(frozen=True, slots=True)
class Judge:
    """An engine that compares answers, and how it is asked."""

    engine: Engine
    votes: int = 2
    """Per order."""
    tie: float = TIE_BAND
    verdict_tokens: int = 300
    characters: int = 8000
    """The characters of the request, and of each answer, that the judge is shown."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of its requests, such as a temperature."""

    @property
    def requests(self) -> int:
        """Requests per comparison, at most."""
        return 2 * self.votes

    @property
    def most_tokens(self) -> int:
        """Bound on one reply, as its requests carry it."""
        given: int = self.fields.get(
            "max_completion_tokens", self.fields.get("max_tokens", self.verdict_tokens)
        )
        return given

    async def compare(
        self,
        ask: AskVerdict,
        messages: Sequence[Mapping[str, Any]],
        ours: str,
        other: str,
        *,
        only_wins: bool = False,
    ) -> Judgement | None:
        """Judge how much better `ours` is than `other`, as answers to `messages`; None unless each order has a verdict.

        `only_wins`: ask further votes only while `ours` wins by those that are there; what changes nothing need not be
        known any better. Raises what `ask` raises.
        """
        votes: list[Vote] = []
        unread = 0
        for number in range(self.requests):
            ours_first = number % 2 == 0
            if only_wins and number and ours_first:
                found = judgement(votes, unread, tie=self.tie)
                if found is not None and found.result != "win":
                    return found
            first, second = (ours, other) if ours_first else (other, ours)
            verdict = await ask(self.request(number, messages, first, second))
            if verdict is None:
                unread += 1
            else:
                votes.append(vote(verdict, ours_first=ours_first))
        return judgement(votes, unread, tie=self.tie)

    def request(
        self, number: int, messages: Sequence[Mapping[str, Any]], first: str, second: str
    ) -> VerdictRequest:
        """Make the judge's request about two answers to `messages`. `number`: of the requests of one comparison, from 0."""
        prompt = judge_prompt(messages, first, second, reading=number // 2 + 1, characters=self.characters)
        bound = {} if "max_completion_tokens" in self.fields else {"max_tokens": self.verdict_tokens}
        info = self.engine.info
        chat = chat_of({"model": info.model or info.name, **bound, **self.fields}, prompt.messages)
        return VerdictRequest(number, chat, self.most_tokens, prompt.code)
