"""Other endpoints of a configured model: the next engine answers where one fails, if its answer can be of use."""

from __future__ import annotations

import gzip
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import FormData, web
from yarl import URL

from tests.flow.line import Asked, Line, Upstream, line, upstream


@dataclass
class Stage:
    """A gateway, the engine that is asked first and the one that stands by, and the default upstream."""

    gate: Line
    first: Upstream
    second: Upstream
    other: Upstream


@asynccontextmanager
async def stage(limit_mib: float = 32, *, alone: bool = False, **second: Any) -> AsyncIterator[Stage]:
    """`alone`: the second engine serves a model of its own. `second`: its settings."""
    async with upstream() as one, upstream() as two, upstream() as other:
        for each, name in ((one, "first"), (two, "second"), (other, "other")):
            each.script = says(name)
        engines = {
            "first": {"base_url": one.url, "model": "theirs"},
            "second": {"base_url": two.url, "model": "theirs"} | second,
        }
        config: dict[str, Any] = {
            "upstream": {"base_url": other.url},
            "engines": engines,
            "models": {"ours": {"engines": ["first"] if alone else ["second", "first"]}},
            "listen": {"advanced": {"max_json_mib": limit_mib}},
        }
        if alone:
            config["models"]["mine"] = {"engines": ["second"]}
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


@pytest.mark.parametrize("path", ["/chat/completions", "/embeddings", "/audio/speech", "/rerank"])
@pytest.mark.parametrize("unread", [{"Content-Type": "text/plain"}, {"Content-Encoding": "compress"}])
async def test_where_models_are_served_nothing_passes_that_nobody_can_read(
    path: str, unread: dict[str, str]
) -> None:
    async with stage() as here:
        got = await here.gate.post(path, b"{}", {"Content-Type": "application/json"} | unread)
        assert (got.status, got.json["error"]["code"]) == (415, "unsupported_media_type")
        assert not here.other.asked and not here.first.asked


def form(*parts: tuple[str, bytes]) -> bytes:
    made = [b"--b\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % (d.encode(), v) for d, v in parts]
    return b"".join(made) + b"--b--\r\n"


FORM = {"Content-Type": "multipart/form-data; boundary=b"}
NAMED = ('name="model"', b"ours")
FILE = ('name="file"; filename="a.mp3"', b"\x00\xff")


async def chunked(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/audio/transcriptions", FORM, form(FILE, NAMED)),
        ("/images/edits", FORM, form(NAMED, FILE)),
        ("/images/generations", {}, b'{"model":"ours","prompt":"x"}'),
        ("/embeddings", {}, b'{"model":"ours","input":"x"}'),
        ("/audio/speech", {"Content-Encoding": "gzip"}, gzip.compress(b'{"model":"ours"}', mtime=0)),
        (
            "/audio/transcriptions",
            FORM | {"Content-Encoding": "gzip"},
            gzip.compress(form(FILE, NAMED), mtime=0),
        ),
    ],
)
async def test_a_body_without_a_length_reaches_the_engine_of_its_model(
    path: str, headers: dict[str, str], body: bytes
) -> None:
    async with stage() as here:
        json = {} if "Content-Type" in headers else {"Content-Type": "application/json"}
        data = chunked(body[:20], body[20:])
        async with here.gate.session.post(here.gate.url + path, data=data, headers=headers | json) as got:
            assert await got.json() == {"by": "first"}
        assert not here.other.asked and b"theirs" in here.first.asked[0].body
        assert "Content-Encoding" not in here.first.asked[0].headers


@pytest.mark.parametrize("with_length", [True, False])
async def test_what_is_too_long_to_be_read_is_refused_wherever_it_would_go(with_length: bool) -> None:
    async with stage(limit_mib=0.01) as here:
        pieces = [form(FILE, NAMED), b"x" * 20_000]
        data = b"".join(pieces) if with_length else chunked(*pieces)
        async with here.gate.session.post(
            f"{here.gate.url}/audio/transcriptions", data=data, headers=FORM
        ) as got:
            assert got.status == 413 and (await got.json())["error"]["code"] == "request_too_large"
        assert not here.other.asked and not here.first.asked


async def test_a_file_says_nothing_about_where_a_form_goes() -> None:
    async with stage() as here:
        url = f"{here.gate.url}/audio/transcriptions"
        parts = [('name="file"; filename="a"', b"elsewhere"), NAMED]
        async with here.gate.session.post(url, data=form(*parts), headers=FORM) as got:
            assert await got.json() == {"by": "first"}


