"""One pass of traffic through a router and two simulated engines, in virtual time, and what came of it."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from benchmarks.echolm.engines import Engine, Model
from benchmarks.echolm.examples import Bank
from benchmarks.echolm.routers import Decision, Router, small_fits
from benchmarks.echolm.world import Query, cut, points
from router.choosing.load import engine_state

JUDGED = 0.25
"""Share of requests whose two answers are compared in the background; the other engine's work for it is not simulated."""
FEEDBACK_AFTER_S = 60.0
"""From the end of an answer to its judgement."""


class Arrival(NamedTuple):
    """A request and when it comes."""

    at_s: float
    query: Query


@dataclass(frozen=True, slots=True)
class Served:
    """What became of one request."""

    arrived_s: float
    latency_s: float
    dataset: int
    offloaded: bool
    examples: int
    points: float
    """1 if the answer won against the large engine's own, 1/2 for a tie (and where the large engine answered), else 0."""
    score: float
    gpu_s: float
    """Its share of a full engine."""


@dataclass(slots=True)
class Result:
    """A whole pass."""

    served: list[Served]
    began_s: float
    ended_s: float
    """When the last request came."""
    completed: int = 0
    """Answers that were complete by then."""

    def figures(self) -> dict[str, float]:
        """What is reported of it."""
        latency = np.array([s.latency_s for s in self.served])
        return {
            "requests": float(len(self.served)),
            "throughput_per_s": self.completed / max(1e-9, self.ended_s - self.began_s),
            "p50_s": float(np.percentile(latency, 50)),
            "p95_s": float(np.percentile(latency, 95)),
            "p99_s": float(np.percentile(latency, 99)),
            "mean_s": float(latency.mean()),
            "offloaded": float(np.mean([s.offloaded for s in self.served])),
            "win_rate": float(np.mean([s.points for s in self.served])),
            "score": float(np.mean([s.score for s in self.served])),
            "gpu_s_per_request": float(np.mean([s.gpu_s for s in self.served])),
            "examples": float(np.mean([s.examples for s in self.served])),
        }


@dataclass(slots=True)
class Pass:
    """`blind`: the router is told that the engines are idle. `bank`: whose examples are sent, to know what they do."""

    router: Router
    small: Model
    large: Model
    bank: Bank | None = None
    seed: int = 0
    blind: bool = False
    _open: dict[int, tuple[Arrival, Decision]] = field(default_factory=dict)

    def run(self, arrivals: Sequence[Arrival]) -> Result:
        """Plays all arrivals, and goes on until the last answer is complete."""
        engines = (Engine(self.small), Engine(self.large))
        coin = random.Random(self.seed)
        number = itertools.count()
        late: list[tuple[float, int, Arrival, Decision]] = []
        result = Result([], arrivals[0].at_s, arrivals[-1].at_s)
        idle = [engine_state(e.info(), e.idle_load()) for e in engines]

        def until(now_s: float) -> None:
            for engine in engines:
                for end in engine.advance(now_s):
                    arrival, decision = self._open.pop(end.request)
                    result.served.append(self._served(arrival, decision, end.at_s))
                    result.completed += end.at_s <= result.ended_s
                    self.router.answered(arrival.query, decision)
                    if coin.random() < JUDGED and self.router.wants_outcomes:
                        heapq.heappush(late, (end.at_s + FEEDBACK_AFTER_S, next(number), arrival, decision))
            while late and late[0][0] <= now_s:
                at_s, _, arrival, decision = heapq.heappop(late)
                score = self._small_score(arrival.query, small_fits(decision))
                self.router.judged(arrival.query, decision, score, at_s)

        for arrival in arrivals:
            until(arrival.at_s)
            states = idle if self.blind else [engine_state(e.info(), e.load()) for e in engines]
            decision = self.router.decide(arrival.query, states, arrival.at_s)
            prompt, answer = self._tokens(arrival.query, decision)
            self._open[arrival.query.id] = (arrival, decision)
            engines[not decision.to_small].submit(arrival.query.id, prompt, answer, arrival.at_s)
        while self._open:
            until(min(engine.next_at() for engine in engines))
        result.served.sort(key=lambda s: s.arrived_s)
        return result

    def _tokens(self, query: Query, decision: Decision) -> tuple[int, int]:
        if not decision.fits:
            return query.tokens_in, query.tokens_out
        return query.tokens_in + decision.example_tokens, max(1, round(query.tokens_out * query.length_with))

    def _served(self, arrival: Arrival, decision: Decision, at_s: float) -> Served:
        query = arrival.query
        score = self._small_score(query, decision.fits) if decision.to_small else 0.0
        return Served(
            arrival.at_s,
            at_s - arrival.at_s,
            query.dataset,
            decision.to_small,
            len(decision.fits),
            points(score),
            score,
            (self.small if decision.to_small else self.large).gpu_s(*self._tokens(query, decision)),
        )

    def _small_score(self, query: Query, fits: Sequence[float]) -> float:
        shift = self.bank.shift(query, fits) if self.bank is not None and fits else 0.0
        return cut(query.score + shift)


def poisson(
    queries: Iterable[Query], rate_per_s: float, rng: random.Random, from_s: float = 0.0
) -> list[Arrival]:
    """Arrivals at a constant rate."""
    at_s = from_s
    found = []
    for query in queries:
        at_s += rng.expovariate(rate_per_s)
        found.append(Arrival(at_s, query))
    return found
