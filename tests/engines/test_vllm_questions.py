"""Questions aside are bounded: a server that is slow, endless or odd tells nothing, and costs nobody anything."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from engines import vllm_questions
from engines.asgi import InProcess
from engines.errors import StreamBroken, TimedOut
from engines.vllm_questions import TokenCounter, asked, window_tokens

START = {"type": "http.response.start", "status": 200, "headers": []}


def says(body: Any) -> InProcess:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(dict(START))
        await send(
            {
                "type": "http.response.body",
                "body": body if isinstance(body, bytes) else json.dumps(body).encode(),
            }
        )

    return InProcess(application, prefix="", engine="e")


async def test_one_that_does_not_answer_in_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(vllm_questions, "LIMIT_S", 0.01)
    server = InProcess(silent, prefix="", engine="e")
    with pytest.raises(TimedOut):
        await asked(server.stream, "GET", "/metrics")
    assert server.in_flight == 0
    assert await TokenCounter(server.stream, None).count("text") is None


async def test_a_page_without_an_end_is_left() -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send(dict(START))
        while True:
            await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})

    with pytest.raises(StreamBroken):
        await asked(InProcess(endless, prefix="", engine="e").stream, "GET", "/metrics")


@pytest.mark.parametrize(
    "said", [b"not JSON", [], {"data": 5}, {"data": [5, {"id": "m", "max_model_len": "long"}]}]
)
async def test_a_list_of_models_that_makes_no_sense_tells_no_window(said: Any) -> None:
    assert await window_tokens(says(said).stream, "/models", "m") is None


async def test_the_window_is_the_named_models() -> None:
    cards = [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 4096}]
    server = says({"data": cards})
    assert await window_tokens(server.stream, "/models", "m") == 4096
    assert await window_tokens(server.stream, "/models", None) == 1


@pytest.mark.parametrize("said", [b"", {"count": "3"}, {"detail": "Not Found"}])
async def test_a_count_that_is_none_is_not_remembered(said: Any) -> None:
    counter = TokenCounter(says(said).stream, None)
    assert await counter.count("text") is None