@pytest.mark.parametrize(
    "parts",
    [
        [('name="Model"', b"ours"), ('name="model"', b"elsewhere")],
        [('name="model2"', b"ours"), ('name="model"', b"elsewhere")],
        [('name="file"; filename="a name=model"', b"ours"), ('name="model"', b"elsewhere")],
        [('name="Model"', b"ours")],
    ],
)
async def test_a_form_that_two_servers_could_read_differently_is_refused(
    parts: list[tuple[str, bytes]],
) -> None:
    async with stage() as here:
        url = f"{here.gate.url}/audio/transcriptions"
        async with here.gate.session.post(url, data=form(*parts), headers=FORM) as got:
            assert got.status == 400 and (await got.json())["error"]["code"] == "invalid_form"
        assert not here.other.asked and not here.first.asked


async def test_a_form_with_two_models_is_refused_by_the_name_of_the_field() -> None:
    async with stage() as here:
        url = f"{here.gate.url}/audio/transcriptions"
        two = form(NAMED, ('name="model"', b"elsewhere"))
        async with here.gate.session.post(url, data=two, headers=FORM) as got:
            error = (await got.json())["error"]
        assert (got.status, error["param"]) == (400, "model") and not here.other.asked


async def test_a_large_form_is_read_beside_the_event_loop() -> None:
    async with stage() as here:
        url = f"{here.gate.url}/audio/transcriptions"
        large = form((FILE[0], b"\r\n--" * 200_000), NAMED)
        async with here.gate.session.post(url, data=io.BytesIO(large), headers=FORM) as got:
            assert await got.json() == {"by": "first"}
        assert here.first.asked[0].body == large.replace(b"\r\n\r\nours", b"\r\n\r\ntheirs")


@pytest.mark.parametrize(
    ("asked", "openai", "vllm"),
    [
        ("/v1/rerank", "/v1/rerank", "/v1/rerank"),
        ("/rerank", "/rerank", "/rerank"),
        ("/v2/rerank?x=%20", "/v2/rerank?x=%20", "/v2/rerank?x=%20"),
        ("/v1/score", "/v1/score", "/v1/score"),
        ("/v2/score", "/v2/score", "/score"),
        ("/v1/classify", "/v1/classify", "/classify"),
        ("/pooling", "/pooling", "/pooling"),
        ("/v1/tokenize", "/v1/tokenize", "/tokenize"),
        ("/detokenize", "/detokenize", "/detokenize"),
        ("/v2//Rerank/", "/v2//Rerank/", "/v2//Rerank/"),
    ],
)
async def test_what_model_servers_have_at_their_root_goes_to_the_models_engines(
    asked: str, openai: str, vllm: str
) -> None:
    async with stage(kind="vllm", alone=True) as here:
        root = here.gate.url.removesuffix("/v1")
        for model, engine, path in (("ours", here.first, openai), ("mine", here.second, vllm)):
            engine.asked.clear()
            async with here.gate.session.post(URL(root + asked, encoded=True), json={"model": model}) as got:
                assert got.status == 200
            assert [one.path for one in engine.asked if one.body] == [path]
        assert not here.other.asked
        async with here.gate.session.post(URL(root + asked, encoded=True), json={"model": "else"}) as got:
            assert await got.json() == {"by": "other"}
        assert [one.path for one in here.other.asked] == [openai]


async def test_another_servers_path_at_the_root_is_still_unknown() -> None:
    async with stage() as here:
        root = here.gate.url.removesuffix("/v1")
        for path in ("/rerank2", "/v3/rerank", "/v2/chat/completions", "/chat/completions"):
            async with here.gate.session.post(root + path, json={"model": "ours"}) as got:
                assert got.status == 404
        assert not here.other.asked and not here.first.asked


async def test_azures_path_names_the_model_of_a_form_whatever_it_says() -> None:
    async with stage() as here:
        root = here.gate.url.removesuffix("/v1")
        url = f"{root}/openai/deployments/ours/audio/transcriptions?api-version=1"
        for parts in ([FILE], [FILE, ('name="model"', b"elsewhere")], [NAMED]):
            async with here.gate.session.post(url, data=form(*parts), headers=FORM) as got:
                assert await got.json() == {"by": "first"}
            assert b'name="model"\r\n\r\ntheirs\r\n' in here.first.asked[-1].body
