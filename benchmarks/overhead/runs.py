"""What a step of a run costs beside a plain call, and what many waiting gets cost."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.overhead.questions import Questions
from benchmarks.overhead.rounds import Subject, in_rounds, measured, settle
from benchmarks.overhead.servers import Server, gateway

STEPS = 20
RUNS_AT_ONCE = 2
"""Of ten chains of two steps each, so about as many requests are under way as of plain calls."""
GETS, GETS_S = 1000, 5.0
_CREDENTIAL = {"Authorization": "Bearer sk-bench"}


def run_body(questions: Questions) -> dict[str, Any]:
    """Ten chains of two steps, none asked before."""
    steps = []
    for n in range(STEPS):
        fields = json.loads(questions.body(questions.text(n), unlike_any=True))
        if n % 2:
            fields["messages"][-1]["content"] += f" Mind: {{{{v{n - 1}}}}}"
        steps.append({**fields, "understudy": {"output": {"name": f"v{n}", "transform": [{"truncate": 60}]}}})
    return {"steps": steps}


async def measured_side_by_side(mock: Server, folder: Path, *, rounds: int, requests: int) -> dict[str, Any]:
    """CPU per plain call and per step in alternation, then the CPU of waiting gets. Raises SystemExit on a wrong answer."""
    questions = Questions()
    base = f"http://127.0.0.1:{mock.port}/v1"
    arguments = ["--upstream", base, "--exact", "on", "--data", str(folder / "runs")]
    with gateway("runs", arguments, folder) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        plain = Subject("plain", server, questions.new_with_known_words, remembers=True)
        steps = Subject("steps", server, lambda: iter(()))
        async with aiohttp.ClientSession(
            headers=_CREDENTIAL, connector=aiohttp.TCPConnector(limit=0)
        ) as client:

            async def once(subject: Subject) -> dict[str, float]:
                if subject is plain:
                    return await measured(plain, mock, requests)
                return await _steps(client, url, server, questions, max(1, requests // STEPS))

            for subject in (plain, steps):
                await once(subject)
            found: dict[str, Any] = await in_rounds([plain, steps], rounds, once)
            found["gets"] = [await _gets(client, url, server)]
    return found


async def _steps(
    client: aiohttp.ClientSession, url: str, server: Server, questions: Questions, runs: int
) -> dict[str, float]:
    before_s = server.cpu_s()
    left = itertools.repeat(None, runs)

    async def ask() -> None:
        for _ in left:
            async with client.post(f"{url}/runs", json=run_body(questions)) as response:
                content = await response.json()
            if response.status != 200 or content["status"] != "done":
                raise SystemExit(f"steps: {response.status} {str(content)[:300]}")

    await asyncio.gather(*(ask() for _ in range(RUNS_AT_ONCE)))
    await settle(server)
    return {"cpu_ms": (server.cpu_s() - before_s) / (runs * STEPS) * 1000}


async def _gets(client: aiohttp.ClientSession, url: str, server: Server) -> dict[str, float]:
    """The share of a core that goes to gets of a variable that nobody writes."""
    async with client.put(f"{url}/apps/bench/variables/never", json={}) as response:
        id = (await response.json())["id"]
    waiting = [
        asyncio.create_task(_wait(client, f"{url}/variables/{id}?wait_s=600&criteria=latency"))
        for _ in range(GETS)
    ]
    await asyncio.sleep(3.0)
    before_s = server.cpu_s()
    await asyncio.sleep(GETS_S)
    share = (server.cpu_s() - before_s) / GETS_S
    if any(task.done() for task in waiting):
        raise SystemExit("a get of a variable that nobody writes was answered")
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    return {"core_share": share, "gets": float(GETS)}


async def _wait(client: aiohttp.ClientSession, url: str) -> None:
    async with client.get(url, timeout=aiohttp.ClientTimeout(700)):
        pass
