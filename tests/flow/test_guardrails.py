"""Guardrails over real sockets: what one blocks reaches no engine, no memory and no client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import FormData, web

from tests.aiohttp_server import aiohttp_server
from tests.flow.line import Asked, Line, Upstream, completion, events, line, upstream

Says = Callable[[dict[str, Any]], web.Response]


def blocking(asked: dict[str, Any]) -> web.Response:
    """Blocks what holds `forbidden`."""
    judged = asked["request"] if asked["input_type"] == "request" else asked["response"]
    blocked = "forbidden" in str(judged)
    return web.json_response(
        {"action": "block", "reason": "no such\nwords"} if blocked else {"action": "allow"}
    )


def replacing(**said: Any) -> Says:
    """Replaces whatever it is asked about."""
    return lambda asked: web.json_response({"action": "replace", **said})


@dataclass
class Guard:
    """A guardrail's server."""

    asked: list[dict[str, Any]] = field(default_factory=list)
    credentials: list[str | None] = field(default_factory=list)
    says: Says = blocking
    hangs: asyncio.Event | None = None

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        self.credentials.append(request.headers.get("Authorization"))
        if self.hangs is not None:
            await self.hangs.wait()
        return self.says(self.asked[-1])


async def answered(request: web.Request, asked: Asked) -> web.StreamResponse:
    """An upstream that speaks four APIs, and says `forbidden` where it is asked for it."""
    path = request.path
    if request.method == "GET" or path.endswith("/transcriptions"):
        return web.json_response({"object": "list", "data": []})
    fields = asked.json
    text = "A forbidden answer." if "naughty" in str(fields) else "Forty-two."
    if path.endswith("/chat/completions"):
        if fields.get("stream"):
            return await Upstream(text).stream(request, asked)
        return web.json_response(completion(text))
    if path.endswith("/responses"):
        said = {"type": "output_text", "text": text, "annotations": []}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
        response = {
            "id": "resp_up",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "status": "completed",
        }
        usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        return web.json_response(response | {"output": [message | {"content": [said]}], "usage": usage})
    if path.endswith("/messages"):
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        said = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
        return web.json_response(message | said | {"usage": {"input_tokens": 7, "output_tokens": 3}})
    if path.endswith("/completions"):
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}
        head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
        return web.json_response(head | {"choices": [choice], "usage": completion(text)["usage"]})
    return web.json_response({"object": "list", "data": []})


