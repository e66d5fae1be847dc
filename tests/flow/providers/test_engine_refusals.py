"""An engine that says, in whatever words and with whatever status, that it will not answer anybody: others answer."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.flow.line import Asked, Line, Upstream, line, upstream

CREDIT = {
    "type": "error",
    "error": {"message": "Your credit balance is too low to access the Anthropic API."},
}
KEY = [{"error": {"code": 400, "message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}}]
TEMPERATURE = {"error": {"message": "Invalid value for 'temperature'.", "param": "temperature"}}
QUOTING = {"error": {"message": "Invalid value: 'Your credit balance is too low'.", "param": "messages[0]"}}


@asynccontextmanager
async def _two(**own: Any) -> AsyncIterator[tuple[Line, Upstream, Upstream]]:
    own = own or {"api_key": "k"}
    async with upstream() as first, upstream() as second:
        second.says = "Stand-in."
        engines = {
            "first": {"base_url": first.url, **own},
            "second": {"base_url": second.url, "api_key": "k"},
        }
        models = {"gpt-4o": {"engines": ["second", "first"], "policy": "fixed"}}
        async with line({"engines": engines, "models": models}) as gate:
            yield gate, first, second


def _refuses(upstream: Upstream, status: int, said: Any, *, pieces: int = 1, packed: bool = False) -> None:
    async def script(request: web.Request, _: Asked) -> web.StreamResponse:
        body = json.dumps(said).encode()
        response = web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
        if packed:
            packer = zlib.compressobj(wbits=31)
            body = packer.compress(body) + packer.flush()
            response.headers["Content-Encoding"] = "gzip"
        await response.prepare(request)
        size = -(-len(body) // pieces)
        for start in range(0, len(body), size):
            await response.write(body[start : start + size])
        return response

    upstream.script = script


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [(400, CREDIT, "quota"), (400, KEY, "refused"), (421, "Misdirected Request", "refused")],
)
async def test_the_stand_in_answers(status: int, said: Any, kind: str, stream: bool) -> None:
    async with _two() as (gate, first, _):
        for options in ({}, {"pieces": 5}, {"packed": True}, {}, {}):
            _refuses(first, status, said, **options)
            got = await gate.chat("Who?", stream=stream)
            assert (got.status, got.text) == (200, "Stand-in.")
            assert got.headers["x-understudy-failed-over"] == f"first; {kind}"
        asked = len(first.asked)
        assert (await gate.chat("Who?", stream=stream)).text == "Stand-in."
        assert len(first.asked) == asked, "after five in a row it is left alone"


@pytest.mark.parametrize("said", [TEMPERATURE, QUOTING])
async def test_an_error_of_the_client_is_the_clients(said: Any) -> None:
    async with _two() as (gate, first, second):
        for pieces in (1, 5, 1, 1):
            _refuses(first, 400, said, pieces=pieces)
            got = await gate.chat("Who?")
            assert (got.status, got.json) == (400, said)
        assert len(first.asked) == 4 and not second.asked


async def test_what_the_clients_own_key_is_refused_is_the_clients() -> None:
    async with _two(advanced={"forwards_client_key": True}) as (gate, first, second):
        _refuses(first, 400, CREDIT)
        got = await gate.chat("Who?", headers={"Authorization": "Bearer sk-mine"})
        assert (got.status, got.json) == (400, CREDIT)
        assert not second.asked
