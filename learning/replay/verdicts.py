"""Has a judge compare two answers on behalf of replay: both orders, several verdicts, each paid for once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engines.asking import NotAnswered, Said, chat_of
from engines.engine import Engine
from learning.outcomes.judge import TIE_BAND, Judgement, Vote, judge_prompt, judgement, read_verdict, vote
from learning.replay.asking import Asking

_UNREAD = "unread"


class Judge:
    """Asks one engine for verdicts."""

    def __init__(
        self,
        engine: Engine,
        *,
        votes: int = 2,
        tie: float = TIE_BAND,
        verdict_tokens: int = 300,
        characters: int = 8000,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """`votes` per order. `characters`: of the request, and of each answer, that the judge is shown. `fields`: further
        ones of its requests."""
        self.engine = engine
        self._votes = votes
        self._tie = tie
        self._verdict_tokens = verdict_tokens
        self._characters = characters
        self._fields = dict(fields or {})

    @property
    def verdicts(self) -> int:
        """Requests per comparison, at most."""
        return 2 * self._votes

    async def compare(
        self, asking: Asking, key: str, messages: Sequence[Mapping[str, Any]], ours: str, other: str
    ) -> Judgement | None:
        """How much better `ours` is than `other`; None unless a verdict in each order could be read.

        One verdict in each order, and only if `ours` wins by them the further ones: what changes nothing need not be known
        any better. Raises what Asking.ask raises, but NotAnswered: a verdict that does not come is none.
        """
        votes: list[Vote] = []
        unread = 0
        for number in range(self.verdicts):
            if number and number % 2 == 0:
                found = judgement(votes, unread, tie=self._tie)
                if found is not None and found.result != "win":
                    return found
            ours_first = number % 2 == 0
            first, second = (ours, other) if ours_first else (other, ours)
            said = await self._verdict(asking, f"{key}/{number}", messages, first, second, number // 2 + 1)
            if said is None:
                unread += 1
            else:
                votes.append(vote(said, ours_first=ours_first))
        return judgement(votes, unread, tie=self._tie)

    async def _verdict(
        self,
        asking: Asking,
        key: str,
        messages: Sequence[Mapping[str, Any]],
        first: str,
        second: str,
        reading: int,
    ) -> int | None:
        prompt = judge_prompt(messages, first, second, reading=reading, characters=self._characters)
        bound = {} if "max_completion_tokens" in self._fields else {"max_tokens": self._verdict_tokens}
        info = self.engine.info
        chat = chat_of({"model": info.model or info.name, **bound, **self._fields}, prompt.messages)
        most = self._fields.get("max_completion_tokens", self._fields.get("max_tokens", self._verdict_tokens))

        def read(said: Said) -> str:
            verdict = read_verdict(said.text, prompt.code)
            return _UNREAD if verdict is None else str(verdict)

        try:
            said = await asking.ask(key, self.engine, chat, most_tokens=most, purpose="verdict", read=read)
        except NotAnswered:
            return None
        return None if said == _UNREAD else int(said)
