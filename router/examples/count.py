"""Learns per engine how many examples are worth their tokens, from the quality observed under different caps.

More examples raise quality by less and less, while each of them costs prefill (EchoLM section 4.1, "Selecting Example
Combinations": the number is tuned from what is observed under different numbers). The cap is one of a ladder of values. A
small share of requests gets the cap one rung beside the best known one, with a probability that is logged, so that both
neighbours stay comparable; sums are weighted by its inverse. A rung's value is its gain in quality less the price of its
tokens, shrunk towards the mean of all rungs, and it must exceed the default's by more than its standard error: little
evidence changes nothing.

The gain is measured over the quality expected without examples, which does not depend on the cap and removes the
difficulty of the requests. One bias remains: where a cap changes which requests are offloaded, their quality is of those
requests only.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field

RUNGS = (0, 1, 2, 3, 5, 8)
DEFAULT = 5
_FORMAT = "understudy example counts 1"
_WORST_VARIANCE = 0.25
"""Largest variance of a value between 0 and 1."""
_MAX_WEIGHT = 50.0
"""Largest inverse probability: one outlier must not move a rung."""


class BadCounts(ValueError):
    """The bytes are not an artifact of this kind; the message says why. The caller then uses the default."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """How caps are explored and evidence is weighed."""

    default: int = DEFAULT
    """The cap until another one is proved better; one of RUNGS."""
    gain_per_ktok: float = 0.0
    """Price of a thousand prompt tokens, in quality."""
    explore_share: float = 0.05
    """Share of requests that get a neighbouring cap."""
    strength: float = 50.0
    """Pseudo-observations per rung at the mean of all rungs."""
    doubt: float = 0.01
    """Quality that each rung away from the default is assumed to be worse."""
    caution: float = 1.0
    """Standard errors by which a rung must be better than the default."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One request that was answered while examples were allowed, and the quality of its answer."""

    engine: str
    most: int
    """The cap in force, one of RUNGS; not the number of examples sent."""
    quality: float
    """Quality of the answer, 0 to 1."""
    quality_alone: float
    """Expected quality without examples, 0 to 1, before anything was sent."""
    tokens: int
    """Tokens that the examples added to the prompt."""
    probability: float
    """Probability of this cap times that of observing the outcome; above 0."""
    at_s: float


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of one rung of one engine, weighted by inverse probability and decayed by age."""

    weight: float = 0.0
    weight_squares: float = 0.0
    """Decayed once, so that weight**2 / weight_squares is the effective number of observations."""
    gain: float = 0.0
    gain_squares: float = 0.0
    quality: float = 0.0
    tokens: float = 0.0
    observations: float = 0.0
    """Number of observations, unweighted."""

    @property
    def worth_of(self) -> float:
        """Effective number of observations (Kish 1965, section 11.7)."""
        return self.weight**2 / self.weight_squares if self.weight_squares > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Count:
    """A cap drawn for one request."""

    most: int
    probability: float
    explored: bool
    """Whether it differs from the best known one."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The caps of one engine with their probabilities. Make it once per artifact: drawing takes a microsecond."""

    best: int
    """The best known cap, in force unless another one is explored."""
    probabilities: Mapping[int, float]
    """By cap; they sum to 1."""
    values: Mapping[int, float]
    """By cap: gain less the price of tokens, shrunk, before caution. For display."""

    def drawn(self, rng: random.Random, at_most: int | None = None) -> Count:
        """The cap for one request. `at_most` is the client's own limit; probabilities are of the limited cap."""
        limit = RUNGS[-1] if at_most is None else max(0, at_most)
        by_cap: dict[int, float] = {}
        for cap, probability in self.probabilities.items():
            by_cap[min(cap, limit)] = by_cap.get(min(cap, limit), 0.0) + probability
        (most,) = rng.choices(list(by_cap), list(by_cap.values()))
        return Count(most, by_cap[most], most != min(self.best, limit))


