"""Guardrails over real sockets: what one blocks reaches no engine and no memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import FormData, web

from tests.aiohttp_server import aiohttp_server
from tests.flow.line import Line, Upstream, line, upstream


@dataclass
class Guard:
    """A guardrail's server: blocks what holds `forbidden`."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    says: web.Response | None = None
    hangs: asyncio.Event | None = None

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        self.keys.append(request.headers.get("x-guard-key"))
        if self.hangs is not None:
            await self.hangs.wait()
        if self.says is not None:
            return web.Response(
                status=self.says.status, body=self.says.body, headers={"Location": "/elsewhere"}
            )
        blocked = "forbidden" in str(self.asked[-1]["request"])
        return web.json_response(
            {"action": "block", "reason": "no such\nwords"} if blocked else {"action": "allow"}
        )


@asynccontextmanager
async def guarded(tmp_path: Path, **more: Any) -> AsyncIterator[tuple[Line, Upstream, Guard]]:
    guard = Guard()
    async with upstream() as behind, aiohttp_server(guard.handle) as origin:
        config = {
            "upstream": {"base_url": behind.url},
            "memory": {"data_dir": str(tmp_path), "examples": {"enabled": False}},
            "guardrails": {
                "words": {"url": f"{origin}/check", "headers": {"x-guard-key": "guards-own"}, **more}
            },
        }
        async with line(config) as run:
            yield run, behind, guard
        if guard.hangs is not None:
            guard.hangs.set()


async def test_what_a_guardrail_blocks_reaches_nobody(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (run, behind, guard):
        assert (await run.chat("A fine question?")).status == 200
        assert (await run.chat("A fine question?")).hit and len(guard.asked) == 2, (
            "a repeat is asked about, too"
        )
        before = len(behind.asked)
        for path, body in (
            ("/chat/completions", {"messages": [{"role": "user", "content": "forbidden"}]}),
            ("/embeddings", {"input": "forbidden"}),
            ("/responses", {"input": "forbidden"}),
            ("/moderations", {"input": "forbidden"}),
        ):
            blocked = await run.post(path, {"model": "m", **body})
            assert (blocked.status, blocked.json["error"]["code"]) == (400, "content_blocked"), path
            assert "'words' blocked this request: no suchwords" in blocked.json["error"]["message"]
        assert len(behind.asked) == before
        assert guard.asked[0]["api"] == "chat" and guard.asked[0]["request"]["messages"]
        assert set(guard.keys) == {"guards-own"}
        form = FormData({"model": "whisper"})
        form.add_field("file", b"sound", filename="a.wav")
        async with run.session.post(run.url + "/audio/transcriptions", data=form):
            assert behind.asked[-1].path.endswith("/audio/transcriptions")
        assert guard.asked[-1]["request"] is None, "a form is told of without its content"
        async with run.session.get(run.url + "/models") as answer:
            assert answer.status == 200
        assert guard.asked[-1]["path"].endswith("/transcriptions"), "what asks for nothing is not asked about"


@pytest.mark.parametrize(
    "says",
    [
        web.Response(status=500),
        web.Response(status=302),
        web.Response(body=b"yes"),
        web.Response(body=b'{"action": "maybe"}'),
        web.Response(body=b'{"reason": "' + b"x" * 100_000 + b'", "action": "allow"}'),
    ],
    ids=["500", "redirect", "no JSON", "no verdict", "too long"],
)
async def test_without_a_verdict_nothing_passes(tmp_path: Path, says: web.Response) -> None:
    async with guarded(tmp_path) as (run, behind, guard):
        guard.says = says
        refused = await run.chat("A fine question?")
        assert (refused.status, refused.json["error"]["code"]) == (503, "guardrail_unavailable")
        assert not behind.asked and len(guard.asked) == 1, "and no redirect is followed"


async def test_one_that_hangs_lets_pass_where_the_operator_says_so(tmp_path: Path) -> None:
    async with guarded(tmp_path, timeout_s=0.2, without_verdict="pass") as (run, _, guard):
        guard.hangs = asyncio.Event()
        assert (await run.chat("A fine question?")).status == 200
        async with run.session.get(run.url.removesuffix("/v1") + "/metrics") as answer:
            assert (
                b'understudy_guardrail_total{guardrail="words",verdict="failed"} 1.0' in await answer.read()
            )


async def test_others_than_its_tenants_are_not_asked_about(tmp_path: Path) -> None:
    async with guarded(tmp_path, tenants=["acme"]) as (run, _, guard):
        assert (await run.chat("forbidden")).status == 200 and not guard.asked