ASKING = (
    ("/chat/completions", lambda text: {"messages": [{"role": "user", "content": text}]}),
    ("/responses", lambda text: {"input": text}),
    ("/messages", lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": 9}),
    ("/completions", lambda text: {"prompt": text}),
)
"""Each API that has a codec, and how it is asked."""


@asynccontextmanager
async def guarded(tmp_path: Path | None, **more: Any) -> AsyncIterator[tuple[Line, Upstream, Guard]]:
    guard = Guard()
    async with upstream() as behind, aiohttp_server(guard.handle) as origin:
        behind.script = answered
        config: dict[str, Any] = {
            "upstream": {
                "base_url": behind.url,
                "prices": {"m": {"input_usd_per_mtok": 1000, "output_usd_per_mtok": 1000}},
            },
            "guardrails": {"words": {"url": f"{origin}/check", "api_key": "guards-own", **more}},
        }
        if tmp_path is not None:
            config["memory"] = {"data_dir": str(tmp_path), "examples": {"enabled": False}}
        async with line(config) as run:
            yield run, behind, guard
        if guard.hangs is not None:
            guard.hangs.set()


def rows(run: Line) -> list[Any]:
    """The log of requests, newest first."""
    assert run.gateway.memory is not None
    return list(run.gateway.memory.store.decisions.requests.recent(limit=50))


async def metrics(run: Line) -> str:
    async with run.session.get(run.url.removesuffix("/v1") + "/metrics") as answer:
        return await answer.text()


async def test_what_a_guardrail_blocks_reaches_nobody(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (run, behind, guard):
        assert (await run.chat("A fine question?")).status == 200
        assert (await run.chat("A fine question?")).hit and len(guard.asked) == 2, (
            "a repeat is asked about, too"
        )
        before = len(behind.asked)
        for path, body in (
            *((path, body("forbidden")) for path, body in ASKING),
            ("/embeddings", {"input": "forbidden"}),
        ):
            blocked = await run.post(path, {"model": "m", **body})
            error = blocked.json["error"]
            assert (blocked.status, error["code"]) == (400, "content_policy_violation"), path
            assert "'words' blocked this request: no suchwords" in error["message"]
            assert blocked.headers["x-understudy-guardrail"] == "words"
        assert (await run.post("/messages", {"model": "m", **ASKING[2][1]("forbidden")})).json[
            "type"
        ] == "error"
        assert len(behind.asked) == before
        kept = rows(run)
        assert [row.reason for row in kept[:6]] == ["guardrail:words"] * 6 and kept[0].cost_usd == 0
        assert guard.asked[0]["api"] == "chat" and guard.asked[0]["request"]["messages"]
        assert set(guard.credentials) == {"Bearer guards-own"}
        assert (
            'understudy_guardrail_total{guardrail="words",verdict="block",when="before"} 6.0'
            in await metrics(run)
        )
        assert 'understudy_stage_seconds_count{stage="guardrails"}' in await metrics(run)
        form = FormData({"model": "whisper"})
        form.add_field("file", b"sound", filename="a.wav")
        async with run.session.post(run.url + "/audio/transcriptions", data=form):
            assert behind.asked[-1].path.endswith("/audio/transcriptions")
        assert guard.asked[-1]["request"] is None, "a form is told of without its content"
        async with run.session.get(run.url + "/models") as answer:
            assert answer.status == 200
        assert guard.asked[-1]["path"].endswith("/transcriptions"), "what asks for nothing is not asked about"


async def test_what_a_guardrail_replaces_is_what_is_asked_and_remembered(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (run, behind, guard):
        said = {"chat": "messages", "responses": "input", "messages": "messages", "completions": "prompt"}
        for path, body in ASKING:
            clean = body("My number is [number].")
            api = path.strip("/").partition("/")[0]
            guard.says = replacing(**{said[api]: clean[said[api]]})
            first = await run.post(path, {"model": "m", **body("My number is 4711.")})
            assert first.status == 200 and first.headers["x-understudy-guardrail"] == "words", (
                path,
                first.body,
            )
            assert b"4711" not in behind.asked[-1].body and b"[number]" in behind.asked[-1].body
            count = len(behind.asked)
            again = await run.post(path, {"model": "m", **body("My number is 4712.")})
            assert again.hit and len(behind.asked) == count, "it is remembered as it was asked"
        assert not any(b"471" in asked.body for asked in behind.asked)
        guard.says = replacing(prompt="of another API")
        assert (await run.chat("What?")).status == 503, "what replaces nothing is no verdict"
        guard.says = replacing(messages=[{"no": "message"}])
        assert (await run.chat("What?")).status == 503, "nor is what is no request"


@pytest.mark.parametrize(
    "says",
    [
        web.Response(status=500),
        web.Response(status=302, headers={"Location": "/elsewhere"}),
        web.Response(body=b"yes"),
        web.Response(body=b'{"action": "maybe"}'),
        web.Response(body=b'{"reason": "' + b"x" * 100_000 + b'", "action": "allow"}'),
    ],
    ids=["500", "redirect", "no JSON", "no verdict", "too long"],
)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_without_a_verdict_nothing_passes(says: web.Response, when: str) -> None:
    async with guarded(None, when=when) as (run, behind, guard):
        guard.says = lambda asked: web.Response(
            status=says.status, body=says.body, headers={"Location": "/elsewhere"}
        )
        refused = await run.chat("A fine question?", model="m")
        assert (refused.status, refused.json["error"]["code"]) == (503, "guardrail_unavailable")
        assert refused.headers["Retry-After"] == "1"
        assert len(behind.asked) == (when == "after")
        assert len(guard.asked) == 1, "and no redirect is followed"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_one_that_hangs_lets_pass_where_the_operator_says_so(when: str) -> None:
    async with guarded(None, when=when, timeout_s=0.05, on_failure="allow") as (run, _, guard):
        guard.hangs = asyncio.Event()
        for _ in range(7):
            assert (await run.chat("A fine question?", model="m")).status == 200
        # Who waits no longer may have gone before the guardrail was reached: how often it was tried, the gateway says.
        assert 0 < len(guard.asked) <= 5, "one that keeps failing is left alone for a while"
        told = await metrics(run)
        assert f'understudy_guardrail_total{{guardrail="words",verdict="failed",when="{when}"}} 5.0' in told
        assert f'understudy_guardrail_total{{guardrail="words",verdict="skipped",when="{when}"}} 2.0' in told
        assert 'understudy_bypassed_total{stage="guardrails:words"} 7.0' in told


@pytest.mark.parametrize("when", ["before", "after"])
async def test_only_some_models_and_tenants_are_asked_about(when: str) -> None:
    async with guarded(None, when=when, models=["gpt-4*"]) as (run, _, guard):
        assert (await run.chat("naughty forbidden", model="m")).status == 200 and not guard.asked
        assert (await run.chat("naughty forbidden", model="gpt-4o")).status == 400 and len(guard.asked) == 1
    async with guarded(None, when=when, advanced={"tenants": ["acme"]}) as (run, _, guard):
        assert (await run.chat("naughty forbidden")).status == 200 and not guard.asked


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_blocked_answer_is_nobodys(tmp_path: Path, memory: bool, stream: bool) -> None:
    path = tmp_path if memory else None
    async with guarded(path, when="after") as (run, behind, guard):
        for path_, body in ASKING if not stream else ASKING[:1]:
            asked = {"model": "m", **body("naughty"), **({"stream": True} if stream else {})}
            for _ in range(2):
                blocked = await run.post(path_, asked)
                assert (blocked.status, blocked.json["error"]["code"]) == (400, "content_policy_violation")
                assert "blocked this answer" in blocked.json["error"]["message"]
                assert blocked.headers["x-understudy-guardrail"] == "words"
                assert b"forbidden answer" not in blocked.body
            question = guard.asked[-1]
            assert (
                question["content"].replace(" ", "") == "Aforbiddenanswer." and question["complete"] is True
            )
            assert question["request"]["model"] == "m"
            fine = await run.post(path_, asked | body("What is fine?"))
            assert (fine.status == 200 and b"Forty-two" in fine.body.replace(b'"}', b"")) or stream
        assert len(behind.asked) == len(guard.asked), "nothing blocked was remembered"
        if memory:
            withheld = [row for row in rows(run) if row.reason == "guardrail:words"]
            assert len(withheld) == 2 * (1 if stream else 4)
            assert all(row.status == 400 and row.cost_usd and row.cost_usd > 0 for row in withheld), (
                "what the upstream generated is paid for"
            )


async def test_a_remembered_answer_is_judged_again(tmp_path: Path) -> None:
    async with guarded(tmp_path, when="after") as (run, behind, guard):
        guard.says = lambda asked: web.json_response({"action": "allow"})
        assert (await run.chat("naughty")).status == 200
        assert (await run.chat("naughty")).hit
        guard.says = blocking
        assert (await run.chat("naughty")).status == 400
        assert (await run.chat("naughty", stream=True)).status == 400
        assert len(behind.asked) == 1


async def test_a_replaced_answer_is_sent_and_not_remembered(tmp_path: Path) -> None:
    async with guarded(tmp_path, when="after") as (run, behind, guard):
        guard.says = replacing(content="Something else.")
        for path, body in ASKING:
            for stream in (False, True) if path == "/chat/completions" else (False,):
                asked = {"model": "m", **body("naughty"), **({"stream": True} if stream else {})}
                count = len(behind.asked)
                for _ in range(2):
                    changed = await run.post(path, asked)
                    assert changed.status == 200 and changed.headers["x-understudy-guardrail"] == "words"
                    assert b"forbidden" not in changed.body and b"Something" in changed.body, path
                    assert (
                        len(json.loads(changed.body)) > 3 if not stream else changed.text == "Something else."
                    )
                assert len(behind.asked) == count + 2
                if path == "/responses":
                    assert changed.json["id"] != "resp_up", (
                        "by its old id the upstream gives out the old answer"
                    )
        guard.says = lambda asked: web.json_response({"action": "allow"})
        assert not (await run.chat("naughty", model="m")).hit


async def test_a_stream_that_breaks_off_was_never_begun(tmp_path: Path) -> None:
    async with guarded(tmp_path, when="after") as (run, behind, guard):

        async def breaks_off(request: web.Request, asked: Asked) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(events("Half of it.", usage=False)[1])
            return response

        behind.script = breaks_off
        broken = await run.chat("Well?", stream=True)
        assert broken.status == 502 and not guard.asked


async def test_an_answer_in_the_background_is_refused() -> None:
    async with guarded(None, when="after") as (run, behind, _):
        refused = await run.post("/responses", {"model": "m", "input": "Well?", "background": True})
        assert refused.json["error"]["code"] == "unsupported_with_guardrail" and not behind.asked


@asynccontextmanager
async def with_models(
    tmp_path: Path, model: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[tuple[Line, Upstream, Guard]]:
    """A gateway with a small and a large engine at the same server."""
    guard = Guard()
    async with upstream() as behind, aiohttp_server(guard.handle) as origin:
        behind.script = answered
        engine = {"base_url": behind.url, "price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}}
        config: dict[str, Any] = {
            "engines": {"small": engine | {"model": "s"}, "big": engine},
            "models": {"m": {"engines": ["small", "big"], **(model or {})}},
            "memory": {"data_dir": str(tmp_path), "exact": {"enabled": False}},
            "guardrails": {"words": {"url": f"{origin}/check", **more}},
        }
        async with line(config) as run:
            yield run, behind, guard


@pytest.mark.parametrize("when", ["before", "after"])
async def test_each_step_of_a_run_is_judged(tmp_path: Path, when: str) -> None:
    async with with_models(tmp_path, when=when) as (run, behind, guard):

        def step(text: str, name: str) -> dict[str, Any]:
            messages = [{"role": "user", "content": text}]
            return {"model": "m", "messages": messages, "understudy": {"output": {"name": name}}}

        steps = [step("naughty", "a"), step("Go on: {{a}}", "b"), step("Fine?", "c")]
        got = await run.post("/runs", {"steps": steps}, {"Authorization": "Bearer sk-ann"})
        variables = got.json["variables"]
        # Before: the second step's prompt holds what the first one said. After: that itself is blocked.
        blocked = variables["b" if when == "before" else "a"]
        assert blocked["error"]["code"] == "content_policy_violation" and blocked["value"] is None
        assert variables["c"]["value"].replace(" ", "") == "Forty-two."
        assert variables["b"]["value"] is None
        assert len(behind.asked) == 2
        prompts = [
            asked["request"]["messages"][-1]["content"]
            for asked in guard.asked
            if "steps" not in asked["request"]
        ]
        assert len(prompts) == (3 if when == "before" else 2)


async def test_no_example_is_made_of_a_blocked_or_replaced_answer(tmp_path: Path) -> None:
    few_shot = {"policy": "few_shot", "few_shot": {"theta": 0.5, "m": 1}}
    question = "How do I list all naughty files in a directory on Linux?"
    async with with_models(tmp_path, few_shot, when="after") as (run, behind, guard):
        assert (await run.chat(question, model="m")).status == 400
        guard.says = replacing(content="Something else.")
        assert (await run.chat(question, model="m")).headers["x-understudy-engine"] == "big"
        guard.says = lambda asked: web.json_response({"action": "allow"})
        third = await run.chat(question, model="m")
        assert third.headers["x-understudy-examples"] == "0" and third.headers["x-understudy-engine"] == "big"
        fourth = await run.chat(question, model="m")
        assert fourth.headers["x-understudy-examples"] == "1", "what was let pass is an example"
        judged = [row for row in rows(run) if row.reason == "guardrail:words"]
        assert len(judged) == 1 and len(behind.asked) == 4
