"""Off-policy estimators: what another policy would have brought, from this one's log. IPS, self-normalised IPS, doubly
robust.

Each request's chosen action is weighted by how much likelier the other policy is to choose it. That is unbiased as long as
the log gave a chance to every action that the other policy takes; the share of the other policy without such a chance is
reported as `unsupported`. Where a coin decides whether quality becomes known (judging is sampled), its probability
counts too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from learning.evaluation.intervals import Interval, Ratio, bootstrap, dispersion, effective_samples, widened

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Method = Literal["ips", "snips", "dr"]
METHODS: tuple[Method, ...] = ("ips", "snips", "dr")


@dataclass(frozen=True, slots=True)
class Log:
    """Logged decisions: n requests, K actions. `checked_log` makes one from arrays that are not trusted."""

    probabilities: Floats
    """[n, K]: with which each action was taken; 0 if it was not available."""
    chosen: Ints
    """[n]: the column of the action taken."""
    quality: Floats
    """[n]: of the chosen action's answer, 0 to 1; nan if unknown."""
    known_probability: Floats
    """[n]: probability that the chosen action's quality became known, above 0; 1 if it always does."""
    cost_usd: Floats
    """[n]: of the chosen action."""
    latency_s: Floats
    """[n]: of the chosen action."""
    features: Floats
    """[n, d]: of the request, known before the decision; the doubly robust estimator predicts from them. d may be 0."""

    def __len__(self) -> int:
        return len(self.chosen)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One figure of a policy, with the evidence it rests on."""

    method: Method
    value: float
    interval: Interval
    requests: int
    effective_samples: float
    """Number of requests logged by the policy itself that would give as much evidence: Kish's (sum w)^2 / sum w^2, or the
    number expected from the logged probabilities if that is less, since a heavy weight that was not drawn is missing in the
    sums, not in the risk."""
    unsupported: float
    """Mean probability that the policy gives to actions which the log could not take: nothing is known of these."""
    clipped: float
    """Share of requests whose weight was clipped."""
    clipping_bias: float
    """Lower bound of the bias from clipping, for values in 0..1: the estimate is too low by at most this. 0 without it."""


def checked_log(
    probabilities: npt.ArrayLike,
    chosen: npt.ArrayLike,
    quality: npt.ArrayLike,
    known_probability: npt.ArrayLike,
    cost_usd: npt.ArrayLike,
    latency_s: npt.ArrayLike,
    features: npt.ArrayLike,
) -> Log:
    """A Log from arrays of any kind. Raises ValueError naming the array whose shape or values are impossible."""
    log = Log(
        np.asarray(probabilities, np.float64),
        np.asarray(chosen, np.int64),
        np.asarray(quality, np.float64),
        np.asarray(known_probability, np.float64),
        np.asarray(cost_usd, np.float64),
        np.asarray(latency_s, np.float64),
        np.asarray(features, np.float64),
    )
    if log.probabilities.ndim != 2 or log.features.ndim != 2 or len(log.features) != len(log.probabilities):
        raise ValueError("probabilities must be [requests, actions] and features [requests, features]")
    n, actions = log.probabilities.shape
    for name in ("chosen", "quality", "known_probability", "cost_usd", "latency_s"):
        if getattr(log, name).shape != (n,):
            raise ValueError(f"{name} has the shape {getattr(log, name).shape}; {n} requests need ({n},)")
    if n and not (log.chosen.min() >= 0 and log.chosen.max() < actions):
        raise ValueError(f"chosen holds an index outside 0..{actions - 1}")
    _check_values(log)
    return log


def _check_values(log: Log) -> None:
    if not (np.isfinite(log.probabilities).all() and (log.probabilities >= 0).all()):
        raise ValueError("probabilities must be finite and not negative")
    if not (log.probabilities[np.arange(len(log)), log.chosen] > 0).all():
        raise ValueError("an action was chosen that the log says had probability 0")
    if not ((log.known_probability > 0) & (log.known_probability <= 1)).all():
        raise ValueError("known_probability must lie above 0 and at most at 1")
    if not all(np.isfinite(each).all() for each in (log.features, log.cost_usd, log.latency_s)):
        raise ValueError("features, cost_usd and latency_s must be finite")


@dataclass(frozen=True, slots=True)
class Figure:
    """A value per request to be averaged, of the chosen action: quality, cost, or a reward."""

    values: Floats
    """[n]"""
    known: npt.NDArray[np.bool_] | None = None
    """[n]: where it became known, with `Log.known_probability`; None: always, as costs are."""
    bounds: tuple[float, float] | None = None
    """Smallest and largest possible value; estimates and intervals are kept within."""
    predicted: Floats | None = None
    """[n, K]: the result of `cross_fitted` if it is known already: it does not depend on the target."""


def estimate(
    log: Log,
    target: Floats,
    figures: Mapping[str, Figure],
    *,
    methods: tuple[Method, ...] = METHODS,
    level: float = 0.95,
    resamples: int = 1000,
    clip: float | None = None,
    seed: int = 0,
) -> dict[str, dict[Method, Estimate]]:
    """The mean of each figure had `target` decided instead, by each method.

    `target` is [n, K]: the other policy's probabilities of each action. `clip` limits weights, which makes estimates of
    positive values too low, and steadier. Each figure has its own interval, resampled by request; that all of them hold
    at once is less likely.

    ips: Horvitz & Thompson 1952, "A generalization of sampling without replacement". snips: Swaminathan & Joachims 2015,
    "The self-normalized estimator for counterfactual learning". dr: Dudik, Langford & Li 2011, "Doubly robust policy
    evaluation and learning", with the model cross-fitted, so that no request is predicted by a model that saw it. What
    goes wrong where: Saito, Aihara, Matsutani & Narita 2020, "Open Bandit Dataset and Pipeline".

    Raises ValueError for shapes that do not fit, target rows that are no distribution, or an empty log.
    """
    n, actions = log.probabilities.shape
    if n == 0:
        raise ValueError("the log holds no request: nothing can be estimated")
    if target.shape != (n, actions) or any(figure.values.shape != (n,) for figure in figures.values()):
        raise ValueError(f"the target {target.shape} or a figure does not fit a log of {(n, actions)}")
    if not (np.isfinite(target).all() and (target >= 0).all() and np.allclose(target.sum(1), 1.0, atol=1e-6)):
        raise ValueError("each row of the target must hold probabilities that sum to 1")
    weighted = {name: _weighted(log, target, figure, clip) for name, figure in figures.items()}
    parts = {
        (name, method): _ratio(method, log, target, figures[name], weighted[name], seed)
        for name in figures
        for method in methods
    }
    drawn = bootstrap(tuple(parts.values()), level=level, resamples=resamples, seed=seed)
    found: dict[str, dict[Method, Estimate]] = {name: {} for name in figures}
    unsupported = float(np.where(log.probabilities > 0, 0.0, target).sum(1).mean())
    for (name, method), (value, interval) in zip(parts, drawn, strict=True):
        how, bounds = weighted[name], figures[name].bounds
        if bounds is not None:
            value = float(np.clip(value, *bounds))
            spread = dispersion(how.values, how.weights, how.mean, bounds)
            interval = widened(interval, how.mean, how.samples, bounds, level, dispersion=spread)
        found[name][method] = Estimate(
            method, value, interval, n, how.samples, unsupported, how.clipped, how.clipping_bias
        )
    return found


def difference(
    log: Log,
    now: Floats,
    then: Floats,
    figure: Figure,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, Interval]:
    """Estimate the rise of a figure's mean had `then` decided instead of `now`: doubly robust, from the same resamples.

    Both targets are [n, K]. Narrower than two intervals beside each other, for most requests are decided alike.
    """
    ratios = [
        _ratio("dr", log, target, figure, _weighted(log, target, figure, None), seed)
        for target in (now, then)
    ]
    apart = Ratio(ratios[1].above - ratios[0].above, ratios[0].below)
    ((value, interval),) = bootstrap([apart], level=level, resamples=resamples, seed=seed)
    return value, interval


def with_prediction(log: Log, figure: Figure, seed: int = 0) -> Figure:
    """The figure with the model's predictions, so that the model is fitted once for many targets."""
    known = np.isfinite(figure.values) & (True if figure.known is None else figure.known)
    probability = np.ones(len(log)) if figure.known is None else log.known_probability
    return replace(figure, predicted=cross_fitted(log, figure.values, known, probability, seed=seed))


