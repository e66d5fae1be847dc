"""Other endpoints of a configured model: the next engine answers where one fails, if its answer can be of use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import FormData, web

from tests.flow.line import Asked, Line, Upstream, line, upstream


@dataclass
class Stage:
    """A gateway, the engine that is asked first and the one that stands by, and the default upstream."""

    gate: Line
    first: Upstream
    second: Upstream
    other: Upstream


@asynccontextmanager
async def stage(**second: Any) -> AsyncIterator[Stage]:
    async with upstream() as one, upstream() as two, upstream() as other:
        for each, name in ((one, "first"), (two, "second"), (other, "other")):
            each.script = says(name)
        engines = {
            "first": {"base_url": one.url, "model": "theirs"},
            "second": {"base_url": two.url, "model": "theirs"} | second,
        }
        config = {
            "upstream": {"base_url": other.url},
            "engines": engines,
            "models": {"ours": {"engines": ["second", "first"]}},
        }
        async with line(config) as gate:
            yield Stage(gate, one, two, other)


def says(name: str) -> Any:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"by": name})

    return script


async def down(request: web.Request, asked: Asked) -> web.StreamResponse:
    return web.json_response({"error": {"message": "Overloaded."}}, status=503)


@pytest.mark.parametrize(
    "path",
    [
        "/embeddings",
        "/completions",
        "/responses/input_tokens",
        "/moderations",
        "/images/generations",
        "/audio/speech",
    ],
)
async def test_the_next_engine_answers_where_one_fails(path: str) -> None:
    async with stage() as here:
        body = {"model": "ours", "input": "Hello."}
        got = await here.gate.post(path, body)
        assert (got.json, got.headers["x-understudy-engine"]) == ({"by": "first"}, "first")
        assert here.first.asked[0].json == body | {"model": "theirs"}
        here.first.script = down
        got = await here.gate.post(path, body)
        assert (got.json, got.headers["x-understudy-failed-over"]) == ({"by": "second"}, "first; server")
        assert not here.other.asked


async def test_embeddings_of_another_model_are_no_stand_in() -> None:
    async with stage(model="another") as here:
        here.first.script = down
        body = {"model": "ours", "input": "Hello."}
        assert (await here.gate.post("/embeddings", body)).status == 503 and not here.second.asked
        assert (await here.gate.post("/completions", body)).json == {"by": "second"}


@pytest.mark.parametrize(
    "stored",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"prompt": {"id": "pmpt_1"}},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
    ],
)
async def test_what_names_something_stored_upstream_never_moves(stored: dict[str, Any]) -> None:
    async with stage() as here:
        here.first.script = down
        assert (
            await here.gate.post("/responses/input_tokens", {"model": "ours", "input": "x"} | stored)
        ).status == 503
        assert not here.second.asked
        here.first.script = says("first")
        text = {"model": "ours", "input": 'What is "conversation": 1?', "previous_response_id": None}
        here.first.script = down
        assert (await here.gate.post("/responses/input_tokens", text)).json == {"by": "second"}


async def test_a_form_is_sent_to_the_next_engine_with_its_files(tmp_path: Any) -> None:
    async with stage() as here:
        here.first.script = down
        form = FormData()
        form.add_field("file", b"RIFF\r\n\x00", filename="a.wav", content_type="audio/wav")
        form.add_field("model", "ours")
        async with here.gate.session.post(f"{here.gate.url}/audio/transcriptions", data=form) as got:
            assert await got.json() == {"by": "second"}
        assert (
            b"RIFF\r\n\x00" in here.second.asked[0].body
            and b"\r\n\r\ntheirs\r\n" in here.second.asked[0].body
        )


async def test_what_names_no_model_of_ours_goes_to_the_default_upstream_as_it_came() -> None:
    async with stage() as here:
        body = b'{ "model":"elsewhere", "input": 1.0 }'
        got = await here.gate.post("/responses/input_tokens", body)
        assert got.json == {"by": "other"} and here.other.asked[0].body == body
