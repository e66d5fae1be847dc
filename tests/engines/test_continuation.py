"""Who may carry an answer on, and which answers can be; whole answers are in tests/flow/test_line_continuation.py."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engines.chat import ChatRequest
from engines.continuation import Continuation, continuable
from engines.engine import EngineRequest
from engines.errors import StreamBroken
from engines.failover import Failover, Try
from tests.engines.asking import engine, request
from tests.flow.upstream import Call, Upstream

BEGUN = (
    b'data: {"id": "1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Forty"}}]}\n\n'
)


def chat(**fields: Any) -> ChatRequest:
    fields = {"messages": [{"role": "user", "content": "Q?"}], "stream": True} | fields
    return ChatRequest(
        json.dumps(fields).encode(),
        fields,
        "",
        fields["messages"],
        stream=fields["stream"],
        include_usage=False,
    )


@pytest.mark.parametrize(
    ("fields", "can"),
    [
        ({}, True),
        ({"n": 1, "tools": [], "logprobs": False, "response_format": {"type": "text"}}, True),
        ({"stream": False}, False),
        ({"n": 2}, False),
        ({"logprobs": True}, False),
        ({"guided_json": {}}, True),
        ({"guided_json": {"type": "object"}}, False),
        ({"modalities": ["text", "audio"]}, False),
        ({"add_generation_prompt": False}, False),
        ({"messages": []}, False),
    ],
)
def test_only_one_choice_of_plain_text_can_be_carried_on(fields: dict[str, Any], can: bool) -> None:
    assert continuable(chat(**fields)) is can


def breaks(call: Call) -> None:
    call.begin()
    call.chunk(BEGUN)


async def said(upstream: Upstream, *, limit_bytes: int = 2**20) -> list[bytes]:
    """What a client is sent of an answer that breaks off, by an engine that does not say it could go on."""
    async with engine(upstream.port) as one:
        asked = request().headers
        again = Try(one, EngineRequest("POST", "/chat/completions", asked, b"{}", chat()))
        failover = Failover([again])
        async with failover as reply, Continuation([again], failover.let_go, limit_bytes=limit_bytes) as rest:
            assert rest.covers(reply)
            got: list[bytes] = []
            chunks: AsyncIterator[bytes] = rest.chunks(reply)
            with pytest.raises(StreamBroken):
                while True:
                    got.append(await anext(chunks))
            assert not rest.carried_on
            return got


async def test_an_engine_that_does_not_declare_it_is_not_asked_to_go_on(upstream: Upstream) -> None:
    upstream.plays(breaks)
    assert await said(upstream) == [BEGUN]
    assert len(upstream.calls) == 1


async def test_a_stream_whose_beginning_was_let_go_is_not_carried_on(upstream: Upstream) -> None:
    def silent(call: Call) -> None:
        call.begin()
        call.chunk(BEGUN.replace(b"Forty", b""))

    upstream.plays(silent)
    await said(upstream, limit_bytes=10)
    assert len(upstream.calls) == 1


async def test_a_whole_answer_passes_unchanged(upstream: Upstream) -> None:
    whole = BEGUN + b"data: [DONE]\n\n"

    def says(call: Call) -> None:
        call.begin()
        call.chunk(whole[:50])
        call.chunk(whole[50:])
        call.end()

    upstream.plays(says)
    async with engine(upstream.port) as one:
        only = Try(one, EngineRequest("POST", "/chat/completions", request().headers, b"{}", chat()))
        failover = Failover([only])
        async with failover as reply, Continuation([only], failover.let_go) as rest:
            assert b"".join([chunk async for chunk in rest.chunks(reply)]) == whole