class _Weighted(NamedTuple):
    known: npt.NDArray[np.bool_]
    known_probability: Floats
    weights: Floats
    values: Floats
    """0 if unknown."""
    mean: float
    """Self-normalised."""
    samples: float
    clipped: float
    clipping_bias: float


def _weighted(log: Log, target: Floats, figure: Figure, clip: float | None) -> _Weighted:
    n = len(log)
    rows = np.arange(n)
    always = figure.known is None
    known = np.isfinite(figure.values) & (True if figure.known is None else figure.known)
    if always and not known.all():
        raise ValueError("a figure that is always known holds values that are not finite")
    probability = np.ones(n) if always else log.known_probability
    full = target[rows, log.chosen] / log.probabilities[rows, log.chosen] / probability
    full = np.where(known, full, 0.0)
    weights = full if clip is None else np.minimum(full, clip)
    values = np.where(known, figure.values, 0.0)
    cut = weights < full
    return _Weighted(
        known,
        probability,
        weights,
        values,
        float((weights * values).sum() / weights.sum()) if weights.any() else 0.0,
        _effective_samples(log, target, weights, probability),
        float(cut.mean()),
        -float((full - weights).mean()) if cut.any() else 0.0,
    )


def _ratio(method: Method, log: Log, target: Floats, figure: Figure, how: _Weighted, seed: int) -> Ratio:
    if method == "snips":
        return Ratio(how.weights * how.values, how.weights)
    if method == "ips":
        return Ratio(how.weights * how.values, np.ones(len(log)))
    predicted = figure.predicted
    if predicted is None:
        predicted = cross_fitted(log, figure.values, how.known, how.known_probability, seed=seed)
    left = np.where(how.known, how.values - predicted[np.arange(len(log)), log.chosen], 0.0)
    return Ratio((target * predicted).sum(1) + how.weights * left, np.ones(len(log)))


