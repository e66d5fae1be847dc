"""Answers with a small engine's answer where others, asked at the same time, give the same one.

Where they do not, it declines, and whoever is next answers. Only short whole answers agree: nobody is sent a word before
it is known, so a streamed request gets its first words then. Refuses to know what makes two answers the same,
and whether agreement is worth anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from multidict import CIMultiDict

from engines.answers.answer import Assembled, Body
from engines.as_events import EVENTS, as_events
from engines.chat import ChatRequest, Usage, prompt_tokens
from engines.codecs.chat import CHAT
from engines.engine import (
    ADMITTED,
    Admission,
    Engine,
    EngineInfo,
    EngineLoad,
    EngineReply,
    EngineRequest,
    Price,
    admission,
)
from engines.errors import Declined, EngineError, Kind, StreamBroken, TimedOut

MOST_CHARACTERS = 2_000
"""A longer answer agrees with none: its reader would wait for all of it."""
_MOST_BYTES = 256 * 1024
_ENDED = ("stop", "tool_calls", "function_call")
"""Finish reasons of answers that are whole."""


@dataclass(slots=True)
class _Heard:
    """The whole answer of one member."""

    reply: EngineReply
    body: bytes
    answer: Assembled
    usd: float


class Cascade:
    """Implements engines.engine.Engine. It has no guard: its members have theirs."""

    def __init__(
        self, name: str, members: Sequence[Engine], same: Callable[[str, str], bool], wait_s: float
    ) -> None:
        """`members`: the one whose answer is given first. `same` tells whether two texts of up to MOST_CHARACTERS say the
        same. `wait_s`: longest wait for all of them."""
        windows = [one.info.context_tokens for one in members if one.info.context_tokens is not None]
        self.info = EngineInfo(
            name,
            price=_together([one.info.price for one in members]),
            context_tokens=min(windows, default=None),
            apis=frozenset({"chat"}),
            # No tenant that is bound to a region may be answered from two.
            region="+".join(dict.fromkeys(one.info.region for one in members)),
            holds_key=all(one.info.holds_key for one in members),
        )
        self._members = tuple(members)
        self._same = same
        self._wait_s = wait_s

    def stream(self, request: EngineRequest) -> _Agreement:
        """See engines.engine.Engine. Raises Declined where they do not agree."""
        return _Agreement(self.info.name, self._members, self._same, self._wait_s, request)

    def admits(self, request: EngineRequest) -> Admission:
        """Whether all members may be asked now."""
        for member in self._members:
            if not (found := admission(member, request)).admitted:
                return found
        return ADMITTED

    def load(self) -> EngineLoad:
        """The load of the fullest member; closed where one is."""
        loads = [member.load() for member in self._members]
        fullest = max(loads, key=lambda each: each.utilisation)
        return replace(fullest, open=all(each.open for each in loads))

    async def health(self) -> None:
        """See engines.engine.Engine. Its members are looked after by themselves."""

    async def aclose(self) -> None:
        """Holds nothing: its members are closed by themselves."""


class _Agreement:
    """One request to all members."""

    def __init__(
        self,
        name: str,
        members: Sequence[Engine],
        same: Callable[[str, str], bool],
        wait_s: float,
        request: EngineRequest,
    ) -> None:
        self._name = name
        self._members = members
        self._same = same
        self._wait_s = wait_s
        self._request = request
        self._paid: dict[str, float] = {}
        """US dollars by member: of one that is under way, for its prompt."""

    async def __aenter__(self) -> EngineReply:
        chat = self._request.chat
        if chat is None or chat.api != "chat" or chat.choices > 1:
            raise Declined("Engines are compared by one answer.", engine=self._name)
        try:
            first, *others = await self._answers(chat)
            text = first.answer.said()
            for other in others:
                if not self._same(other.answer.said(), text):
                    raise Declined("The small engines disagree.", engine=self._name)
        except EngineError as error:
            error.paid_usd = sum(self._paid.values())
            raise
        return self._reply(chat, first)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """All answers are whole by then."""

    async def _answers(self, chat: ChatRequest) -> list[_Heard]:
        """All answers, in the members' order. Raises EngineError. Whatever it ends with, nothing goes on."""
        try:
            async with asyncio.timeout(self._wait_s), asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._answer(member, chat)) for member in self._members]
        except TimeoutError:
            text = "A small engine took too long."
            raise TimedOut(text, kind=Kind.TIMEOUT_ANSWER, engine=self._name) from None
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _answer(self, member: Engine, chat: ChatRequest) -> _Heard:
        info, request = member.info, self._asked(member, chat)
        price = info.price_of(chat.model)
        prompt = prompt_tokens(chat.messages)
        body = bytearray()
        async with member.stream(request) as reply:
            self._paid[info.name] = price.cost_usd(Usage(prompt, 0)) or 0.0
            async for chunk in reply.chunks:
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise Declined("An answer is too long to be compared.", engine=info.name)
        if reply.status != 200:
            self._paid[info.name] = 0.0
            kind = reply.kind or Kind.REFUSED
            raise EngineError(f"An engine answered with {reply.status}.", engine=info.name, kind=kind)
        answer = CHAT.assembled(Body((bytes(body),), len(body), "application/json"))
        if answer is None or not answer.whole:
            raise StreamBroken("An engine's answer cannot be read.", engine=info.name)
        usd = price.cost_usd(answer.used(prompt)) or 0.0
        self._paid[info.name] = usd
        if answer.finish_reason() not in _ENDED or not 0 < len(answer.said()) <= MOST_CHARACTERS:
            raise Declined("An answer is too long to be compared, or empty.", engine=info.name)
        return _Heard(reply, bytes(body), answer, usd)

    def _asked(self, member: Engine, chat: ChatRequest) -> EngineRequest:
        changes: dict[str, Any] = {"model": member.info.model or chat.model}
        if chat.stream:
            without = {name: value for name, value in chat.fields.items() if name != "stream_options"}
            chat = replace(chat, fields=without, stream=False, include_usage=False)
            changes |= {"stream": False}
        asked = chat.changed(changes)
        headers = self._request.headers.copy()
        headers["Accept-Encoding"] = "identity"
        for name in ("Content-Length", "Content-Encoding"):
            headers.popall(name, None)
        return replace(
            self._request, headers=headers, body=asked.body, chat=asked, without_usage=None, continuable=False
        )

    def _reply(self, chat: ChatRequest, first: _Heard) -> EngineReply:
        body = as_events(first.body, include_usage=chat.include_usage) if chat.stream else first.body
        headers = CIMultiDict(first.reply.headers)
        headers.popall("Transfer-Encoding", None)
        headers["Content-Length"] = str(len(body))
        if chat.stream:
            headers["Content-Type"] = EVENTS
        name = first.reply.engine
        beside_usd = sum(self._paid.values()) - first.usd
        return EngineReply(200, headers, _whole(body), engine=name, beside_usd=beside_usd)


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _together(prices: Sequence[Price]) -> Price:
    """What one token in and one out cost at all of them; unknown where nobody's is known."""

    def total(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    return Price(
        total([price.input_usd_per_mtok for price in prices]),
        total([price.output_usd_per_mtok for price in prices]),
        usd_per_request=total([price.usd_per_request for price in prices]),
    )