@dataclass(frozen=True, slots=True)
class ExampleCounts:
    """The sums of every engine, rung by rung. Immutable; `learnt` makes one, `from_bytes` reads one."""

    engines: Mapping[str, tuple[Sums, ...]] = field(default_factory=dict)
    """By engine, one entry per rung of RUNGS."""

    def ladder(self, engine: str, knobs: Knobs) -> Ladder:
        """The caps of an engine; the default is best for an unknown one. Raises ValueError for invalid knobs."""
        if knobs.default not in RUNGS:
            raise ValueError(f"a default of {knobs.default} examples: one of {RUNGS} is right")
        if not 0.0 <= knobs.explore_share <= 1.0:
            raise ValueError(f"an explore_share of {knobs.explore_share}: between 0 and 1 is right")
        values, proved = _values(self.engines.get(engine, (Sums(),) * len(RUNGS)), knobs)
        place = max(range(len(RUNGS)), key=lambda i: (proved[i], RUNGS[i] == knobs.default))
        beside = [i for i in (place - 1, place + 1) if 0 <= i < len(RUNGS)]
        probabilities = {RUNGS[place]: 1.0 - knobs.explore_share}
        if knobs.explore_share > 0.0:
            probabilities |= {RUNGS[i]: knobs.explore_share / len(beside) for i in beside}
        return Ladder(RUNGS[place], probabilities, dict(zip(RUNGS, values, strict=True)))

    def to_bytes(self) -> bytes:
        """JSON; the same bytes for the same content."""
        engines = {name: [astuple(sums) for sums in rungs] for name, rungs in self.engines.items()}
        return json.dumps({"format": _FORMAT, "rungs": RUNGS, "engines": engines}, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ExampleCounts:
        """Reads what `to_bytes` returned. Raises BadCounts for anything else."""
        try:
            read = json.loads(data)
        except ValueError as error:
            raise BadCounts(f"not JSON: {type(error).__name__}") from None
        if not isinstance(read, dict) or read.get("format") != _FORMAT:
            raise BadCounts(f"not of the format {_FORMAT!r}")
        if read.get("rungs") != list(RUNGS):
            raise BadCounts(f"made for other numbers of examples: {RUNGS} is right")
        engines = read.get("engines")
        if not isinstance(engines, dict):
            raise BadCounts("without engines")
        return cls({name: _read_rungs(name, rungs) for name, rungs in engines.items()})


def learnt(rows: Iterable[Observed], *, now_s: float, half_life_s: float = 7 * 86_400.0) -> ExampleCounts:
    """Sums the observations; one that is `half_life_s` old counts half.

    Raises ValueError for rows that cannot be (a cap off the ladder, a probability or quality out of range), since they
    come from our own log.
    """
    engines: dict[str, list[list[float]]] = {}
    for row in rows:
        if row.most not in RUNGS or not 0.0 < row.probability <= 1.0 or not 0.0 <= row.quality <= 1.0:
            raise ValueError(
                f"an observation of cap {row.most}, probability {row.probability}, quality {row.quality}: "
                f"a cap in {RUNGS}, a probability above 0 and at most 1, and a quality in 0 to 1 are right"
            )
        fresh = 0.5 ** (max(0.0, now_s - row.at_s) / half_life_s)
        weight = min(1.0 / row.probability, _MAX_WEIGHT)
        gain = row.quality - row.quality_alone
        sums = engines.setdefault(row.engine, [[0.0] * 7 for _ in RUNGS])[RUNGS.index(row.most)]
        for place, value in enumerate((1.0, weight, gain, gain * gain, row.quality, row.tokens)):
            sums[place] += weight * fresh * value
        sums[-1] += 1
    return ExampleCounts({name: tuple(Sums(*sums) for sums in rungs) for name, rungs in engines.items()})


def _values(rungs: tuple[Sums, ...], knobs: Knobs) -> tuple[list[float], list[float]]:
    """Each rung's value shrunk towards the mean of all, and the same less its uncertainty."""

    def net(sums: Sums) -> float:
        return (
            (sums.gain - sums.tokens * knobs.gain_per_ktok / 1000) / sums.weight if sums.weight > 0 else 0.0
        )

    evidence = sum(sums.worth_of for sums in rungs)
    common = sum(sums.worth_of * net(sums) for sums in rungs) / evidence if evidence > 0 else 0.0
    spread = sum(sums.worth_of * _variance(sums) for sums in rungs)
    variance = (spread + knobs.strength * _WORST_VARIANCE) / (evidence + knobs.strength or 1.0)
    home = RUNGS.index(knobs.default)
    known = [max(sums.worth_of + knobs.strength, 1.0) for sums in rungs]
    values = [
        (sums.worth_of * net(sums) + knobs.strength * (common - knobs.doubt * abs(place - home)))
        / known[place]
        for place, sums in enumerate(rungs)
    ]
    errors = [
        0.0 if n == home else math.sqrt(variance / known[n] + variance / known[home])
        for n in range(len(rungs))
    ]
    return values, [value - knobs.caution * error for value, error in zip(values, errors, strict=True)]


def _variance(sums: Sums) -> float:
    mean = sums.gain / sums.weight if sums.weight > 0 else 0.0
    return max(0.0, sums.gain_squares / sums.weight - mean * mean) if sums.weight > 0 else 0.0


def _read_rungs(name: str, rungs: object) -> tuple[Sums, ...]:
    if not isinstance(rungs, list) or len(rungs) != len(RUNGS):
        raise BadCounts(f"engine {name!r}: {len(RUNGS)} rungs are right")
    return tuple(_read_sums(name, row) for row in rungs)


def _read_sums(name: str, row: object) -> Sums:
    numbers = row if isinstance(row, list) else []
    if len(numbers) != 7 or not all(type(n) in (int, float) and math.isfinite(n) for n in numbers):
        raise BadCounts(f"engine {name!r}: a rung is seven finite numbers")
    sums = Sums(*map(float, numbers))
    bounded = 0.0 <= sums.quality <= sums.weight * (1 + 1e-9) and abs(sums.gain) <= sums.weight * (1 + 1e-9)
    if min(sums.weight, sums.weight_squares, sums.gain_squares, sums.tokens) < 0 or not bounded:
        raise BadCounts(f"engine {name!r}: sums that no observations add up to")
    return sums
