"""Applications over real sockets: a gateway process, an engine process, and this process as their client.

Each application is carried out by its client straight at the engine, which batches and caches by itself
(asyncio.gather over what is ready), by its client through the gateway, and by the gateway.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.overhead.rounds import settle
from benchmarks.overhead.servers import LOAD_CORE, SERVER_CORE, Server, gateway, started
from benchmarks.processes import free_port
from loadtest.applications.playing import Player
from loadtest.applications.shapes import Application, Call, chain, words
from loadtest.plan import Target

STEPS = 20
CHUNK_TOKENS, ANSWER_TOKENS = 256, 64
"""Of each step: a paragraph to read, and one to write."""
_MODEL = "bench"
_CREDENTIAL = {"Authorization": "Bearer sk-bench"}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `most` says whether it is to be at most its goal; else at least."""

    what: str
    now: float
    goal: float | None = None
    most: bool = True
    unit: str = "x"

    @property
    def reached(self) -> bool | None:
        """Whether it is what is wanted; None where nothing is."""
        if self.goal is None:
            return None
        return self.now <= self.goal if self.most else self.now >= self.goal

    def cells(self) -> tuple[str, str, str, str]:
        """For a table: what, now, goal, reached."""
        goal = "" if self.goal is None else f"{'at most' if self.most else 'at least'} {self._shown(self.goal)}"
        return self.what, self._shown(self.now), goal, {None: "", True: "yes", False: "NO"}[self.reached]

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        return {**asdict(self), "reached": self.reached}

    def _shown(self, value: float) -> str:
        return f"{value:.2f}{self.unit}" if self.unit == "x" else f"{value:.2f} {self.unit}"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one batch took, by call of a model."""

    wall_ms: float
    gateway_ms: float
    """CPU."""
    client_ms: float
    """CPU."""


@contextmanager
def scripted_engine(folder: Path) -> Iterator[Server]:
    """An engine that answers at once."""
    port = free_port()
    command = [sys.executable, "-m", "understudy", "load", "serve-mock", "--port", str(port)]
    command += ["--tokens", str(ANSWER_TOKENS), "--model", _MODEL]
    log = folder / "engine.log"
    with started("engine", command, port, log, ready_path="/v1/models", core=LOAD_CORE) as server:
        yield server


def one_step_costs(rounds: int = 6, runs: int = 10) -> list[Row]:
    """CPU of a step beside that of a plain call of the same size, and a chain beside its client's own."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        engine = stack.enter_context(scripted_engine(folder))
        base = f"http://127.0.0.1:{engine.port}/v1"
        arguments = ["--upstream", base, "--exact", "on", "--data", str(folder / "data")]
        server = stack.enter_context(gateway("gateway", arguments, folder))
        return asyncio.run(_costs(engine, server, rounds, runs))


async def _costs(engine: Server, server: Server, rounds: int, runs: int) -> list[Row]:
    names = (f"{n}" for n in itertools.count())
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=_CREDENTIAL, connector=connector) as session:
        straight, through = (
            Player(session, Target(f"http://127.0.0.1:{one.port}", headers=()), _MODEL, 0.0)
            for one in (engine, server)
        )
        ways = {
            "direct": (straight, False),
            "client": (through, False),
            "run": (through, True),
        }
        shapes = {
            "chain": lambda: chain(next(names), STEPS, CHUNK_TOKENS, ANSWER_TOKENS),
            "side": lambda: _side_by_side(next(names)),
        }
        found: dict[tuple[str, str], list[Cost]] = {(s, w): [] for s in shapes for w in ways}
        for n in range(rounds + 1):
            for (shape, way), costs in list(found.items())[:: 1 if n % 2 else -1]:
                player, by_server = ways[way]
                made = [shapes[shape]() for _ in range(runs)]
                cost = await _played(player, made, server, by_server)
                if n:
                    costs.append(cost)
    for key, costs in found.items():
        print(key, {f: round(statistics.median(getattr(c, f) for c in costs), 3) for f in ("wall_ms", "gateway_ms", "client_ms")})
    return []


def _side_by_side(key: str) -> Application:
    texts = [words(f"{key}/{n}", CHUNK_TOKENS) for n in range(STEPS)]
    calls = tuple(Call(f"s{n}", text, ANSWER_TOKENS) for n, text in enumerate(texts))
    return Application("side", calls, tuple(call.name for call in calls))


async def _played(player: Player, made: Sequence[Application], server: Server, by_server: bool) -> Cost:
    cpu_s, own_s, began_s = server.cpu_s(), time.process_time(), time.perf_counter()
    for one in made:
        played = await (player.by_server(one) if by_server else player.by_client(one))
        if played.error:
            raise SystemExit(f"{one.kind}: {played.error}")
    wall_s, own_s = time.perf_counter() - began_s, time.process_time() - own_s
    await settle(server)
    calls = sum(len(one.calls) for one in made)
    return Cost(wall_s / calls * 1e3, (server.cpu_s() - cpu_s) / calls * 1e3, own_s / calls * 1e3)


if __name__ == "__main__":
    one_step_costs()
