"""Exact repeats over real sockets: what is answered from memory, and what must never be."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDict

from tests.flow.line import Asked, Line, Upstream, completion, line
from tests.flow.line import upstream as scripted
from tests.flow.upstream import Upstream as Raw

EXACT_ONLY = {"examples": {"enabled": False}}


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with scripted() as made:
        yield made


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    memory = {"data_dir": str(tmp_path / "data"), **EXACT_ONLY}
    async with line({"upstream": {"base_url": behind.url}, "memory": memory}) as made:
        yield made


async def test_the_same_request_is_answered_from_memory_byte_for_byte(gate: Line, behind: Upstream) -> None:
    first, second = await gate.chat("What is six times seven?"), await gate.chat("What is six times seven?")
    assert len(behind.asked) == 1
    assert first.headers["Cache-Status"] == "understudy; fwd=miss" and not first.hit
    assert second.hit and second.body == first.body
    assert second.headers["Content-Type"].startswith("application/json")


async def test_key_order_and_fields_that_change_no_answer_still_hit(gate: Line, behind: Upstream) -> None:
    await gate.post(
        "/chat/completions", {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "seed": 1}
    )
    again = {
        "seed": 1,
        "messages": [{"content": "Hi", "role": "user"}],
        "model": "gpt-4o",
        "prompt_cache_key": "u-7",
        "service_tier": "flex",
    }
    assert (await gate.post("/chat/completions", again)).hit
    assert len(behind.asked) == 1


@pytest.mark.parametrize(
    "change", [{"temperature": 0.5}, {"seed": 2}, {"model": "gpt-4o-mini"}, {"brand_new_field": None}]
)
async def test_any_other_difference_is_a_miss(gate: Line, behind: Upstream, change: dict[str, Any]) -> None:
    await gate.chat("Hi", seed=1)
    assert not (await gate.chat("Hi", **({"seed": 1} | change))).hit
    assert len(behind.asked) == 2


async def test_a_streamed_answer_serves_both_kinds_of_client(gate: Line, behind: Upstream) -> None:
    behind.says = "The answer is forty-two, as everybody knows by now."
    streamed = await gate.chat("Q", stream=True, stream_options={"include_usage": True})
    plain = await gate.chat("Q")
    again = await gate.chat("Q", stream=True)
    assert len(behind.asked) == 1 and plain.hit and again.hit
    assert streamed.text == plain.text == again.text
    assert plain.json["object"] == "chat.completion" and plain.json["usage"]["total_tokens"] == 10


async def test_no_proxy_in_front_is_to_hold_a_stream_back(gate: Line) -> None:
    assert (await gate.chat("Q", stream=True)).headers["X-Accel-Buffering"] == "no"
    assert "X-Accel-Buffering" not in (await gate.chat("Another?")).headers


async def test_a_plain_answer_is_replayed_as_a_real_stream(gate: Line, behind: Upstream) -> None:
    behind.says = "One two three four five six seven eight nine ten eleven twelve."
    await gate.chat("Count")
    streamed = await gate.chat("Count", stream=True)
    assert streamed.hit and streamed.headers["Content-Type"].startswith("text/event-stream")
    deltas = [e["choices"][0]["delta"] for e in streamed.events]
    assert deltas[0]["role"] == "assistant" and len(deltas) > 4, "in pieces, not as one blob"
    assert streamed.events[-1]["choices"][0]["finish_reason"] == "stop"
    assert streamed.text == behind.says


async def test_usage_on_a_replayed_stream_is_as_asked_for(gate: Line) -> None:
    await gate.chat("Q")
    silent = await gate.chat("Q", stream=True)
    told = await gate.chat("Q", stream=True, stream_options={"include_usage": True})
    assert all("usage" not in event for event in silent.events)
    assert told.events[-1]["usage"]["total_tokens"] == 10 and told.events[-1]["choices"] == []
    assert all(event["usage"] is None for event in told.events[:-1])


async def test_usage_that_no_engine_told_is_never_told_by_a_replay(gate: Line, behind: Upstream) -> None:
    await gate.chat("Q", stream=True)
    plain, streamed = await gate.chat("Q"), await gate.chat("Q", stream=True)
    assert plain.hit and streamed.hit and len(behind.asked) == 1
    assert "usage" not in plain.json and all("usage" not in event for event in streamed.events)
    counted = await gate.chat("Q", stream=True, stream_options={"include_usage": True})
    assert not counted.hit and counted.events[-1]["usage"]["total_tokens"] == 10
    again = await gate.chat("Q", stream=True, stream_options={"include_usage": True})
    assert again.hit and again.events[-1]["usage"]["total_tokens"] == 10


async def test_no_cache_asks_again_and_keeps_the_fresh_answer(gate: Line, behind: Upstream) -> None:
    await gate.chat("Q")
    behind.says = "Forty-three."
    fresh = await gate.chat("Q", {"Cache-Control": "no-cache"})
    assert fresh.headers["Cache-Status"] == "understudy; fwd=bypass" and fresh.text == "Forty-three."
    later = await gate.chat("Q")
    assert later.hit and later.text == "Forty-three."


@pytest.mark.parametrize("headers", [{"Cache-Control": "max-age=0"}, {"Pragma": "no-cache"}])
async def test_other_words_for_no_cache_ask_again_too(
    gate: Line, behind: Upstream, headers: dict[str, str]
) -> None:
    await gate.chat("Q")
    behind.says = "Forty-three."
    assert (await gate.chat("Q", headers)).text == "Forty-three."
    assert (await gate.chat("Q")).text == "Forty-three.", "the fresh answer is kept"


async def test_no_store_counts_in_whichever_line_it_stands(gate: Line, behind: Upstream) -> None:
    for lines in (["max-age=0", "no-store"], ["", "no-store"], ["no-store;q=1"], ['a="b']):
        asked = len(behind.asked)
        headers = CIMultiDict([("Cache-Control", line) for line in lines])
        await gate.chat("secret plan", headers)
        assert not (await gate.chat("secret plan", headers)).hit
        assert len(behind.asked) == asked + 2, lines
    assert not (await gate.chat("secret plan")).hit


async def test_a_directive_inside_quotes_is_none(gate: Line) -> None:
    await gate.chat("Q", {"Cache-Control": 'foo="x, no-store"'})
    assert (await gate.chat("Q")).hit


@pytest.mark.parametrize(
    "said", ["no-store", "private", "max-age=0", "public, s-maxage=0", "max-age=60, no-store"]
)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "Q"}]}),
        ("/embeddings", {"model": "e", "input": "text"}),
    ],
)
async def test_an_answer_that_its_upstream_keeps_to_one_client_is_not_replayed(
    gate: Line, behind: Upstream, path: str, body: dict[str, Any], said: str
) -> None:
    async def say(request: web.Request, asked: Asked) -> web.StreamResponse:
        whole = completion("Forty-two.") if "messages" in asked.json else EMBEDDED
        return web.json_response(whole, headers={"Cache-Control": said})

    behind.script = say
    await gate.post(path, body)
    assert not (await gate.post(path, body)).hit


@pytest.mark.parametrize(("headers", "fields"), [({"Cache-Control": "no-store"}, {}), ({}, {"store": False})])
async def test_an_opted_out_answer_is_not_kept(
    gate: Line, behind: Upstream, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    await gate.chat("secret plan", headers, **fields)
    assert not (await gate.chat("secret plan")).hit
    assert len(behind.asked) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_errors_are_not_kept(gate: Line, behind: Upstream, status: int) -> None:
    async def fail(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(
            {"error": {"message": "no", "type": "t", "param": None, "code": "c"}}, status=status
        )

    behind.script = fail
    assert (await gate.chat("Q")).status == status
    behind.script = None
    assert (await gate.chat("Q")).text == "Forty-two."


async def test_a_stream_without_its_terminal_event_is_an_error_and_not_kept(
    gate: Line, behind: Upstream
) -> None:
    async def cut(request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(
            b'data: {"choices":[{"index":0,"delta":{"content":"Forty"},"finish_reason":null}]}\n\n'
        )
        return response

    behind.script = cut
    body = b'{"model":"gpt-4o","messages":[{"role":"user","content":"Q"}],"stream":true}'
    seen = b""
    with pytest.raises(Exception, match=r"payload|Transfer|closed|Disconnected"):
        async with gate.session.post(gate.url + "/chat/completions", data=body) as response:
            async for chunk in response.content.iter_any():
                seen += chunk
    assert b"Forty" in seen and b'"error"' in seen and b"[DONE]" not in seen
    await gate.settled()
    behind.script = None
    assert not (await gate.chat("Q", stream=True)).hit


async def test_answers_that_call_tools_or_were_cut_short_are_not_kept(gate: Line, behind: Upstream) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answers = [
        completion("", message={"content": None, "tool_calls": [call]}, finish_reason="tool_calls"),
        completion("half of", finish_reason="length"),
    ]
    for answer in answers:

        async def say(
            request: web.Request, asked: Asked, answer: dict[str, Any] = answer
        ) -> web.StreamResponse:
            return web.json_response(answer)

        behind.script = say
        await gate.chat("Q", seed=len(behind.asked))
        behind.script = None
        assert not (await gate.chat("Q", seed=len(behind.asked) - 1)).hit


async def test_several_choices_are_replayed_whole(gate: Line) -> None:
    first = await gate.chat("Q", n=3, seed=1)
    second = await gate.chat("Q", n=3, seed=1, stream=True)
    assert len(first.json["choices"]) == 3
    assert second.hit and {c["index"] for e in second.events for c in e["choices"]} == {0, 1, 2}


@pytest.mark.parametrize(
    ("answer", "fields"),
    [
        (completion("Forty-two.", n=0), {}),
        (completion(""), {}),
        (completion("", message={"content": None}), {}),
        (completion("Forty-two.", n=2), {}),
        (completion("Forty-two."), {"n": 2, "seed": 1}),
        (completion("Forty-two.", finish_reason="tool_calls"), {}),
        (completion("Forty-two.", error={"message": "no"}), {}),
        ({"error": {"message": "no"}}, {}),
    ],
    ids=["no choice", "no text", "null", "one too many", "one too few", "calls", "and an error", "error"],
)
async def test_what_is_no_whole_answer_is_not_kept(
    gate: Line, behind: Upstream, answer: dict[str, Any], fields: dict[str, Any]
) -> None:
    async def say(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(answer)

    behind.script = say
    await gate.chat("Q", **fields)
    behind.script = None
    assert not (await gate.chat("Q", **fields)).hit


@pytest.mark.parametrize("status", [202, 203, 206])
async def test_only_a_status_of_200_is_kept(gate: Line, behind: Upstream, status: int) -> None:
    async def say(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(completion("Forty-two."), status=status)

    behind.script = say
    await gate.chat("Q")
    assert not (await gate.chat("Q")).hit


async def test_a_refusal_is_an_answer(gate: Line, behind: Upstream) -> None:
    async def say(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(completion("", message={"content": None, "refusal": "I cannot."}))

    behind.script = say
    first = await gate.chat("Q")
    second = await gate.chat("Q")
    assert second.hit and second.body == first.body


@pytest.mark.parametrize(
    "fields", [{"temperature": 1}, {"temperature": 0.2}, {"n": 2}, {"temperature": 1, "n": 2}]
)
async def test_five_calls_that_want_variety_are_five_answers(
    gate: Line, behind: Upstream, fields: dict[str, Any]
) -> None:
    got = [await gate.chat("Q", **fields) for _ in range(5)]
    assert len(behind.asked) == 5
    assert {g.headers["Cache-Status"] for g in got} == {"understudy; fwd=bypass"}


@pytest.mark.parametrize(
    "fields",
    [{}, {"temperature": 0}, {"temperature": 0, "n": 2}, {"temperature": 1, "seed": 7}, {"n": 2, "seed": 7}],
)
async def test_what_wants_no_variety_is_answered_from_memory(gate: Line, fields: dict[str, Any]) -> None:
    await gate.chat("Q", **fields)
    assert (await gate.chat("Q", **fields)).hit


async def test_an_operator_may_replay_sampled_answers_too(behind: Upstream, tmp_path: Path) -> None:
    memory = {"data_dir": str(tmp_path), "exact": {"sampled": True}, **EXACT_ONLY}
    async with line({"upstream": {"base_url": behind.url}, "memory": memory}) as gate:
        await gate.chat("Q", temperature=1, n=2)
        assert (await gate.chat("Q", temperature=1, n=2)).hit


CALLS = [
    ("/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "Q"}]}),
    ("/embeddings", {"model": "e", "input": "text"}),
]


@pytest.mark.parametrize(("path", "body"), CALLS)
@pytest.mark.parametrize("name", ["OpenAI-Organization", "openai-project", "OpenAI-Beta", "Anthropic-Beta"])
async def test_a_header_that_is_known_to_change_answers_tells_requests_apart(
    gate: Line, path: str, body: dict[str, Any], name: str
) -> None:
    await gate.post(path, body, {name: "one"})
    assert not (await gate.post(path, body, {name: "two"})).hit
    assert not (await gate.post(path, body)).hit
    assert (await gate.post(path, body, {name.upper(): "one"})).hit


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_tracing_headers_tell_no_requests_apart(gate: Line, path: str, body: dict[str, Any]) -> None:
    await gate.post(path, body, {"x-request-id": "1", "traceparent": "00-1", "x-stainless-retry-count": "0"})
    assert (await gate.post(path, body, {"x-request-id": "2", "x-forwarded-for": "10.0.0.1"})).hit


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_metadata_tells_requests_apart_where_the_upstream_may_act_on_it(
    gate: Line, path: str, body: dict[str, Any]
) -> None:
    await gate.post(path, body | {"metadata": {"route": "a"}})
    assert not (await gate.post(path, body | {"metadata": {"route": "b"}})).hit
    assert (await gate.post(path, body | {"metadata": {"route": "a"}})).hit


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_another_upstream_or_other_headers_to_it_never_replay_the_former_s_answers(
    behind: Upstream, tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    memory = {"data_dir": str(tmp_path), **EXACT_ONLY}
    other = behind.url.replace("127.0.0.1", "localhost")
    former: dict[str, Any] = {"base_url": behind.url}
    for changed in (
        {"base_url": other},
        {"base_url": behind.url, "advanced": {"headers": {"x-provider": "b"}}},
        {"base_url": behind.url, "advanced": {"headers": {"x-provider": "c"}}},
    ):
        async with line({"upstream": former, "memory": memory}) as gate:
            await gate.post(path, body)
            assert (await gate.post(path, body)).hit
        async with line({"upstream": changed, "memory": memory}) as gate:
            assert not (await gate.post(path, body)).hit
        former = changed


async def test_another_model_behind_an_engine_never_replays_the_former_s_answers(
    behind: Upstream, tmp_path: Path
) -> None:
    def config(model: str) -> dict[str, Any]:
        return {
            "engines": {"large": {"base_url": behind.url, "model": model}},
            "models": {"m": {"engines": ["large"]}},
            "memory": {"data_dir": str(tmp_path), **EXACT_ONLY},
        }

    async with line(config("gpt-old")) as gate:
        await gate.chat("Q", model="m")
        assert (await gate.chat("Q", model="m")).hit
    async with line(config("gpt-new")) as gate:
        assert not (await gate.chat("Q", model="m")).hit
    assert [asked.json["model"] for asked in behind.asked] == ["gpt-old", "gpt-new"]


async def test_two_clients_with_different_credentials_never_share_an_answer(
    gate: Line, behind: Upstream
) -> None:
    await gate.chat("Q", {"Authorization": "Bearer sk-alice"})
    assert not (await gate.chat("Q", {"Authorization": "Bearer sk-bob"})).hit
    assert (await gate.chat("Q", {"Authorization": "Bearer sk-alice"})).hit
    assert [a.headers["Authorization"] for a in behind.asked] == ["Bearer sk-alice", "Bearer sk-bob"]


async def test_embeddings_are_answered_from_memory_too(gate: Line, behind: Upstream) -> None:
    first = await gate.post("/embeddings", {"model": "e", "input": "text"})
    second = await gate.post("/embeddings", {"input": "text", "model": "e"})
    other = await gate.post("/embeddings", {"model": "e", "input": "another text"})
    assert second.hit and second.body == first.body and not other.hit
    assert len(behind.asked) == 2


EMBEDDED = {"object": "list", "data": [{"embedding": [0.5, 0.25]}]}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"error": {"message": "overloaded"}}', "application/json"),
        (b'{"object": "list", "data": []}', "application/json"),
        (b'{"object": "list", "data": [{"embedding": []}]}', "application/json"),
        (b'{"object": "list", "data": [{"embedding": [0.5]}, {}]}', "application/json"),
        (b'{"object": "list", "data": [{"embedding": [0.1,0.2', "application/json"),
        (b'[{"embedding": [0.5]}]', "application/json"),
        (b"<html>Down for maintenance</html>", "text/html"),
        (json.dumps(EMBEDDED).encode(), "text/html"),
        (b"", "application/json"),
    ],
    ids=["error", "no vectors", "empty vector", "one missing", "cut", "a list", "html", "html type", "empty"],
)
async def test_what_holds_no_vectors_is_not_kept(
    gate: Line, behind: Upstream, body: bytes, content_type: str
) -> None:
    async def say(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.Response(body=body, content_type=content_type)

    behind.script = say
    assert (await gate.post("/embeddings", {"model": "e", "input": "text"})).body == body
    behind.script = None
    assert not (await gate.post("/embeddings", {"model": "e", "input": "text"})).hit


async def test_vectors_of_which_nobody_could_see_a_cut_are_not_kept(tmp_path: Path, upstream: Raw) -> None:
    body = json.dumps(EMBEDDED).encode()
    upstream.says(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body)
    memory = {"data_dir": str(tmp_path), **EXACT_ONLY}
    async with line({"upstream": {"base_url": upstream.url}, "memory": memory}) as gate:
        assert (await gate.post("/embeddings", {"model": "e", "input": "text"})).body == body
        assert not (await gate.post("/embeddings", {"model": "e", "input": "text"})).hit


async def test_vectors_in_base64_are_kept(gate: Line, behind: Upstream) -> None:
    async def say(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [{"embedding": "AAAAPwAAgD4="}]})

    behind.script = say
    await gate.post("/embeddings", {"model": "e", "input": "text"})
    assert (await gate.post("/embeddings", {"model": "e", "input": "text"})).hit


async def test_a_store_that_cannot_be_read_is_passed_by(gate: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = gate.gateway.memory
    assert memory is not None and memory.exact is not None

    def broken(key: bytes, now_s: float) -> None:
        raise OSError("no such file")

    monkeypatch.setattr(memory.exact, "get", broken)
    assert (await gate.post("/embeddings", {"model": "e", "input": "text"})).status == 200
    assert (await gate.chat("Q")).status == 200


async def test_the_time_that_is_left_is_told(behind: Upstream, tmp_path: Path) -> None:
    memory = {"data_dir": str(tmp_path), "exact": {"ttl_s": 1234}, **EXACT_ONLY}
    config = {"upstream": {"base_url": behind.url}, "memory": memory}
    for _ in range(2):  # From memory, and after a restart from disk.
        async with line(config) as gate:
            for path, body in CALLS:
                await gate.post(path, body)
                status = (await gate.post(path, body)).headers["Cache-Status"]
                left = int(status.partition("ttl=")[2].partition(";")[0])
                assert 1100 < left <= 1234


async def test_an_answer_from_a_clock_that_was_ahead_is_not_replayed(
    gate: Line, behind: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.time()
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time", lambda: now_s + 400 * 86400)
        for path, body in CALLS:
            await gate.post(path, body)
    for path, body in CALLS:
        assert not (await gate.post(path, body)).hit
    assert len(behind.asked) == 4


async def test_an_answer_survives_a_restart(behind: Upstream, tmp_path: Path) -> None:
    config = {"upstream": {"base_url": behind.url}, "memory": {"data_dir": str(tmp_path), **EXACT_ONLY}}
    async with line(config) as first:
        await first.chat("Q")
    async with line(config) as second:
        assert (await second.chat("Q")).hit
    assert len(behind.asked) == 1


async def test_an_answer_expires(behind: Upstream, tmp_path: Path) -> None:
    memory = {"data_dir": str(tmp_path), "exact": {"ttl_s": 0.05}, **EXACT_ONLY}
    async with line({"upstream": {"base_url": behind.url}, "memory": memory}) as gate:
        await gate.chat("Q")

        await asyncio.sleep(0.1)
        assert not (await gate.chat("Q")).hit


async def test_compressed_upstream_answers_are_understood(gate: Line, behind: Upstream) -> None:
    async def zipped(request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.json_response(completion("Forty-two."))
        response.enable_compression(web.ContentCoding.gzip)
        return response

    behind.script = zipped
    first = await gate.chat("Q", {"Accept-Encoding": "gzip, br, zstd"})
    assert first.headers["Content-Encoding"] == "gzip"
    assert behind.asked[0].headers["Accept-Encoding"] == "gzip", "nothing we could not read is asked for"
    second = await gate.chat("Q")
    assert second.hit and second.text == "Forty-two."


@pytest.mark.parametrize(
    "header", ["CF-Ray", "True-Client-IP", "newrelic", "x-portkey-trace-id", "x-of-tomorrow"]
)
async def test_a_header_that_a_local_server_does_not_know_keeps_no_repeat_from_memory(
    gate: Line, behind: Upstream, header: str
) -> None:
    got = [await gate.chat("Who asks?", {header: value}) for value in ("a", "b")]
    assert got[1].hit and behind.asked[0].headers[header] == "a"


@pytest.mark.parametrize(
    "header", ["OpenAI-Project", "X-User-Id", "X-Auth-Request-Email", "X-Mine", "X-Asker"]
)
async def test_what_changes_answers_or_says_who_asks_keeps_requests_apart(
    behind: Upstream, tmp_path: Path, header: str
) -> None:
    memory = {"data_dir": str(tmp_path / "data"), **EXACT_ONLY, "exact": {"headers": ["x-mine"]}}
    config = {
        "upstream": {"base_url": behind.url},
        "memory": memory,
        "listen": {"tenant_headers": ["X-Asker"]},
    }
    async with line(config) as gate:
        got = [await gate.chat("Who asks?", {header: value}) for value in ("a", "b", "a")]
        assert [one.hit for one in got] == [False, False, True]
        for value, hit in (("a", False), ("b", False), ("b", True)):
            body = {"model": "ada", "input": "x"}
            assert (await gate.post("/embeddings", body, {header: value})).hit == hit
