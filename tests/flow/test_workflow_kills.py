"""Runs of a workflow with tools whose worker is killed: no effect happens twice, and no finished step repeats."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.aiohttp_server import aiohttp_server
from tests.flow.line import completion
from tests.flow.process import Gateway, running
from tests.flow.test_line_runs import KEY, event
from tests.patience import PATIENCE_S

CONFIG = """
listen: {{port: 0, workers: 3, grace_s: 2}}
engines:
  big: {{kind: openai, base_url: "{url}/v1", api_key: sk-up}}
models: {{m: {{engines: [big]}}}}
memory: {{data_dir: {data}, examples: {{enabled: false}}, exact: {{enabled: false}}}}
components:
  embedder: {{kind: simulated, fixed_ms: 20, item_ms: 5, batch: 2}}
  notify:
    kind: tool
    url: "{url}/notify"
    args: {{type: object, properties: {{text: {{type: string}}}}, required: [text]}}
  look_up:
    kind: tool
    url: "{url}/look_up"
    args: {{type: object, properties: {{text: {{type: string}}}}, required: [text]}}
workflows:
  advanced: {{lease_s: 1.5, poll_s: 0.02}}
  errands:
    model: m
    inputs: {{number: text, documents: texts}}
    steps:
      plan: {{chat: "plan {{{{number}}}}", splits: json}}
      each: {{map: "{{{{plan}}}}", chat: "each {{{{item}}}}"}}
      told: {{map: "{{{{each}}}}", tool: notify, args: {{text: "told {{{{item}}}}"}}, effects: true}}
      chunks: {{split: "{{{{documents}}}}", tokens: 8, component: embedder}}
      index: {{ingest: "{{{{chunks}}}}", component: embedder}}
      found: {{search: "{{{{each}}}}", in: "{{{{index}}}}", k: 2}}
      looked: {{map: "{{{{found}}}}", tool: look_up, args: {{text: "{{{{item}}}}"}}}}
      sum: {{fold: "{{{{looked}}}}", chat: "sum {{{{number}}}} {{{{item}}}} {{{{so_far}}}}"}}
      last: {{tool: notify, args: {{text: "last {{{{sum}}}}"}}, effects: true, after: [told]}}
    output: last
"""
_STEPS = 30
"""The run has some more."""
DOCUMENTS = ["The cat sat on the mat and looked at the moon.", "A dog ran through the yard all day long."]


@dataclass
class Outside:
    """A model and two tools, which count what they are asked."""

    pause_s: float
    asked: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    """By idempotency key."""
    telling: int = 0
    """Effects under way."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.Request)
        if request.method == "GET":
            return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})
        asked = await request.json()
        if request.path == "/notify":
            self.effects[request.headers["Idempotency-Key"]] += 1
            self.telling += 1
            try:
                await asyncio.sleep(3 * self.pause_s)
            finally:
                self.telling -= 1
            return web.json_response(f"noted {asked['text'][:20]}")
        if request.path == "/look_up":
            self.asked[f"look_up {asked['text']}"] += 1
            await asyncio.sleep(self.pause_s)
            return web.json_response(asked["text"][:8])
        return await self._chat(request, asked)

    async def _chat(self, request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        prompt = asked["messages"][-1]["content"]
        self.asked[prompt] += 1
        text = self._says(prompt)
        if not asked.get("stream"):
            return web.json_response(completion(text))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with suppress(ConnectionError):
            for place in range(0, len(text), 8):
                await asyncio.sleep(self.pause_s / 4)
                await response.write(event(text[place : place + 8]))
            await response.write(event(None))
            await response.write(b"data: [DONE]\n\n")
        return response

    def _says(self, prompt: str) -> str:
        if prompt.startswith("plan "):
            return json.dumps([f"{prompt[5:]}-{name}" for name in "abcd"])
        return f"<{prompt[:24]}>"


@dataclass
class Site:
    """A gateway of three workers, and what stands behind it."""

    run: Gateway
    data: Path
    outside: Outside
    waited: int = 0
    """Steps of which a run waited to be told what became of them."""

    async def ask(self, method: str, path: str, content: Any = None) -> tuple[int, dict[str, Any]]:
        """Over a connection of its own, so that any worker may take it; again where that one is killed."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    async with (
                        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
                        session.request(method, self.run.url + path, json=content, headers=KEY) as response,
                    ):
                        return response.status, await response.json()
                except aiohttp.ClientError:
                    await asyncio.sleep(0.1)

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Of the database."""
        with sqlite3.connect(self.data / "understudy.db", timeout=30) as db:
            found = db.execute(query, values).fetchall()
        db.close()
        return found


@asynccontextmanager
async def site(tmp_path: Path, pause_s: float) -> AsyncIterator[Site]:
    outside = Outside(pause_s)
    async with aiohttp_server(outside.handle) as origin:
        tmp_path.mkdir(exist_ok=True)
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(url=origin, data=tmp_path / "data"))
        starting = running("--config", str(config), workers=3)
        run = await asyncio.to_thread(starting.__enter__)
        try:
            yield Site(run, tmp_path / "data", outside)
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.slow
async def test_no_effect_happens_twice_and_no_finished_step_repeats(kills: int, tmp_path: Path) -> None:
    random_ = random.Random(25)
    for life in range(0, kills, 4):
        async with site(tmp_path / str(life), pause_s=0.15) as behind:
            for number in range(life, min(kills, life + 4)):
                during = number % 3 == 0
                await one_kill(behind, random_, number, during_effect=during)
                assert behind.waited or not during, "what a killed worker was about to tell is not known"
                behind.waited = 0


