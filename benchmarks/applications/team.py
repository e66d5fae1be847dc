"""The multi-agent program of Parrot (section 8.4) over sockets: an architect, coders and reviewers, three rounds.

Its client carries it out straight at an engine that batches and caches by itself, or hands it over to a gateway before that
engine. The engine is simulated, in real time.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from benchmarks.applications.over_sockets import MODEL, client, engine, player
from benchmarks.applications.row import Row
from benchmarks.overhead.servers import Server, gateway
from loadtest.applications.shapes import roles

FILES, ROUNDS = (4, 6, 16), 3
FASTER = 2.5
"""The engine is so many times as fast as one of today, and the way to it so much shorter: then this takes two minutes, and
what the gateway costs counts so many times."""
CAPS = (None, 4_096)
"""Of tokens in flight beside a request whose client waits (`latency_tokens_in_flight`)."""
SETTINGS = {0.0: (None,), 0.25: CAPS}
"""By round trip in s, of an engine of today: the caps."""


def of_team() -> Iterator[Row]:
    """The client's time over the run's, by files, round trip and cap; and whether the groups are those of the paper."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        program = ("-m", "benchmarks.applications.engine_server", str(FASTER), "0")
        behind = stack.enter_context(engine(folder, *program))
        gates = {}
        for cap in CAPS:
            file = folder / f"{cap}.yaml"
            file.write_text(yaml.safe_dump(_configuration(behind, folder / f"data-{cap}", cap)))
            gates[cap] = stack.enter_context(gateway(f"cap-{cap}", ["--config", str(file)], folder))
        yield from asyncio.run(_rows(behind, gates))


def _configuration(behind: Server, data: Path, cap: int | None) -> dict[str, Any]:
    one: dict[str, Any] = {"base_url": f"http://127.0.0.1:{behind.port}/v1", "model": MODEL}
    if cap is not None:
        one["advanced"] = {"latency_tokens_in_flight": cap}
    return {
        "engines": {"one": one},
        "models": {MODEL: {"engines": ["one"]}},
        "memory": {"data_dir": str(data), "examples": {"enabled": False}},
    }


async def _rows(behind: Server, gates: Mapping[int | None, Server]) -> list[Row]:
    rows = []
    async with client() as session:
        for files in FILES:
            as_paper = True
            for rtt_s, caps in SETTINGS.items():
                theirs_s, _ = await _played(session, behind, files, rtt_s / FASTER, None)
                for cap in caps:
                    ours_s, run = await _played(session, gates[cap], files, rtt_s / FASTER, gates[cap])
                    as_paper = as_paper and groups_of(run) == groups_of_paper(files)
                    far = f"round trip {rtt_s * 1000:.0f} ms"
                    near = f"cap {cap:,}" if cap else "no cap"
                    what = f"{files} files, {far}, {near}: the client's time over the run's"
                    rows.append(Row(what, theirs_s / ours_s, 1.0, least=True))
            rows.append(Row(f"{files} files: groups as in the paper", float(as_paper), 1.0, least=True))
    return rows


async def _played(
    session: aiohttp.ClientSession, at: Server, files: int, rtt_s: float, gate: Server | None
) -> tuple[float, Mapping[str, Any]]:
    # Each has its own texts, as long as the others', so that none finds another's in the engine's cache.
    program = roles(f"{at.name}/{files}/{rtt_s}", files, ROUNDS, joined=False)
    one = player(session, at, rtt_s)
    played = await (one.by_client(program) if gate is None else one.by_server(program))
    if played.error:
        raise SystemExit(f"{files} files: {played.error}")
    if gate is None:
        return played.latency_s, {}
    async with session.get(f"http://127.0.0.1:{gate.port}/v1/runs/{played.run}") as response:
        return played.latency_s, await response.json()


def groups_of(run: Mapping[str, Any]) -> Counter[tuple[str, int]]:
    """By stage of the program (c0, r1, c1 and so on), how many of its steps stand in one group."""
    stages = Counter(
        (step["name"].partition("f")[0], step["group"]) for step in run["steps"] if step["class"] == "group"
    )
    return Counter((stage, count) for (stage, _), count in stages.items())


def groups_of_paper(files: int) -> Counter[tuple[str, int]]:
    """All requests of a stage are one group (section 5.2); the architect is asked alone."""
    stages = ["c0", *(f"{role}{turn}" for turn in range(1, ROUNDS + 1) for role in "rc")]
    return Counter((stage, files) for stage in stages)
