"""A simulated world of requests: topics that come again, hidden difficulty, and examples that help, do nothing, or harm.

The judge's score of the small engine's answer, -3 to 3 against the large one's own, is a normal variable cut at both ends,
fitted per data set to the win rate and the mean score of Table 5. Its variance has two parts: of the topic (what a router
can learn), and of the request and the judge (what nobody sees beforehand). Examples shift the score; the shift is scaled
per data set until the win rate with examples is Table 5's. Vectors are synthetic: a direction per data set and topic, and
noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from benchmarks.echolm.paper import GEMMA, TIE_BAND
from learning.outcomes.judge import quality

Floats = npt.NDArray[np.float64]
DIMENSIONS = 64
TOPICS = 40
"""Per data set; how often each comes falls with its rank (Zipf)."""
ONE_OFFS = 0.15
"""Share of requests about nothing that ever comes again."""
ASPECTS = 3
"""Of a topic: an example of another aspect helps less, and its question is no less similar."""
TOPIC_VARIANCE = 0.3
"""Of the score, as a share of all. An assumption: the paper does not tell how predictable difficulty is."""
POOR_ANSWERS = 0.15
"""Of the large engine's answers, as examples: they harm (§4.1)."""
PROXY_CORRELATION = 0.6
"""Of the gain that the proxy model predicts with the gain there is: an assumption."""
CLASSIFIER_CORRELATION = 0.6
"""Of what a trained classifier expects of a topic with what is true of it: an assumption, for RouteLLM and our scorer."""
LENGTH_WITH = (-0.2, 0.45)
"""Log-normal: an answer given with examples, in lengths of the same answer without (Figure 16: lower P50, higher P99)."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Fit:
    """A normal variable that, cut to -3..3, has a data set's win rate and mean score without examples."""

    mean: float
    deviation: float


def win_rate(mean: float, deviation: float) -> float:
    """Of scores N(mean, deviation): wins, and half of the ties."""
    return 0.5 * (_NORMAL.cdf((mean - TIE_BAND) / deviation) + _NORMAL.cdf((mean + TIE_BAND) / deviation))


def cut_mean(mean: float, deviation: float) -> float:
    """Mean of N(mean, deviation) cut to -3..3."""
    low, high = (-3 - mean) / deviation, (3 - mean) / deviation
    inside = _NORMAL.cdf(high) - _NORMAL.cdf(low)
    middle = mean * inside + deviation * (_NORMAL.pdf(low) - _NORMAL.pdf(high))
    return middle - 3 * _NORMAL.cdf(low) + 3 * (1 - _NORMAL.cdf(high))


def fitted(wins: float, score: float) -> Fit:
    """By bisection: for each deviation the mean that gives `wins`, and the deviation at which the cut mean is `score`."""

    def mean_for(deviation: float) -> float:
        return _root(lambda mean: win_rate(mean, deviation) - wins, -8.0, 8.0)

    deviation = _root(lambda d: score - cut_mean(mean_for(d), d), 0.3, 4.0)
    return Fit(mean_for(deviation), deviation)


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2


FITS = tuple(fitted(d.wins_alone, d.score_alone) for d in GEMMA)


@dataclass(frozen=True, slots=True)
class Query:
    """A request of the simulated world. Routers look at nothing that is called hidden."""

    id: int
    dataset: int
    topic: int
    """Hidden: routers see the vector. -1: a one-off."""
    vector: npt.NDArray[np.float32]
    tokens_in: int
    tokens_out: int
    """Of the large engine's answer, and of the small one's without examples."""
    told_score: float
    """Mean score of the small engine as a classifier trained on preferences expects it: see CLASSIFIER_CORRELATION."""
    aspect: int
    """Hidden, as is all that follows. -1 for a one-off."""
    topic_score: float
    """Mean score of the small engine on this topic."""
    score: float
    """Of the small engine's answer without examples, before cutting."""
    receptive: float
    """How much examples do for it; 1 on average."""
    length_with: float
    answer_is_good: bool
    """The large engine's, as an example to others."""


