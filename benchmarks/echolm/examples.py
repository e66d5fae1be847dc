"""The simulated bank of examples: what each does for a request, what a proxy model says of it, what a set comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.echolm.paper import GEMMA
from benchmarks.echolm.world import (
    CURVES,
    DIMENSIONS,
    FITS,
    PROXY_CORRELATION,
    TOPIC_VARIANCE,
    Query,
    World,
    win_rate,
)
from router.examples.combiner import Combination, combine, with_worths
from router.examples.set_quality import SetQuality
from router.plan import Candidate
from store.records import Example

SAME_ASPECT, OTHER_ASPECT, SAME_DATASET = 1.0, 0.4, 0.1
"""How well an example fits a request: of its topic and aspect, of its topic, of its data set."""
ONE_HELPS = 0.5
"""Share of what examples can do at all that one perfect example does: several have diminishing returns (§2.3, Figure 4)."""
LEAST_HARM = 0.5
"""Points of the score at stake with poor examples, also where good ones help little."""
NEAREST = 20
MOST, BUDGET_TOKENS = 5, 2000
"""Examples to send: the paper's five; and their tokens."""
STALE_POINTS = 0.5
LEAST_GAIN = 0.003
"""Quality that each further example must add."""


class Scales(NamedTuple):
    """What examples can do, per data set."""

    help: tuple[float, ...]
    """Points of the score that perfect examples add."""
    gain_deviation: tuple[float, ...]
    """Of the gains of the nearest candidates: what the proxy's error is measured in."""
    proxy_correlation: float = PROXY_CORRELATION


@dataclass(frozen=True, slots=True)
class Seen:
    """A request's nearest examples: what a router may use, and what each truly is."""

    near: tuple[Candidate, ...]
    """Nearest first, scored by the proxy."""
    fits: npt.NDArray[np.float64]
    """By place in `near`, hidden: -1 (harms) to 1."""


