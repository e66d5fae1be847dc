"""Where small engines say the same at the same time the first one's answer is given; what all of them cost is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from multidict import CIMultiDict

from engines.cascade import MOST_CHARACTERS, Cascade
from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest, Price
from engines.errors import Declined, EngineError, Kind, TimedOut
from learning.outcomes.equal import same
from tests.answers import from_events, from_json
from tests.engines.plans import answer, asked

PRICE = Price(1e6, 1e6)
"""A dollar a token: `answer` tells of ten."""


@dataclass
class Scripted:
    """An engine that gives one answer, maybe late; `never` waits until it is ended."""

    name: str
    body: bytes
    status: int = 200
    never: bool = False
    began: asyncio.Event = field(default_factory=asyncio.Event)
    ended: int = 0
    got: list[EngineRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.info = EngineInfo(self.name, f"model-of-{self.name}", PRICE, region="eu")

    @asynccontextmanager
    async def stream(self, request: EngineRequest) -> AsyncIterator[EngineReply]:
        self.got.append(request)
        headers = CIMultiDict({"Content-Type": "application/json", "Content-Length": str(len(self.body))})
        try:
            yield EngineReply(self.status, headers, self._rest(), engine=self.name)
        finally:
            self.ended += 1

    async def _rest(self) -> AsyncIterator[bytes]:
        self.began.set()
        if self.never:
            await asyncio.Event().wait()
        yield self.body

    def load(self) -> EngineLoad:
        return EngineLoad()

    async def health(self) -> None:
        """It lives."""

    async def aclose(self) -> None:
        """Holds nothing."""


def cascade(*members: Scripted, wait_s: float = 30.0) -> Cascade:
    return Cascade("small+second", members, same, wait_s)


async def agreed(engine: Cascade, **fields: Any) -> tuple[EngineReply, bytes]:
    request = asked(**fields)
    async with engine.stream(request) as reply:
        return reply, b"".join([chunk async for chunk in reply.chunks])


async def test_the_first_ones_answer_is_given_where_they_say_the_same() -> None:
    small, second = Scripted("small", answer("Refund")), Scripted("second", answer("**refund**."))
    reply, body = await agreed(cascade(small, second), stream=False)
    given = from_json(body)
    assert given is not None and given.text() == "Refund" and reply.engine == "small"
    assert reply.beside_usd == 10.0
    assert [one.got[0].chat.model for one in (small, second) if one.got[0].chat] == [
        "model-of-small",
        "model-of-second",
    ]


async def test_a_stream_begins_once_they_agree_and_they_are_asked_without_one() -> None:
    small, second = Scripted("small", answer("Refund")), Scripted("second", answer("Refund"))
    _, body = await agreed(cascade(small, second), stream=True, stream_options={"include_usage": True})
    given = from_events(body)
    assert given is not None and given.text() == "Refund"
    for one in (small, second):
        chat = one.got[0].chat
        assert chat is not None and chat.fields["stream"] is False and "stream_options" not in chat.fields


@pytest.mark.parametrize(
    "other",
    [answer("Order"), answer(""), answer("Refund", finish_reason="length"), answer("w " * MOST_CHARACTERS)],
)
async def test_it_declines_where_they_do_not_agree_and_says_what_that_cost(other: bytes) -> None:
    with pytest.raises(Declined) as found:
        await agreed(cascade(Scripted("small", answer("Refund")), Scripted("second", other)))
    assert found.value.paid_usd > 10.0


async def test_calls_of_tools_agree_whatever_their_ids() -> None:
    def called(id: str, arguments: str) -> bytes:
        call = {"id": id, "type": "function", "function": {"name": "refund", "arguments": arguments}}
        return answer("", message={"content": None, "tool_calls": [call]}, finish_reason="tool_calls")

    first = Scripted("small", called("a", '{"order": 1, "all": true}'))
    await agreed(cascade(first, Scripted("second", called("b", '{"all": true,  "order": 1}'))))
    with pytest.raises(Declined):
        await agreed(cascade(first, Scripted("second", called("b", '{"all": true, "order": 2}'))))


async def test_one_that_fails_ends_the_others() -> None:
    slow = Scripted("second", b"", never=True)
    with pytest.raises(EngineError) as found:
        await agreed(cascade(Scripted("small", b"{}", status=500), slow))
    assert not isinstance(found.value, Declined) and slow.ended == len(slow.got)


async def test_one_that_takes_too_long_is_ended() -> None:
    slow = Scripted("second", b"", never=True)
    with pytest.raises(TimedOut) as found:
        await agreed(cascade(Scripted("small", answer("Refund")), slow, wait_s=0.2))
    assert found.value.kind is Kind.TIMEOUT_ANSWER and slow.ended == 1
    assert found.value.paid_usd > 10.0, "the whole answer, and the prompt of the other"


async def test_a_reader_that_leaves_ends_all() -> None:
    engines = [Scripted("small", b"", never=True), Scripted("second", b"", never=True)]
    reading = asyncio.create_task(agreed(cascade(*engines)))
    for one in engines:
        await one.began.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert [one.ended for one in engines] == [1, 1]


def test_it_is_known_by_what_all_of_them_are() -> None:
    small, second = Scripted("small", b""), Scripted("second", b"")
    second.info = EngineInfo(
        "second", price=Price(2e6, 2e6), context_tokens=4096, region="us", holds_key=False
    )
    info = cascade(small, second).info
    assert info.price.both_usd_per_mtok == 6e6 and info.context_tokens == 4096
    assert info.region == "eu+us" and not info.holds_key
