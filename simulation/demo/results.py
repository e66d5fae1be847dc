"""The demo's graded answers, and quality, cost and latency computed from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from simulation.demo.settings import LARGE, PRICES, SMALL

Route = Literal["hit", "offloaded", "small", "large"]
"""hit: from the cache. offloaded: the small engine, few-shot. small: direct. large: the large one."""


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """The answer to one request: who gave it, how good it was, how long it took."""

    number: int
    """The request's place in the stream."""
    route: Route
    grade: float
    """By the simulated world, 0 to 1."""
    first_token_ms: float
    """For an answer that was not streamed, the same as `total_ms`."""
    total_ms: float
    prompt_tokens: int
    completion_tokens: int
    examples: int
    overhead_ms: float
    streamed: bool

    @property
    def cost_usd(self) -> float:
        """What the engine charged; a cache hit costs nothing."""
        if self.route == "hit":
            return 0.0
        price_in, price_out = PRICES[LARGE if self.route == "large" else SMALL]
        return (self.prompt_tokens * price_in + self.completion_tokens * price_out) / 1e6


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over some requests; latencies in milliseconds, cost in US dollars per thousand requests."""

    requests: int = 0
    quality: float = 0.0
    usd_per_1000: float = 0.0
    first_token_ms: float = 0.0
    total_ms_mean: float = 0.0
    total_ms_p50: float = 0.0
    total_ms_p95: float = 0.0


def summary(answers: Iterable[GradedAnswer]) -> Summary:
    """Figures of some answers; zeros for none."""
    rows = list(answers)
    if not rows:
        return Summary()
    totals = np.array([answer.total_ms for answer in rows])
    streamed = [answer.first_token_ms for answer in rows if answer.streamed]
    return Summary(
        len(rows),
        float(np.mean([answer.grade for answer in rows])),
        float(np.mean([answer.cost_usd for answer in rows])) * 1000,
        float(np.mean(streamed)) if streamed else 0.0,
        float(totals.mean()),
        float(np.percentile(totals, 50)),
        float(np.percentile(totals, 95)),
    )


@dataclass
class Answers:
    """The answers so far, in order of completion, and the requests that failed."""

    graded: list[GradedAnswer] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    feedback_refused: int = 0

    def of(self, *routes: Route) -> list[GradedAnswer]:
        """The answers that took one of the routes."""
        return [answer for answer in self.graded if answer.route in routes]

    def share(self, *routes: Route) -> float:
        """The share of all answers that took one of the routes; 0 before the first."""
        return len(self.of(*routes)) / len(self.graded) if self.graded else 0.0


@dataclass(frozen=True, slots=True)
class Quarter:
    """A quarter of the requests, in the order in which they were answered."""

    small_share: float
    """Share that the small engine answered, with examples or without."""
    quality: float
    quality_of_small: float | None
    """None where it answered nobody."""


def quarters(answers: Answers) -> tuple[Quarter, ...]:
    """The answers in four parts of the same size; nothing for fewer than four."""
    size = len(answers.graded) // 4
    parts = [Answers(answers.graded[at * size : (at + 1) * size]) for at in range(4)] if size else []
    return tuple(
        Quarter(
            part.share("offloaded", "small"),
            summary(part.graded).quality,
            summary(small).quality if (small := part.of("offloaded", "small")) else None,
        )
        for part in parts
    )


@dataclass(frozen=True, slots=True)
class Results:
    """What the demo measured."""

    whole: Summary
    """All requests as they were answered."""
    hits: Summary
    offloaded: Summary
    """The small engine with examples."""
    large: Summary
    """Requests that went to the large engine."""
    failed: int
    feedback_refused: int
    """Scores that the gateway could not take just then."""
    bypassed: int
    """Stages that were late on a busy machine. Most of these requests continued to the large engine."""
    always_large: Summary
    """A sample of the same requests, sent again to the large engine."""
    small_alone: Summary
    """The same sample, sent to the small engine without examples."""
    offloaded_without_examples: Summary
    """A sample of the offloaded requests, sent to the small engine without examples."""
    quarters: tuple[Quarter, ...] = ()
    """How it went on, in four parts."""
    opened: int = 0
    """How often comparisons opened a region of requests to the small engine."""
    closed: int = 0
    """How often they closed one again."""

    @property
    def offloaded_share(self) -> float:
        """Offloaded requests as a share of all, cache hits included."""
        return self.offloaded.requests / max(1, self.whole.requests)

    @property
    def offloaded_share_of_asked(self) -> float:
        """Offloaded requests as a share of those that an engine answered: cache hits excluded."""
        return self.offloaded.requests / max(1, self.whole.requests - self.hits.requests)

    @property
    def quality_gap(self) -> float:
        """Quality of always-large minus quality of the whole, 0 to 1."""
        return self.always_large.quality - self.whole.quality

    @property
    def cost_ratio(self) -> float:
        """Cost of the whole divided by the cost of always-large."""
        return (
            self.whole.usd_per_1000 / self.always_large.usd_per_1000
            if self.always_large.usd_per_1000
            else 0.0
        )

    @property
    def latency_ratio(self) -> float:
        """Mean latency of the whole divided by that of always-large."""
        return (
            self.whole.total_ms_mean / self.always_large.total_ms_mean
            if self.always_large.total_ms_mean
            else 0.0
        )

    def as_json(self) -> dict[str, Any]:
        """For `--json`, and for comparing two runs."""
        return {
            **asdict(self),
            "offloaded_share": self.offloaded_share,
            "offloaded_share_of_asked": self.offloaded_share_of_asked,
            "quality_gap": self.quality_gap,
            "cost_ratio": self.cost_ratio,
            "latency_ratio": self.latency_ratio,
        }

    def repeatable(self) -> dict[str, float]:
        """The figures that depend on the seed alone: everything but times."""
        figures: dict[str, float] = {"failed": self.failed}
        for name, part in asdict(self).items():
            if isinstance(part, dict):
                figures |= {f"{name}.{key}": part[key] for key in ("requests", "quality", "usd_per_1000")}
        return figures
