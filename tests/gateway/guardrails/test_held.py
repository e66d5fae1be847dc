"""An answer that is held back: nothing of it is sent before it is released."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from multidict import CIMultiDict
from prometheus_client import CollectorRegistry

from engines.errors import EngineError, StreamBroken
from gateway.guardrails.contract import Withheld
from gateway.guardrails.guardrail import Guarding, Guardrail, GuardrailMetrics
from gateway.guardrails.held import HeldAnswer
from gateway.send import Write


class Sent:
    """What reached the client."""

    gone = False

    def __init__(self) -> None:
        self.told: list[Any] = []

    def whole(
        self, status: int, headers: CIMultiDict[str], body: bytes | None, reason: str | None = None
    ) -> None:
        self.told.append((status, dict(headers), body))

    async def begin(self, status: int, headers: CIMultiDict[str], reason: str | None = None) -> Write:
        self.told.append(status)

        async def write(chunk: bytes) -> None:
            self.told.append(chunk)

        return write

    async def end(self) -> None:
        self.told.append("end")

    async def break_off(self, error: EngineError) -> None:
        self.told.append(error)


def no_session() -> Any:
    raise AssertionError("nobody is asked")


@pytest.fixture
def held() -> Callable[..., tuple[HeldAnswer, Sent]]:
    def made(*, lets_pass: bool = False) -> tuple[HeldAnswer, Sent]:
        guarding = Guarding("g", "http://x", {}, 1.0, lets_pass, before=False)
        sent = Sent()
        guardrail = Guardrail(guarding, GuardrailMetrics(CollectorRegistry()), no_session)
        return HeldAnswer(sent, [guardrail], 10), sent

    return made


async def test_a_stream_is_sent_once_it_is_released(held: Callable[..., tuple[HeldAnswer, Sent]]) -> None:
    answer, sent = held()
    write = await answer.begin(200, CIMultiDict({"Content-Type": "text/event-stream"}))
    await write(b"one")
    await write(b"two")
    await answer.end()
    assert not sent.told and answer.body().chunks == [b"one", b"two"] and answer.body().streamed
    await answer.release()
    assert sent.told == [200, b"one", b"two", "end"]


async def test_one_that_broke_or_was_replaced_is_never_sent(
    held: Callable[..., tuple[HeldAnswer, Sent]],
) -> None:
    answer, sent = held()
    await (await answer.begin(200, CIMultiDict()))(b"one")
    await answer.break_off(StreamBroken("broke"))
    assert not sent.told and isinstance(answer.broken, StreamBroken)
    answer, sent = held()
    answer.whole(200, CIMultiDict({"Content-Length": "3", "Content-Encoding": "gzip"}), b"old")
    answer.replace(b"new", "text/plain", "g")
    await answer.release()
    assert sent.told == [(200, {"Content-Type": "text/plain", "x-understudy-guardrail": "g"}, b"new")]


async def test_one_too_long_to_be_judged_is_refused_or_passes(
    held: Callable[..., tuple[HeldAnswer, Sent]],
) -> None:
    answer, sent = held()
    write = await answer.begin(200, CIMultiDict())
    with pytest.raises(Withheld) as refused:
        await write(b"x" * 11)
    assert refused.value.status == 503 and not sent.told
    answer, sent = held(lets_pass=True)
    write = await answer.begin(200, CIMultiDict())
    for _ in range(3):
        await write(b"x" * 6)
    await answer.end()
    assert answer.passed_unjudged and sent.told == [200, *[b"x" * 6] * 3, "end"]
