"""The experiments: what is played against what. Each returns figures per seed; nothing here prints."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.echolm.engines import LARGE, LARGE_GPUS, SMALL, SMALL_GPUS, Model
from benchmarks.echolm.examples import Bank, Scales
from benchmarks.echolm.paper import GEMMA
from benchmarks.echolm.routers import Fixed, Gateway, Parts, Router, Threshold
from benchmarks.echolm.run import Arrival, Pass, Result, poisson
from benchmarks.echolm.world import CLASSIFIER_CORRELATION, Query, World
from loadtest.traces import TraceRow
from router.choosing.bandit_vw import VowpalBandit

DIAL = 0.25
"""Of the main table: the lowest of DIALS at which the default run loses no quality. The frontier goes through all."""
DIALS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RATES_PER_S = (1.0, 2.0, 4.0)
"""Light, medium and high load (Figure 16)."""
FRONTIER_RATE_PER_S = 2.0
TRACE_KEEP = 3
"""One of so many requests of the trace is kept: as it stands it asks more than these engines can do."""
STEP_RATES_PER_S, STEP_DIAL = (1.0, 6.0, 1.0), 0.4
"""The large engine alone manages about 4.6 requests/s."""
STARTING_BANK = 3000
"""Examples at the start, from the large engine (the paper fills its bank from training splits)."""

LARGE_ON_ALL = replace(LARGE, replicas=(LARGE_GPUS + SMALL_GPUS) / LARGE_GPUS)
"""The large engine on the GPUs of both: what no gateway means at equal hardware."""

ABLATIONS: dict[str, Parts] = {
    "ours": Parts(),
    "without examples": Parts(examples=False),
    "without the proxy": Parts(proxy=False),
    "without the bandit": Parts(bandit=False),
    "bank empty at the start": Parts(),
    "the rule alone": Parts(rule=True),
    "stale scorer": Parts(stale=True),
    "stale scorer, no bandit": Parts(stale=True, bandit=False),
}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is played."""

    seeds: int = 5
    minutes: float = 10.0
    warm_up: int = 6000
    """Requests before anything counts: the gateway learns on them, from an untaught bandit on."""
    dials: tuple[float, ...] = DIALS
    step_minutes: float = 5.0
    classifier_correlation: float = CLASSIFIER_CORRELATION


