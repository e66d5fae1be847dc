"""Applications over real sockets: a gateway, its engines, and this process as the client.

The client's own orchestration asks every call as soon as its inputs are there (asyncio.gather), straight at an engine that
batches and caches by itself, and by calls through the gateway. A run hands the whole application over. What nothing else
can be compared with, CPU, is the gateway's process time; ratios are formed inside a round, and the median is shown.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import aiohttp

from benchmarks.applications.row import Row
from benchmarks.overhead.rounds import settle
from benchmarks.overhead.servers import LOAD_CORE, Server, gateway, started
from benchmarks.processes import free_port
from loadtest.applications.playing import Player
from loadtest.applications.shapes import Application, Call, chain, words
from loadtest.plan import Target

STEPS = 20
CHUNK_TOKENS, ANSWER_TOKENS = 256, 64
"""Of each step: a page to read, and a paragraph to write."""
MODEL = "bench"
_CREDENTIAL = {"Authorization": "Bearer sk-bench"}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one batch took, per call of a model."""

    wall_ms: float
    gateway_ms: float
    """CPU."""
    all_ms: float
    """CPU of the gateway and the client."""


@contextmanager
def engine(folder: Path, *arguments: str) -> Iterator[Server]:
    """An engine in a process of its own."""
    port = free_port()
    log = folder / f"engine-{port}.log"
    command = [sys.executable, *arguments, str(port)]
    with started("engine", command, port, log, ready_path="/v1/models", core=LOAD_CORE) as server:
        yield server


def of_steps(rounds: int = 8, runs: int = 8) -> Iterator[Row]:
    """A step beside a plain call of the same size, and 20 of them beside their client's own, at an engine without delay."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        mock = ("-m", "understudy", "load", "serve-mock", "--tokens", str(ANSWER_TOKENS), "--model", MODEL)
        behind = stack.enter_context(engine(folder, *mock, "--port"))
        base = f"http://127.0.0.1:{behind.port}/v1"
        arguments = ["--upstream", base, "--exact", "on", "--data", str(folder / "data")]
        server = stack.enter_context(gateway("gateway", arguments, folder))
        found = asyncio.run(_costs(behind, server, rounds, runs))

    def over(shape: str, before: str, figure: Callable[[Cost], float]) -> float:
        pairs = zip(found[shape, "run"], found[shape, before], strict=True)
        return median(figure(ours) / figure(theirs) for ours, theirs in pairs)

    for shape in ("chained", "side by side"):
        what = f"{STEPS} steps {shape}"
        yield Row(f"{what}: time over the client's own straight at the engine", over(shape, "engine", _wall))
        yield Row(f"{what}: time over the client's own by plain calls", over(shape, "calls", _wall), 1.1)
        yield Row(f"{what}: all CPU over the client's own by plain calls", over(shape, "calls", _all), 1.1)
        yield Row(f"{what}: the gateway's CPU per step over a plain call", over(shape, "calls", _own), 1.3)
        for way in ("calls", "run"):
            cost = median(map(_own, found[shape, way]))
            yield Row(f"... CPU of one {'plain call' if way == 'calls' else 'step'}", cost, unit="ms")


def _wall(cost: Cost) -> float:
    return cost.wall_ms


def _all(cost: Cost) -> float:
    return cost.all_ms


def _own(cost: Cost) -> float:
    return cost.gateway_ms


async def _costs(behind: Server, server: Server, rounds: int, runs: int) -> dict[tuple[str, str], list[Cost]]:
    names = map(str, itertools.count())
    shapes: dict[str, Callable[[str], Application]] = {
        "chained": lambda key: chain(key, STEPS, CHUNK_TOKENS, ANSWER_TOKENS),
        "side by side": _side_by_side,
    }
    found: dict[tuple[str, str], list[Cost]] = {
        key: [] for key in itertools.product(shapes, ("engine", "calls", "run"))
    }
    async with client() as session:
        for turn in range(rounds + 1):
            for (shape, way), costs in list(found.items())[:: 1 if turn % 2 else -1]:
                made = [shapes[shape](next(names)) for _ in range(runs)]
                asked = behind if way == "engine" else server
                cost = await _played(player(session, asked), made, server, by_server=way == "run")
                if turn:
                    # The first warms up.
                    costs.append(cost)
    return found


@asynccontextmanager
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """With as many connections as calls are under way."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=_CREDENTIAL, connector=connector) as session:
        yield session


def player(session: aiohttp.ClientSession, server: Server, rtt_s: float = 0.0) -> Player:
    """One that plays applications there."""
    return Player(session, Target(f"http://127.0.0.1:{server.port}", headers=()), MODEL, rtt_s)


def _side_by_side(key: str) -> Application:
    texts = [words(f"{key}/{n}", CHUNK_TOKENS) for n in range(STEPS)]
    calls = tuple(Call(f"s{n}", text, ANSWER_TOKENS) for n, text in enumerate(texts))
    return Application("side by side", calls, tuple(call.name for call in calls))


async def _played(player: Player, made: Sequence[Application], server: Server, *, by_server: bool) -> Cost:
    cpu_s, own_s, began_s = server.cpu_s(), time.process_time(), time.perf_counter()
    for one in made:
        played = await (player.by_server(one) if by_server else player.by_client(one))
        if played.error:
            raise SystemExit(f"{one.kind}: {played.error}")
    wall_s, own_s = time.perf_counter() - began_s, time.process_time() - own_s
    await settle(server)
    cpu_s, calls = server.cpu_s() - cpu_s, sum(len(one.calls) for one in made)
    return Cost(wall_s / calls * 1e3, cpu_s / calls * 1e3, (cpu_s + own_s) / calls * 1e3)
