"""Runs on two workers: any of them answers, and when one is killed another carries its runs on."""

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
from tests.flow.test_line_runs import KEY, body, event, run_of
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

CONFIG = """
listen: {{port: 0, workers: {workers}, grace_s: 2}}
log: {{requests: {log}}}
engines:
  big: {{kind: openai, base_url: "{url}", api_key: sk-up}}
models: {{m: {{engines: [big]}}}}
memory: {{data_dir: {data}, examples: {{enabled: false}}, exact: {{enabled: false}}}}
workflows: {{advanced: {{lease_s: 1.5, poll_s: 0.02}}}}
"""


@dataclass
class Counting:
    """An upstream that answers a prompt with it in angle brackets, after a while, and counts how often each was asked.

    The answer to `slow` does not come to its end.
    """

    pause_s: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = await request.json() if isinstance(request, web.Request) else {}
        prompt = asked["messages"][-1]["content"]
        self.asked[prompt] += 1
        if not asked.get("stream"):
            return web.json_response(completion(f"<{prompt}>"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with suppress(ConnectionError):
            for piece in ("<", prompt, ">", None):
                await asyncio.sleep(30 if prompt == "slow" and piece != "<" else self.pause_s / 4)
                await response.write(event(piece))
            await response.write(b"data: [DONE]\n\n")
        return response


@dataclass
class Site:
    """A gateway of several workers, and what stands behind it."""

    run: Gateway
    data: Path
    upstream: Counting

    async def ask(
        self, method: str, path: str, content: Any = None, headers: dict[str, str] = KEY
    ) -> tuple[int, dict[str, Any]]:
        """Over a connection of its own, so that any worker may take it."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            async with session.request(
                method, self.run.url + path, json=content, headers=headers
            ) as response:
                return response.status, await response.json()

    async def until(self, path: str) -> dict[str, Any]:
        """A run once it has ended. A worker that is killed may have the connection: asked again."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    status, content = await self.ask("GET", path)
                    assert status == 200, content
                    if content["status"] != "running":
                        return content
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.05)

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Of the database."""
        with sqlite3.connect(self.data / "understudy.db", timeout=30) as db:
            found = db.execute(query, values).fetchall()
        db.close()
        return found


@asynccontextmanager
async def site(
    tmp_path: Path, *, workers: int = 2, pause_s: float = 0.0, log: bool = False
) -> AsyncIterator[Site]:
    upstream = Counting(pause_s)
    async with aiohttp_server(upstream.handle) as origin:
        config = CONFIG.format(
            url=f"{origin}/v1", data=tmp_path / "data", workers=workers, log=str(log).lower()
        )
        tmp_path.mkdir(exist_ok=True)
        (tmp_path / "config.yaml").write_text(config)
        starting = running("--config", str(tmp_path / "config.yaml"), workers=workers)
        run = await asyncio.to_thread(starting.__enter__)
        try:
            yield Site(run, tmp_path / "data", upstream)
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)


async def test_any_worker_answers_and_values_cross_workers(tmp_path: Path) -> None:
    async with site(tmp_path, pause_s=0.02) as behind:
        for i in range(12):
            text = f"{i} {{{{v{i - 1}}}}}" if i else "0"
            asked = body(text, app="x", submit=True, output={"name": f"v{i}"})
            status, content = await behind.ask("POST", "/chat/completions", asked)
            assert status == 202, content
        expected = "<0>"
        for i in range(1, 12):
            expected = f"<{i} {expected}>"
        gets = (behind.ask("GET", "/apps/x/variables/v11?wait_s=60") for _ in range(8))
        assert {(status, got["value"]) for status, got in await asyncio.gather(*gets)} == {(200, expected)}
        assert set(behind.upstream.asked.values()) == {1}
        owners = {owner for (owner,) in behind.rows("SELECT claimed_by FROM workflow_steps")}
        assert len(owners) == 2, "both workers took calls of the app"


async def test_a_stream_is_read_from_whichever_worker(tmp_path: Path) -> None:
    async with site(tmp_path, pause_s=2.0) as behind:
        for _ in range(4):
            asked = body("Count", submit=True, output={"name": "n"})
            _, content = await behind.ask("POST", "/chat/completions", asked)
            id = content["understudy"]["outputs"]["n"]
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
                streams = await asyncio.gather(*(streamed(session, behind, id) for _ in range(4)))
            assert all("".join(deltas) == "<Count>" for deltas in streams)
            assert all(len(deltas) > 1 for deltas in streams), "it came piece by piece"
        assert behind.upstream.asked == {"Count": 4}


async def streamed(session: aiohttp.ClientSession, behind: Site, id: str) -> list[str]:
    deltas = []
    async with session.get(f"{behind.run.url}/variables/{id}?stream=true", headers=KEY) as response:
        async for line in response.content:
            if line.startswith(b"data: {"):
                told = json.loads(line[6:])
                if told["type"] == "variable.delta":
                    deltas.append(told["delta"])
    return deltas


async def test_a_secret_in_a_value_is_in_no_log_metric_or_other_tenants_row(tmp_path: Path) -> None:
    secret, bob = "canary-8086-secret", {"Authorization": "Bearer sk-bob"}
    async with site(tmp_path, log=True) as behind:
        calls = [
            body(f"A {secret}", app="s", submit=True, output={"name": "a"}),
            body("B {{a}}", app="s", submit=True, output={"name": "b", "transform": [{"json": "/none"}]}),
        ]
        for call in calls:
            assert (await behind.ask("POST", "/chat/completions", call))[0] == 202
        assert (await behind.ask("GET", "/apps/s/variables/b?wait_s=60"))[0] == 424
        status, refused = await behind.ask("POST", "/chat/completions", calls[0])
        assert status == 409 and secret not in str(refused)
        for _ in range(4):
            for path in ("/apps/s/variables/a", "/apps/s/variables/b"):
                status, theirs = await behind.ask("GET", path, headers=bob)
                assert status == 404 and secret not in str(theirs)
        await behind.ask("POST", "/runs", run_of(("theirs", "a")), headers=bob)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{behind.run.origin}/metrics") as response,
        ):
            metrics = await response.text()
        assert "understudy_run_steps_total" in metrics and secret not in metrics
        await asyncio.to_thread(behind.run.wait_for_event, "request", 10)
        assert secret not in behind.run.log()
        (tenant,) = {row[0] for row in behind.rows("SELECT tenant FROM variables WHERE app = 's'")}
        tables = [
            row[0]
            for row in behind.rows(
                "SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c"
                " WHERE m.type = 'table' AND c.name = 'tenant'"
            )
        ]
        for table in tables:
            rows = behind.rows(f"SELECT * FROM {table} WHERE tenant != ?", tenant)
            assert secret not in str(rows), table


async def test_a_run_is_cancelled_and_shown_by_whichever_worker(tmp_path: Path) -> None:
    async with site(tmp_path, pause_s=30) as behind:
        for _ in range(4):
            _, run = await behind.ask("POST", "/runs", run_of(("A", "a"), background=True))
            _, content = await behind.ask("POST", f"/runs/{run['id']}/cancel")
            assert content["id"] == run["id"]
            assert (await behind.until(f"/runs/{run['id']}"))["status"] == "cancelled"
        for _ in range(4):
            _, run = await behind.ask("POST", "/runs", run_of(("A", "a"), background=True))
            assert (await behind.ask("DELETE", f"/runs/{run['id']}"))[0] == 200
            for path in (f"/runs/{run['id']}", f"/variables/{run['variables']['a']['id']}"):
                # The worker that carries it out hears of it within `poll_s`.
                async with asyncio.timeout(PATIENCE_S):
                    while {(await behind.ask("GET", path))[0] for _ in range(4)} != {404}:
                        await asyncio.sleep(0.02)


async def test_a_client_that_waits_is_answered_when_another_worker_takes_its_run_over(tmp_path: Path) -> None:
    """A worker that stands still for longer than its lease lasts loses its runs, and not its clients."""
    run = run_of(("A", "a"), ("B {{a}}", "b"))
    async with site(tmp_path, pause_s=1.5) as behind:
        whole = asyncio.create_task(behind.ask("POST", "/runs", run))
        events = asyncio.create_task(told(behind, run | {"stream": True}))
        async with asyncio.timeout(PATIENCE_S):
            while len(started := behind.rows("SELECT DISTINCT claimed_by FROM workflow_steps")) < 1 or (
                behind.upstream.asked["A"] < 2
            ):
                await asyncio.sleep(0.02)
            pid = int(started[0][0].partition("-")[0])
            os.kill(pid, signal.SIGSTOP)
            try:
                while behind.rows(
                    "SELECT 1 FROM workflow_steps WHERE claimed_until_s IS NOT NULL AND claimed_by LIKE ?",
                    f"{pid}-%",
                ):
                    await asyncio.sleep(0.02)
            finally:
                os.kill(pid, signal.SIGCONT)
        status, content = await whole
        assert (status, content["status"]) == (200, "done")
        assert {name: one["value"] for name, one in content["variables"].items()} == {
            "a": "<A>",
            "b": "<B <A>>",
        }
        assert content["adoptions"] or (await events)[-1]["run"]["adoptions"]
        last = (await events)[-1]
        assert last["type"] == "run.completed" and last["run"]["variables"]["b"]["value"] == "<B <A>>"


async def test_a_workflows_client_is_answered_when_another_worker_takes_its_run_over(tmp_path: Path) -> None:
    async with site(tmp_path, pause_s=1.5) as behind:
        name = "in-two"
        chats = {"first": {"chat": "A {{q}}"}, "last": {"chat": "B {{first}}"}}
        declared = {
            "name": name,
            "inputs": {"q": "last_user"},
            "model": "m",
            "steps": chats,
            "output": "last",
        }
        assert (await behind.ask("POST", "/workflows", declared))[0] == 200
        called = {"model": f"wf/{name}", "messages": [{"role": "user", "content": "x"}]}
        whole = asyncio.create_task(behind.ask("POST", "/chat/completions", called))
        streamed = asyncio.create_task(told(behind, called | {"stream": True}, "/chat/completions"))
        async with asyncio.timeout(PATIENCE_S):
            while behind.upstream.asked["A x"] < 2:
                await asyncio.sleep(0.02)
            owners = {owner for (owner,) in behind.rows("SELECT claimed_by FROM workflow_steps")}
            for owner in owners:
                pid = int(owner.partition("-")[0])
                os.kill(pid, signal.SIGSTOP)
                try:
                    while behind.rows("SELECT 1 FROM workflow_steps WHERE claimed_by = ?", owner):
                        await asyncio.sleep(0.02)
                finally:
                    os.kill(pid, signal.SIGCONT)
                break
        status, content = await whole
        assert (status, content["choices"][0]["message"]["content"]) == (200, "<B <A x>>")
        assert content["usage"]["total_tokens"] > 0
        chunks = await streamed
        pieces = [choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]]
        assert "".join(pieces) == "<B <A x>>"


async def told(behind: Site, run: dict[str, Any], path: str = "/runs") -> list[dict[str, Any]]:
    """The events of a run."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(f"{behind.run.url}{path}", json=run, headers=KEY) as response,
    ):
        lines = (await response.text()).splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def forty(random_: random.Random, number: int) -> dict[str, Any]:
    """A run of 40 steps, each reading up to three before it."""
    steps = []
    for i in range(40):
        reads = random_.sample(range(i), min(i, random_.randint(0, 3)))
        text = f"{number}:{i} " + " ".join(f"{{{{v{r}}}}}" for r in reads)
        steps.append((text, f"v{i}"))
    random_.shuffle(steps)
    # Short values: a chain of forty that quote each other would grow without bounds.
    run = run_of(*steps, background=True)
    for step in run["steps"]:
        step["understudy"]["output"]["transform"] = [{"truncate": 12}]
    return run


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
async def test_a_killed_workers_runs_go_on_and_no_finished_step_is_asked_twice(
    kills: int, tmp_path: Path
) -> None:
    random_ = random.Random(24)
    for life in range(0, kills, 4):
        async with site(tmp_path / str(life), workers=3, pause_s=0.2) as behind:
            for number in range(life, min(kills, life + 4)):
                await one_kill(behind, random_, number)


async def one_kill(behind: Site, random_: random.Random, number: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                status, run = await behind.ask("POST", "/runs", forty(random_, number))
                break
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)
    assert status == 202, run
    await asyncio.sleep(random_.uniform(0.0, 2.5))
    ((owner,), *_) = behind.rows("SELECT DISTINCT claimed_by FROM workflow_steps WHERE run_id = ?", run["id"])
    os.kill(int(owner.partition("-")[0]), signal.SIGKILL)
    done = behind.rows("SELECT step FROM workflow_steps WHERE run_id = ? AND state = 'done'", run["id"])
    ended = await behind.until(f"/runs/{run['id']}")
    assert ended["status"] == "done", ended
    assert set(ended["variables"]) == {f"v{i}" for i in range(40)}
    assert all(each["value"] for each in ended["variables"].values())
    attempts = {step["id"]: step["attempts"] for step in ended["steps"]}
    assert all(attempts[id] == 1 for (id,) in done), "a finished step was asked again"
    mine = {p: n for p, n in behind.upstream.asked.items() if p.startswith(f"{number}:")}
    assert len(mine) == 40 and max(mine.values()) <= 2
    assert sum(mine.values()) <= sum(attempts.values())