@dataclass(slots=True)
class Stage:
    """A world of one seed, with gateways that have been in use for a while."""

    scales: Scales
    seed: int
    size: Size
    world: World = field(init=False)
    stock: list[Query] = field(init=False)
    before: list[Arrival] = field(init=False)
    _warm: dict[str, tuple[Bank, bytes | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world = World(self.seed, self.size.classifier_correlation)
        self.stock = [self.world.query() for _ in range(STARTING_BANK)]
        queries = [self.world.query() for _ in range(self.size.warm_up)]
        self.before = poisson(queries, FRONTIER_RATE_PER_S, self.rng("before"))

    def rng(self, name: str) -> random.Random:
        """Seeded by name, so that adding an experiment changes no other."""
        return random.Random(f"{self.seed} {name}")

    def bank(self, *, empty: bool = False) -> Bank:
        """As it is at the very start."""
        found = Bank(self.scales, self.seed, 2 * STARTING_BANK + self.size.warm_up)
        for query in () if empty else self.stock:
            found.add(query)
        return found

    def gateway(self, name: str, preference: float) -> Gateway:
        """One of ABLATIONS, warmed up. Each call gives another one, with the same past."""
        parts = ABLATIONS[name]
        if name not in self._warm:
            bank = self.bank(empty=name == "bank empty at the start")
            young = Gateway(bank, DIAL, self.rng(f"warm {name}"), parts)
            self.play(young, self.before)
            self._warm[name] = (bank, None if young.bandit is None else young.bandit.save())
        bank, learnt = self._warm[name]
        bandit = None if learnt is None else VowpalBandit.load(learnt)
        return Gateway(bank.fork(), preference, self.rng(f"play {name}"), parts, bandit=bandit)

    def play(
        self, router: Router, arrivals: Sequence[Arrival], *, large: Model = LARGE, blind: bool = False
    ) -> Result:
        """One pass."""
        bank = getattr(router, "bank", None)
        return Pass(router, SMALL, large, bank=bank, seed=self.seed, blind=blind).run(arrivals)

    def poisson(self, rate_per_s: float) -> list[Arrival]:
        """`size.minutes` of new requests."""
        count = max(50, int(rate_per_s * self.size.minutes * 60))
        return poisson([self.world.query() for _ in range(count)], rate_per_s, self.rng(f"at {rate_per_s}"))

    def traced(self, rows: Sequence[TraceRow]) -> list[Arrival]:
        """`size.minutes` of a trace: its times and lengths, this world's questions. Each seed begins elsewhere in it."""
        length_s = self.size.minutes * 60
        last_s = max(0.0, rows[-1].t_s - length_s)
        from_s = min(last_s, (self.seed - 1) * length_s)
        part = [r for r in rows[::TRACE_KEEP] if from_s <= r.t_s < from_s + length_s]
        return [Arrival(r.t_s, self.world.query(r.tokens_in, r.tokens_out)) for r in part]


def loads(stage: Stage, trace: Sequence[TraceRow] | None) -> dict[str, dict[str, Any]]:
    """Every load against every way to serve it: the main table. Figures by load, then by router."""
    found: dict[str, dict[str, Any]] = {}
    traffic: list[tuple[str, list[Arrival]]] = [
        (f"Poisson {rate:g}/s", stage.poisson(rate)) for rate in RATES_PER_S
    ]
    if trace is not None:
        traffic.append((f"Azure 2023, 1 of {TRACE_KEEP}", stage.traced(trace)))
    for name, arrivals in traffic:
        queries = [a.query for a in arrivals]
        rows = found[name] = {}
        rows["no gateway"] = stage.play(Fixed(False), arrivals).figures()
        rows["no gateway, 3 GPUs"] = stage.play(Fixed(False), arrivals, large=LARGE_ON_ALL).figures()
        rows["all small"] = _by_dataset(stage.play(Fixed(True), arrivals))
        rows["all small, examples"] = _by_dataset(stage.play(Fixed(True, stage.bank()), arrivals))
        ours = stage.play(stage.gateway("ours", DIAL), arrivals).figures()
        # As much offloading as ours did in the same traffic, to the request: what it knows less of is the only difference.
        like = Threshold(ours["offloaded"]).settle(queries)
        rows["RouteLLM-like, our share"] = stage.play(like, arrivals).figures()
        rows["ours"] = ours
    return found


def frontier(stage: Stage) -> dict[str, list[dict[str, float]]]:
    """Win rate and throughput per GPU over every dial (threshold) of every router, at FRONTIER_RATE_PER_S."""
    arrivals = stage.poisson(FRONTIER_RATE_PER_S)
    queries = [a.query for a in arrivals]
    alone = stage.play(Fixed(False), arrivals).figures()["gpu_s_per_request"]

    def point(at: float, result: Result) -> dict[str, float]:
        figures = result.figures()
        return figures | {"at": at, "throughput_per_gpu": alone / figures["gpu_s_per_request"]}

    found: dict[str, list[dict[str, float]]] = {}
    for name, parts in ABLATIONS.items():
        dials = (DIAL,) if parts.rule else stage.size.dials
        found[name] = [point(dial, stage.play(stage.gateway(name, dial), arrivals)) for dial in dials]
    for name, knowing in (("RouteLLM-like", False), ("threshold that knows", True)):
        found[name] = [
            point(share, stage.play(Threshold(share, knowing).settle(queries), arrivals)) for share in SHARES
        ]
    found["examples, no router"] = [point(1.0, stage.play(Fixed(True, stage.bank()), arrivals))]
    return found


def load_step(stage: Stage) -> dict[str, Any]:
    """A step in load, with a router that sees it and with one that is told everything is idle."""
    arrivals: list[Arrival] = []
    edges = [0.0]
    length_s = stage.size.step_minutes * 60
    for number, rate in enumerate(STEP_RATES_PER_S):
        queries = [stage.world.query() for _ in range(int(rate * length_s))]
        part = poisson(queries, rate, stage.rng(f"step {number}"), from_s=edges[-1])
        arrivals += part
        edges.append(part[-1].at_s)
    found: dict[str, Any] = {}
    for name, blind in (("load-aware", False), ("load-blind", True)):
        result = stage.play(stage.gateway("ours", STEP_DIAL), arrivals, blind=blind)
        parts = [_between(result, a, b) for a, b in itertools.pairwise(edges)]
        windows = np.arange(edges[0], edges[-1] - 30.0, 60.0)
        found[name] = {
            "all": result.figures(),
            "phases": [p.figures() for p in parts],
            "offloaded_per_minute": [
                float(np.mean([s.offloaded for s in _between(result, w, w + 60.0).served] or [np.nan]))
                for w in windows
            ],
        }
    return found


def _between(result: Result, from_s: float, to_s: float) -> Result:
    return Result([s for s in result.served if from_s <= s.arrived_s < to_s], from_s, to_s)


def _by_dataset(result: Result) -> dict[str, Any]:
    per = {
        d.name: {
            "win_rate": float(np.mean([s.points for s in result.served if s.dataset == i])),
            "score": float(np.mean([s.score for s in result.served if s.dataset == i])),
        }
        for i, d in enumerate(GEMMA)
    }
    return {**result.figures(), "datasets": per}


def at_no_loss(points: Sequence[tuple[float, float]], wins: float = 0.5) -> float | None:
    """The most throughput at which the win rate is still `wins`, between measured points in a straight line; None: nowhere.

    `points` are (throughput, win rate). Always asking the large engine, (1, 0.5), belongs to every curve.
    """
    curve = sorted([(1.0, 0.5), *points])
    best: float | None = None
    for (x0, y0), (x1, y1) in itertools.pairwise(curve):
        if y1 >= wins:
            best = x1
        elif y0 >= wins > y1:
            best = x0 + (x1 - x0) * (y0 - wins) / (y0 - y1)
    return best


Progress = Callable[[str], None]


def experiments(
    scales: Scales, size: Size, trace: Sequence[TraceRow] | None, progress: Progress
) -> list[dict[str, Any]]:
    """All of it, seed by seed."""
    found = []
    for seed in range(1, size.seeds + 1):
        stage = Stage(scales, seed, size)
        one: dict[str, Any] = {"seed": seed, "loads": loads(stage, trace)}
        progress(f"seed {seed}: loads")
        one["frontier"] = frontier(stage)
        progress(f"seed {seed}: frontier and ablations")
        one["load_step"] = load_step(stage)
        progress(f"seed {seed}: load step")
        found.append(one)
    return found