class World:
    """Topics, and requests about them. Everything follows from `seed`."""

    def __init__(self, seed: int, classifier_correlation: float = CLASSIFIER_CORRELATION) -> None:
        self._known = classifier_correlation
        self._rng = np.random.default_rng([seed, 1])
        rng = self._rng
        datasets = _unit(rng.standard_normal((len(GEMMA), DIMENSIONS)))
        own = _unit(rng.standard_normal((len(GEMMA), TOPICS, DIMENSIONS)))
        self._datasets = datasets
        self._topics = _unit(math.sqrt(0.3) * datasets[:, None, :] + math.sqrt(0.7) * own)
        # Standardised, so that each data set's mean over topics is the table's in every world.
        share = 1.0 / np.arange(1, TOPICS + 1)
        self._share = share / share.sum()
        z = rng.standard_normal((len(GEMMA), TOPICS))
        z -= (z * self._share).sum(1, keepdims=True)
        self._difficulty = z / np.sqrt((z**2 * self._share).sum(1, keepdims=True))
        self._error = rng.standard_normal((len(GEMMA), TOPICS))
        """The classifier's, systematic per topic."""
        self._made = 0

    def query(self, tokens_in: int | None = None, tokens_out: int | None = None) -> Query:
        """The next request. Lengths are drawn like short instructions' unless given (a trace)."""
        rng = self._rng
        dataset = int(rng.integers(len(GEMMA)))
        one_off = rng.random() < ONE_OFFS
        topic = -1 if one_off else int(rng.choice(TOPICS, p=self._share))
        noise = rng.uniform(0.03, 0.35)
        own = _unit(rng.standard_normal(DIMENSIONS))
        if one_off:
            vector = _unit(math.sqrt(0.3) * self._datasets[dataset] + math.sqrt(0.7) * own)
            difficulty, error = map(float, rng.standard_normal(2))
        else:
            vector = _unit(math.sqrt(1 - noise) * self._topics[dataset, topic] + math.sqrt(noise) * own)
            difficulty = float(self._difficulty[dataset, topic])
            error = float(self._error[dataset, topic])
        fit = FITS[dataset]
        spread = fit.deviation * math.sqrt(TOPIC_VARIANCE)
        known = self._known
        told = known * (known * difficulty + math.sqrt(1 - known**2) * error)
        topic_score = fit.mean + spread * difficulty
        rest = fit.deviation * math.sqrt(1 - TOPIC_VARIANCE) * float(rng.standard_normal())
        lengths = rng.standard_normal(3)
        drawn_in = int(min(400, max(10, 60 * math.exp(0.7 * lengths[0]))))
        drawn_out = int(min(700, max(8, 170 * math.exp(0.6 * lengths[1]))))
        self._made += 1
        return Query(
            id=self._made,
            dataset=dataset,
            topic=topic,
            vector=vector.astype(np.float32),
            tokens_in=drawn_in if tokens_in is None else tokens_in,
            tokens_out=drawn_out if tokens_out is None else max(1, tokens_out),
            told_score=fit.mean + spread * told,
            aspect=-1 if one_off else int(rng.integers(ASPECTS)),
            topic_score=topic_score,
            score=topic_score + rest,
            receptive=float(rng.uniform(0.4, 1.6)),
            length_with=math.exp(LENGTH_WITH[0] + LENGTH_WITH[1] * float(lengths[2])),
            answer_is_good=bool(rng.random() >= POOR_ANSWERS),
        )


def cut(score: float) -> float:
    """To the judge's scale."""
    return min(3.0, max(-3.0, score))


def points(score: float) -> float:
    """1 a win, 1/2 a tie, 0 a loss."""
    return 0.5 if abs(score) <= TIE_BAND else float(score > 0)


class Curve:
    """Expected quality (learning.outcomes.judge) of the small engine by its mean score, for one data set: a table."""

    def __init__(self, fit: Fit) -> None:
        spread = fit.deviation * math.sqrt(1 - TOPIC_VARIANCE)
        steps = [_NORMAL.inv_cdf((i + 0.5) / 200) * spread for i in range(200)]
        self._at = np.linspace(-7, 7, 141)
        self._values = np.array([np.mean([quality(cut(float(m) + s)) for s in steps]) for m in self._at])

    def __call__(self, score: Floats | float) -> Floats:
        return np.interp(score, self._at, self._values)


CURVES = tuple(Curve(fit) for fit in FITS)


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float64)
