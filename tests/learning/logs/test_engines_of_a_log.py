"""The engine that answers from a log, and engines that are asked while money is left."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from multidict import CIMultiDict

from engines.asking import Bill, NotAnswered, ask, chat_of
from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest, Price
from engines.errors import ConnectFailed
from learning.bank.importing.formats import Pair
from learning.logs.purse import Paid, Purse
from learning.logs.recorded import Recorded

ASKED = [{"role": "user", "content": "What is 2+2?"}]


class Says:
    """An engine that gives one answer, or fails."""

    def __init__(self, error: Exception | None = None, status: int = 200) -> None:
        self.info = EngineInfo("small", "s", Price(1.0, 1.0))
        self.error, self.status, self.asked = error, status, 0

    @asynccontextmanager
    async def stream(self, request: EngineRequest) -> AsyncIterator[EngineReply]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        choice = {"index": 0, "message": {"role": "assistant", "content": "Five."}, "finish_reason": "stop"}
        body = json.dumps(
            {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
        ).encode()
        yield EngineReply(self.status, CIMultiDict(), chunks(body), "small")

    def load(self) -> EngineLoad:
        return EngineLoad()

    async def health(self) -> None:
        return None

    async def aclose(self) -> None:
        pass


async def chunks(body: bytes) -> AsyncIterator[bytes]:
    yield body[:7]
    yield body[7:]


async def said(engine: Any, messages: list[dict[str, str]], **fields: Any) -> str:
    chat = chat_of({"model": "m", **fields}, messages)
    return (await ask(engine, chat, most_tokens=10, bill=Bill({}), purpose="test")).text


async def test_the_recorded_answer_is_given_whatever_the_other_parameters() -> None:
    engine = Recorded(EngineInfo("large"))
    engine.knows(
        Pair({"messages": ASKED}, "Four.", "observed", "gpt-4o", prompt_tokens=9, completion_tokens=2)
    )
    assert await said(engine, ASKED, max_tokens=77) == "Four."


async def test_what_the_log_does_not_hold_is_asked_of_another_or_of_nobody() -> None:
    with pytest.raises(NotAnswered):
        await said(Recorded(EngineInfo("large")), ASKED)
    assert await said(Recorded(EngineInfo("large"), Says()), ASKED) == "Five."


async def test_an_answer_is_booked_at_what_it_cost() -> None:
    purse = Purse(1.0)
    assert await said(Paid(Says(), purse), ASKED) == "Five."
    assert purse.spent_usd == pytest.approx(15e-6) and purse.requests == {"small": 1}


async def test_nobody_is_asked_without_money_however_cheap() -> None:
    free, purse = Says(), Purse(0.0)
    free.info = EngineInfo("small", "s", Price())
    with pytest.raises(NotAnswered):
        await said(Paid(free, purse), ASKED)
    assert free.asked == 0 and purse.refused == 1


async def test_what_was_never_answered_costs_nothing() -> None:
    purse = Purse(1.0)
    for engine in (Says(ConnectFailed("no")), Says(status=500)):
        with pytest.raises(NotAnswered):
            await said(Paid(engine, purse), ASKED)
    assert purse.spent_usd == 0.0 and purse.requests == {}