class Bank:
    """Past requests with the large engine's answers. Searched exactly."""

    def __init__(self, scales: Scales, seed: int, room: int) -> None:
        self._scales = scales
        self._seed = seed
        self._vectors = np.zeros((room, DIMENSIONS), np.float32)
        self._facts = np.zeros((room, 4), np.int64)
        """Data set, topic, aspect, whether the answer is good."""
        self._examples: list[Example] = []

    def fork(self) -> Bank:
        """One that holds the same and grows by itself."""
        twin = Bank(self._scales, self._seed, 0)
        twin._vectors, twin._facts = self._vectors.copy(), self._facts.copy()
        twin._examples = list(self._examples)
        return twin

    def __len__(self) -> int:
        return len(self._examples)

    def add(self, query: Query) -> None:
        """The large engine answered it. A full bank takes no more."""
        at = len(self._examples)
        if at == len(self._vectors):
            return
        self._vectors[at] = query.vector
        self._facts[at] = query.dataset, query.topic, query.aspect, query.answer_is_good
        # Texts are made up: they only have to be as long as they say, and no two the same.
        text = f"{at} " + "x" * (4 * min(query.tokens_in, 200))
        answer = f"{at} " + "y" * (4 * query.tokens_out)
        self._examples.append(Example(at, at, "", "", text, answer, "gemma-2-27b", 0.0))

    def look(self, query: Query) -> Seen:
        """The nearest, and what the proxy says of each: the true expected gain and noise, shrunk as a trained model does."""
        count = len(self._examples)
        if not count:
            return Seen((), np.zeros(0))
        cosines = self._vectors[:count] @ query.vector
        most = min(NEAREST, count)
        found = np.argpartition(-cosines, most - 1)[:most]
        found = found[np.argsort(-cosines[found])]
        fits = self._fits(query, found)
        gains = self.expected_gains(query, fits)
        noise = np.random.default_rng([self._seed, query.id]).standard_normal(most)
        r2 = self._scales.proxy_correlation**2
        error = self._scales.gain_deviation[query.dataset] * (1 / r2 - 1) ** 0.5
        told = gains.mean() + r2 * (gains - gains.mean() + error * noise)
        near = tuple(
            Candidate(self._examples[i], float(cosines[i]), vector=self._vectors[i], gain=float(g))
            for i, g in zip(found, told, strict=True)
        )
        return Seen(near, fits)

    def expected_gains(self, query: Query, fits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Of each example by itself, in quality, as far as topic and example tell."""
        curve, base = CURVES[query.dataset], query.topic_score
        full = self._scales.help[query.dataset]
        alone = np.where(fits > 0, full * ONE_HELPS * fits, max(full, LEAST_HARM) * ONE_HELPS * fits)
        return np.asarray(curve(base + alone) - curve(base))

    def shift(self, query: Query, fits: Sequence[float], *, receptive: float | None = None) -> float:
        """What a set of examples does to the score: helpers share what there is to help, harm adds up to a limit."""
        full = self._scales.help[query.dataset]
        missed, harm = 1.0, 0.0
        for fit in fits:
            if fit > 0:
                missed *= 1 - ONE_HELPS * fit
            else:
                harm -= ONE_HELPS * fit
        strength = query.receptive if receptive is None else receptive
        return strength * full * (1 - missed) - max(full, LEAST_HARM) * min(1.0, harm)

    def _fits(self, query: Query, found: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        dataset, topic, aspect, good = self._facts[found].T
        near = (dataset == query.dataset) & (topic == query.topic) & (topic >= 0)
        fit = np.where(dataset == query.dataset, SAME_DATASET, 0.0)
        fit = np.where(near, np.where(aspect == query.aspect, SAME_ASPECT, OTHER_ASPECT), fit)
        return np.where(good == 1, fit, -(0.2 + 0.4 * fit))


def put_together(seen: Seen, quality_alone: float) -> Combination:
    """The gateway's own combiner on what the proxy said: one example that helps is enough."""
    to_mend = max(1e-4, 1.0 - quality_alone)
    worths = [min(1.0, max(0.0, (c.gain or 0.0) / to_mend)) for c in seen.near]
    quality = SetQuality(quality_alone, one=to_mend, vote=0.0, displaced=0.0, each=LEAST_GAIN)
    scored = with_worths(seen.near, worths)
    return combine(scored, quality=quality, most=MOST, budget_tokens=BUDGET_TOKENS)


def fits_of(seen: Seen, chosen: Sequence[Candidate]) -> list[float]:
    """What the chosen truly are."""
    place = {c.example.id: i for i, c in enumerate(seen.near)}
    return [float(seen.fits[place[c.example.id]]) for c in chosen]


def quality_alone(query: Query) -> float:
    """What a trained scorer expects of the small engine without examples: it knows as much as the classifier."""
    return float(CURVES[query.dataset](query.told_score))


def stale_quality(query: Query) -> float:
    """What a scorer expects that is STALE_POINTS too hopeful on average, and knows nothing of data sets and topics."""
    mean = sum(fit.mean for fit in FITS) / len(FITS)
    return float(CURVES[query.dataset](mean + STALE_POINTS))


def calibrated(
    requests: int = 1500, bank: int = 3000, rounds: int = 9, *, proxy_correlation: float = PROXY_CORRELATION
) -> Scales:
    """Scales at which the win rate with examples, everything sent to the small engine, is Table 5's. A world of its own.

    By bisection on every data set at once. What luck can be taken out is: win rates are expected ones given topic and
    examples, and they are compared with the same requests' without examples.
    """
    world = World(seed=0)
    stored = [world.query() for _ in range(bank)]
    asked = [world.query() for _ in range(requests)]
    low, high = np.zeros(len(GEMMA)), np.full(len(GEMMA), 8.0)
    deviation = [0.05] * len(GEMMA)
    for _ in range(rounds):
        middle = (low + high) / 2
        shelf = Bank(Scales(tuple(middle), tuple(deviation), proxy_correlation), 0, bank)
        for query in stored:
            shelf.add(query)
        lifted: list[list[float]] = [[] for _ in GEMMA]
        gains: list[list[float]] = [[] for _ in GEMMA]
        for query in asked:
            seen = shelf.look(query)
            gains[query.dataset].extend(shelf.expected_gains(query, seen.fits))
            chosen = put_together(seen, quality_alone(query)).chosen
            spread = FITS[query.dataset].deviation * (1 - TOPIC_VARIANCE) ** 0.5
            moved = query.topic_score + shelf.shift(query, fits_of(seen, chosen), receptive=1.0)
            lifted[query.dataset].append(win_rate(moved, spread) - win_rate(query.topic_score, spread))
        deviation = [float(np.std(g)) for g in gains]
        for i, dataset in enumerate(GEMMA):
            enough = float(np.mean(lifted[i])) > dataset.wins_with - dataset.wins_alone
            low[i], high[i] = (low[i], middle[i]) if enough else (middle[i], high[i])
    return Scales(tuple((low + high) / 2), tuple(deviation), proxy_correlation)