async def one_kill(behind: Site, random_: random.Random, number: int, *, during_effect: bool) -> None:
    """`during_effect`: while a tool is asked; else after a random number of steps, and a moment."""
    body = {
        "workflow": "errands",
        "inputs": {"number": str(number), "documents": DOCUMENTS},
        "background": True,
    }
    status, run = await behind.ask("POST", "/runs", body)
    assert status == 202, run
    id = run["id"]
    ended_by_then = 0 if during_effect else random_.randint(0, _STEPS)
    counted = "SELECT count(*) FROM workflow_steps WHERE run_id = ? AND state = 'done'"
    async with asyncio.timeout(PATIENCE_S):
        while behind.rows(counted, id)[0][0] < ended_by_then or (
            during_effect and not behind.outside.telling
        ):
            await asyncio.sleep(0.005)
    if not during_effect:
        await asyncio.sleep(random_.uniform(0.0, 0.2))
    ((owner,), *_) = behind.rows("SELECT DISTINCT claimed_by FROM workflow_steps WHERE run_id = ?", id)
    os.kill(int(owner.partition("-")[0]), signal.SIGKILL)
    finished = "SELECT step, attempts FROM workflow_steps WHERE run_id = ? AND state = 'done'"
    derived = " AND primitive NOT IN ('embed', 'ingest', 'gather')"
    done = dict(behind.rows(finished + derived, id))
    asked_by_then = behind.outside.asked.copy()
    ended = await until_it_ends_or_waits(behind, id)
    assert ended["status"] == "done", [
        (s["id"], s["attempts"], s["error"]) for s in ended["steps"] if s["error"]
    ]
    for step in ended["steps"]:
        if step["id"] in done:
            assert step["attempts"] == done[step["id"]], f"{step['id']} had ended and was asked again"
    effects = {k: n for k, n in behind.outside.effects.items() if k.startswith(id)}
    assert set(effects) == {f"{id}:told[{place}]" for place in range(4)} | {f"{id}:last"}
    assert set(effects.values()) == {1}, effects
    mine = {p: n for p, n in behind.outside.asked.items() if f" {number}" in p}
    assert max(mine.values()) <= 2, mine
    assert all(asked_by_then[p] <= n for p, n in mine.items())


async def until_it_ends_or_waits(behind: Site, id: str) -> dict[str, Any]:
    """The run once it has ended. What it waits for it is told: the effects of that step have happened, or have not."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status, run = await behind.ask("GET", f"/runs/{id}")
            assert status == 200, run
            if run["status"] != "running":
                return run
            for step in run["steps"]:
                if step["status"] == "unknown":
                    happened = behind.outside.effects[f"{id}:{step['id']}"]
                    told = {"value": "noted"} if happened else {"action": "retry"}
                    behind.waited += 1
                    status, answer = await behind.ask("POST", f"/runs/{id}/steps/{step['id']}", told)
                    assert status in (200, 409), answer
            await asyncio.sleep(0.1)