def cross_fitted(
    log: Log,
    values: Floats,
    known: npt.NDArray[np.bool_],
    known_probability: Floats,
    *,
    folds: int = 5,
    seed: int = 0,
) -> Floats:
    """[n, K]: the value of every action as predicted by models that did not see the request.

    Ridge regression on the request's features: one slope for all actions, then per action a level and a slope fitted to
    the residuals. Weighted by 1 / known_probability, so that it fits the traffic and not the judged part of it.
    """
    n, actions = log.probabilities.shape
    features = log.features
    spread = features.std(0)
    scaled = (features - features.mean(0)) / np.where(spread > 0, spread, 1.0)
    fold = np.random.default_rng(seed).permutation(n) % max(2, min(folds, n))
    predicted = np.zeros((n, actions))
    for number in range(int(fold.max()) + 1):
        inside, seen = fold == number, (fold != number) & known
        if not seen.any():
            continue
        weight = known_probability.min() / known_probability
        x, w, y, chosen = scaled[seen], weight[seen], values[seen], log.chosen[seen]
        level = _level(y, w, chosen, actions, float((w * y).sum() / w.sum()))
        slope = ridge(x, y - level[chosen], w)
        predicted[inside] = scaled[inside] @ slope[:, None]
        y = y - x @ slope
        level = _level(y, w, chosen, actions, float((w * y).sum() / w.sum()))
        predicted[inside] += level
        for action in range(actions):
            of = chosen == action
            if of.any():
                predicted[inside, action] += scaled[inside] @ ridge(x[of], y[of] - level[action], w[of])
    if known.any():
        # A linear prediction may leave the range of the values it was fitted to.
        predicted = predicted.clip(float(values[known].min()), float(values[known].max()))
    return predicted


def ridge(x: Floats, y: Floats, weight: Floats) -> Floats:
    """[d]: slopes of a weighted ridge regression without intercept, its strength by leave-one-out errors; maybe all 0.

    Leave-one-out in closed form: Allen 1974, "The relationship between variable selection and data augmentation and a
    method for prediction" (PRESS).
    """
    n, d = x.shape
    best, slopes = float((weight * y * y).sum()), np.zeros(d)
    if not d:
        return slopes
    root = np.sqrt(weight)[:, None]
    variances, directions = np.linalg.eigh((x * root).T @ (x * root))
    rotated = (x * root) @ directions
    against = rotated.T @ (root[:, 0] * y)
    for strength in n * np.array([0.01, 0.1, 0.3, 1.0, 3.0]) + d:
        shrunk = 1.0 / (np.maximum(variances, 0.0) + strength)
        leverage = (np.square(rotated) * shrunk).sum(1)
        left = (root[:, 0] * y - rotated @ (shrunk * against)) / np.maximum(1.0 - leverage, 1e-3)
        if (error := float(np.square(left).sum())) < best:
            best, slopes = error, directions @ (shrunk * against)
    return slopes


def _level(y: Floats, weight: Floats, chosen: Ints, actions: int, overall: float) -> Floats:
    """Each action's mean, shrunk towards the overall mean by the weight of one value."""
    sums = np.bincount(chosen, weight * y, actions)
    return (sums + overall) / (np.bincount(chosen, weight, actions) + 1.0)


def _effective_samples(log: Log, target: Floats, weights: Floats, known_probability: Floats) -> float:
    supported = log.probabilities > 0
    expected = np.where(supported, target**2, 0.0) / np.where(supported, log.probabilities, 1.0)
    foreseen = len(log) * float(np.where(supported, target, 0.0).sum(1).mean()) ** 2
    foreseen /= max(float((expected.sum(1) / known_probability).mean()), 1e-12)
    return min(effective_samples(weights), foreseen)


def with_estimated_known_probability(log: Log) -> Log:
    """The log with `known_probability` estimated by how often each action's quality is known.

    For feedback that users give voluntarily, with unknown probability. Valid only if, given the action, those who give
    feedback are like those who do not, which the log cannot show.
    """
    known = np.isfinite(log.quality)
    probability = np.ones(len(log))
    for action in np.unique(log.chosen):
        of = log.chosen == action
        probability[of] = max(float(known[of].mean()), 1.0 / len(log))
    return replace(log, known_probability=probability)
