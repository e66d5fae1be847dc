"""What to replay first: distil or expand, by gain per unit of cost, until the budget is planned away (EchoLM §4.3.1).

Pure: candidates in, an ordered plan out. Nothing is asked and nothing changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from store.jobs.replay_records import NewStep, ReplayBudget, StepKind


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step is expected to cost."""

    usd: float
    tokens: int
    seconds: float
    """Of engines' time."""

    def times(self, factor: float) -> Cost:
        """The same, scaled."""
        return Cost(self.usd * factor, round(self.tokens * factor), self.seconds * factor)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to replay an example."""

    cost: Cost
    chance: float
    """That it comes to something, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An example that could be replayed."""

    tenant: str
    example_id: int
    gain: float
    """G(e), as of now."""
    companion_gain: float
    """G(e+), as of now (learning.replay.gain.companion_gain)."""
    nearest: float
    """Cosine similarity of the nearest other example; 0 without any."""
    distil: Way | None
    """None where it must not be distilled: given by a person, pinned, or replayed lately."""
    expand: Way | None
    """None where it must not be expanded."""
    created_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plan."""

    kind: StepKind
    candidate: Candidate
    cost: Cost
    effect: float
    """Gain that it is expected to take away: G(e), or G(e+), times the chance that it comes to something."""
    per_cost: float
    """Effect per share of the budget, of the scarcest of dollars, tokens and minutes."""

    def step(self) -> NewStep:
        """As a run keeps it."""
        it = self.candidate
        return NewStep(
            tenant=it.tenant,
            kind=self.kind,
            example_id=it.example_id,
            gain=it.gain,
            companion_gain=it.companion_gain,
            expected_effect=self.effect,
            expected_usd=self.cost.usd,
            expected_tokens=self.cost.tokens,
            expected_s=self.cost.seconds,
        )


def kind_of(candidate: Candidate, thin_below: float) -> StepKind | None:
    """Expand where the companion promises more and nothing else is near; else distil; None where nothing is to be gained.

    `thin_below`: nearest similarity under which a neighbourhood is thin. In a dense one a companion would be a duplicate.
    """
    thin = candidate.nearest < thin_below
    if candidate.expand is not None and thin and candidate.companion_gain > candidate.gain:
        return "expand"
    return "distil" if candidate.distil is not None and candidate.gain > 0 else None


def plan(
    candidates: Iterable[Candidate],
    budget: ReplayBudget,
    *,
    thin_below: float,
    most: int = 10_000,
) -> list[Line]:
    """The lines worth their cost, best first, as many as the budget is expected to allow and at most `most`.

    Greedy by gain per unit of cost: a line that does not fit any more is passed over for cheaper ones behind it.
    """
    lines = []
    for candidate in candidates:
        kind = kind_of(candidate, thin_below)
        if kind is None:
            continue
        way = candidate.distil if kind == "distil" else candidate.expand
        assert way is not None
        effect = (candidate.gain if kind == "distil" else candidate.companion_gain) * way.chance
        per_cost = effect / max(_share(way.cost, budget), 1e-12)
        lines.append(Line(kind, candidate, way.cost, effect, per_cost))
    lines.sort(key=lambda line: (-line.per_cost, line.candidate.tenant, line.candidate.example_id))
    chosen: list[Line] = []
    usd = seconds = 0.0
    tokens = 0
    for line in lines:
        cost = line.cost
        if len(chosen) == most:
            break
        if (
            (budget.usd is not None and usd + cost.usd > budget.usd)
            or (budget.tokens is not None and tokens + cost.tokens > budget.tokens)
            or (budget.seconds is not None and seconds + cost.seconds > budget.seconds)
        ):
            continue
        usd, tokens, seconds = usd + cost.usd, tokens + cost.tokens, seconds + cost.seconds
        chosen.append(line)
    return chosen


def chance(successes: float, tries: float, *, rarely: bool = False) -> float:
    """How often such a step comes to something, from how often it did: before any 1/2 (Laplace's rule of succession).

    `rarely`: where there is reason to expect little, 1/10.
    """
    return (successes + 1.0) / (tries + (10.0 if rarely else 2.0))


def chance_of_better(before: float, quality_sum: float, quality_count: int, *, weight: float = 2.0) -> float:
    """That asking again betters an answer: what is expected of its like, moved by what was said of answers made with it.

    `before` counts as `weight` observations; each judgement of quality q says 1 - q.
    """
    return (weight * before + quality_count - quality_sum) / (weight + quality_count)


def _share(cost: Cost, budget: ReplayBudget) -> float:
    """Of the scarcest thing; without any budget dollars are, or, where nothing has a price, tokens."""
    shares = [
        spent / limit
        for spent, limit in (
            (cost.usd, budget.usd),
            (cost.tokens, budget.tokens),
            (cost.seconds, budget.seconds),
        )
        if limit
    ]
    return max(shares) if shares else cost.usd or cost.tokens / 1e6
