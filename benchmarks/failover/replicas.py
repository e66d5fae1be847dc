"""One engine behind three base URLs (E10, E11): how long the slowest of clients wait, and whether prefixes are found cached.

Beside it round robin over the same three servers, asked directly: the same requests at the same time, so that what is
measured is the choice. What a request costs is drawn once and travels with it, as a multiple of its server's mean.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from aiohttp import web

from benchmarks.failover.asking import Answer, Client
from benchmarks.failover.scenario import Behind, Bench, Figure, Found, Model, Scenario, judged, quantile_s
from benchmarks.failover.virtual import MEANS_S, SLOTS, p99_s
from benchmarks.failover.wall import Call, Script

_PER_S, _SECONDS = 15, 40
_SEEDS = range(10)
_SESSIONS, _TURNS = 24, 8
_TURN_S = 0.25
_THINKS_S = 0.25
_SAID = "An answer of five words."


def _slotted(mean_s: float) -> Script:
    """A server of eight slots; more wait. Its requests take as long as they say."""
    slots = asyncio.Semaphore(SLOTS)

    async def script(call: Call) -> web.StreamResponse:
        if "messages" not in call.body:
            return await call.whole(200, {"data": []})
        async with slots:
            await asyncio.sleep(mean_s * float(call.body["metadata"]["work"]))
            return await call.answer(_SAID)

    return script


class _Caches:
    """Which beginnings of conversations each of several servers has seen, and how often one found what came before."""

    def __init__(self) -> None:
        self.later_turns = self.cached = self.all_cached = 0
        self.answered: list[int] = []
        """By each server."""

    def server(self) -> Script:
        """One of them."""
        seen: set[bytes] = set()
        place = len(self.answered)
        self.answered.append(0)

        async def script(call: Call) -> web.StreamResponse:
            if "messages" not in call.body:
                return await call.whole(200, {"data": []})
            messages = list(call.body["messages"])
            self.answered[place] += 1
            # Such as system, user, assistant, user: without the last it is as it was when a turn was answered.
            before = [_digest(messages[:end]) in seen for end in range(len(messages) - 1, 1, -2)]
            if before:
                self.later_turns += 1
                self.cached += any(before)
                self.all_cached += before[0]
            await asyncio.sleep(_TURN_S * float(call.body["metadata"]["work"]))
            seen.add(_digest([*messages, {"role": "assistant", "content": _SAID}]))
            return await call.answer(_SAID)

        return script

    @property
    def share(self) -> float:
        """Of turns from the second on, those whose server had answered one of their conversation before."""
        return self.cached / max(1, self.later_turns)

    @property
    def all_share(self) -> float:
        """Those whose server had answered the one right before: all but the question is there."""
        return self.all_cached / max(1, self.later_turns)


def _digest(messages: Sequence[Mapping[str, Any]]) -> bytes:
    return blake2b(json.dumps(messages).encode(), digest_size=16).digest()


def _pool(name: str, scripts: Sequence[Script], **settings: Any) -> Model:
    return Model(name, Behind(replicas=tuple(scripts), settings=settings), None)


def _by_turns(bench: Bench, scripts: Mapping[str, Script]) -> list[Client]:
    """Clients of the servers themselves."""
    bench.wall.scripts.update(scripts)
    session = bench.client.session
    return [Client(f"{bench.wall.origin}/{name}", session) for name in scripts]


# ---- E10: three replicas, one slow


async def _one_slow(bench: Bench) -> Found:
    direct = itertools.cycle(
        _by_turns(bench, {f"e10r-{n}": _slotted(mean) for n, mean in enumerate(MEANS_S)})
    )
    rng = random.Random(10)
    began, at_s = time.monotonic(), 0.0
    chosen, in_turn = [], []
    async with asyncio.TaskGroup() as group:
        while at_s < _SECONDS:
            at_s += rng.expovariate(_PER_S)
            what = {"stream": False, "metadata": {"work": f"{rng.expovariate(1.0):.4f}"}}
            await asyncio.sleep(max(0.0, began + at_s - time.monotonic()))
            chosen.append(group.create_task(bench.ask("e10", **what)))
            in_turn.append(group.create_task(next(direct).ask("e10", **what)))
    ours, theirs = [task.result() for task in chosen], [task.result() for task in in_turn]
    ratio = quantile_s(ours, 0.99) / quantile_s(theirs, 0.99)
    # In virtual time, so in no time: many seeds, and a load that round robin cannot hold.
    virtual = await asyncio.to_thread(_virtual)
    shares = [len(bench.wall.calls(f"e10-p-{n}")) for n in range(len(MEANS_S))]
    found = judged(
        Figure("of round robin's p99 at 15/s", ratio, 0.75, "1"),
        Figure(
            "p99 s at 30/s, virtual time",
            virtual["30/s"],
            3.0,
            f"round robin {virtual['30/s, round robin']:.0f}",
        ),
        Figure("answered", sum(answer.ok for answer in ours) / len(ours), 1, "1", at_least=True),
    )
    virtual |= {"p99 s": quantile_s(ours, 0.99), "p99 s, round robin": quantile_s(theirs, 0.99)}
    virtual |= {f"share of replica {n}": share for n, share in enumerate(shares)}
    return Found(found.verdict, found.why, found.figures | virtual)


def _virtual() -> dict[str, float]:
    return {
        f"{per_s}/s{', round robin' if by_turns else ''}": _mean(
            [p99_s(per_s, 200.0, seed, by_turns=by_turns) for seed in _SEEDS]
        )
        for per_s in (15, 30)
        for by_turns in (False, True)
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# ---- E11: conversations find what is cached of them

_CACHES = {"e11": _Caches(), "e11n": _Caches(), "e11r": _Caches()}


async def _sessions(bench: Bench) -> Found:
    direct = itertools.cycle(_by_turns(bench, {f"e11r-{n}": _CACHES["e11r"].server() for n in range(3)}))
    started = {
        "e11": lambda turns, number: bench.ask("e11", stream=False, **turns),
        "e11n": lambda turns, number: bench.ask("e11n", stream=False, prompt_cache_key=f"s{number}", **turns),
        "e11r": lambda turns, number: next(direct).ask("e11r", stream=False, **turns),
    }
    answers: list[Answer] = []

    async def session(name: str, number: int) -> None:
        rng = random.Random(number)
        await asyncio.sleep(rng.uniform(0, 1))
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"Topic {number}."},
        ]
        for turn in range(_TURNS):
            what = {"messages": messages, "metadata": {"work": f"{rng.expovariate(1.0):.4f}"}}
            answers.append(await started[name](what, number))
            await asyncio.sleep(rng.uniform(0, 2 * _THINKS_S))
            said = [{"role": "assistant", "content": _SAID}, {"role": "user", "content": f"More, {turn}?"}]
            messages = [*messages, *said]

    async with asyncio.TaskGroup() as group:
        for name in started:
            for number in range(_SESSIONS):
                group.create_task(session(name, number))
    by_turns = f"{_CACHES['e11r'].share:.2f} (round robin)"
    found = judged(
        Figure("cached", _CACHES["e11"].share, 0.98, by_turns, at_least=True),
        Figure("cached, named sessions", _CACHES["e11n"].share, 0.98, by_turns, at_least=True),
        Figure("answered", sum(answer.ok for answer in answers) / len(answers), 1, "1", at_least=True),
    )
    more: dict[str, Any] = {f"{name}: the turn before": one.all_share for name, one in _CACHES.items()}
    more |= {f"{name}: answered by each": one.answered for name, one in _CACHES.items()}
    return Found(found.verdict, found.why, found.figures | more)


REPLICAS = (
    Scenario(
        "E10",
        "three replicas of 8 slots, means 0.4, 0.4 and 1.2 s",
        _one_slow,
        (_pool("e10", [_slotted(mean) for mean in MEANS_S]),),
        before="no replicas",
    ),
    Scenario(
        "E11",
        "24 sessions of 8 turns: answered where one of their turns is cached",
        _sessions,
        (
            _pool("e11", [_CACHES["e11"].server() for _ in range(3)]),
            _pool("e11n", [_CACHES["e11n"].server() for _ in range(3)]),
        ),
        before="0.72 (round robin)",
    ),
)
