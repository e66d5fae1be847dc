"""The order of those that wait, over sockets: by what runs are asked for, within tokens in flight, and shown in metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.flow.line import Asked, Line, Upstream, line
from tests.flow.line import upstream as scripted
from tests.flow.test_line_runs import EXACT_ONLY, KEY, get, prompt, say, submit


class Desk:
    """An upstream that answers when it is told to."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.under_way = self.most = 0
        self.open = asyncio.Event()

    async def __call__(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        self.prompts.append(prompt(asked))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.open.wait()
            await asyncio.sleep(0.01)
            return await say(request, asked, "Done.")
        finally:
            self.under_way -= 1


def config(behind: Upstream, tmp_path: Path, **engine: Any) -> dict[str, Any]:
    big = {"kind": "openai", "base_url": behind.url, "api_key": "sk-up", **engine}
    return {
        "engines": {"big": big},
        "models": {"m": {"engines": ["big"]}},
        "memory": {"data_dir": str(tmp_path / "data"), **EXACT_ONLY},
    }


async def until_queued(gate: Line, **classes: int) -> None:
    """Until so many wait, as the metrics tell."""
    wanted = {
        f'understudy_queued{{class="{name}",engine="big"}} {count}.0' for name, count in classes.items()
    }
    async with asyncio.timeout(30):
        while not wanted <= set(gate.gateway.metrics.exposition().decode().splitlines()):
            await asyncio.sleep(0.01)


async def test_a_step_that_waits_moves_up_when_it_is_asked_for(tmp_path: Path) -> None:
    async with scripted() as behind:
        behind.script = desk = Desk()
        async with line(config(behind, tmp_path, max_in_flight=1)) as gate:
            await submit(gate, "first", "v", "a")
            await submit(gate, "early", "v", "b")
            late = await submit(gate, "late", "v", "c")
            await until_queued(gate, throughput=2)
            variable = late["understudy"]["outputs"]["v"]
            asking = asyncio.create_task(get(gate, f"/variables/{variable}?criteria=latency&wait_s=60"))
            await until_queued(gate, throughput=1, latency=1)
            desk.open.set()
            assert (await asking).status == 200
            await until_queued(gate, throughput=0, latency=0)
    assert desk.prompts == ["first", "late", "early"]


async def test_a_group_that_does_not_fit_goes_in_parts_and_none_of_it_is_refused(tmp_path: Path) -> None:
    async with scripted() as behind:
        behind.script = desk = Desk()
        desk.open.set()
        caps = {"advanced": {"tokens_in_flight": 2_000, "max_queued": 4}}
        async with line(config(behind, tmp_path, **caps)) as gate:
            steps = [step(f"part {number}", f"v{number}") for number in range(30)]
            reduce = step(" ".join(f"{{{{v{number}}}}}" for number in range(30)), "all")
            got = await gate.post("/runs", {"steps": [*steps, reduce], "get": {"all": "latency"}}, KEY)
            assert got.status == 200, got.body
    assert len(desk.prompts) == 31
    assert 1 < desk.most <= 4


def step(text: str, name: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {
        "model": "m",
        "messages": messages,
        "max_tokens": 500,
        "understudy": {"output": {"name": name}},
    }
