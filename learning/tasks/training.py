"""Trains a student on labelled inputs: multinomial logistic regression, nearest centroids, or a small network, as a
hold-out prefers.

They read an input's embedding and, but for the centroids, its hashed columns (router.tasks.features), scaled by how rare
each is among the inputs that are trained on (inverse document frequency). Probabilities are calibrated by a temperature on
inputs held out (Guo et al., 2017), and the whole is written as one ONNX model, which router.tasks.student opens. Imports
scikit-learn.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from learning.learned.learner import Trained
from learning.tasks.network import Layers, written
from learning.training.comparison import comparison
from router.tasks import features
from router.tasks.features import COLUMNS, Hashed
from router.tasks.form import Form, normalised
from router.tasks.student import Declared, Student, StudentBroken, met_bits

if TYPE_CHECKING:
    import numpy.typing as npt

    from store.records import Vector

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

Kind = Literal["logistic", "centroid", "mlp"]
KINDS: tuple[Kind, ...] = ("logistic", "centroid", "mlp")

_FEWEST_OF_A_LABEL = 2
"""A label that the teacher gave once may be a slip."""
_HELD_OUT, _MOST_HELD_OUT = 0.2, 1000
_FOLDED_BELOW, _FOLDS = 500, 5
"""Below so many inputs each is held out once, in turn."""
_STRENGTHS = (1.0, 5.0, 25.0)
"""Inverse strengths of the logistic regression's L2 penalty: the next is tried while the last was best."""
_SHRUNK = 1.0
"""Inputs that the mean of all counts as in each label's centroid."""
_LOG_TEMPERATURES = (-6.0, 3.0)
"""Centroids' logits are half squared distances on a sphere, which differ by hundredths: 0.01 to 0.04 suits them."""
_FITTED_FROM = 10
"""Inputs of a label, on average, from which something else than centroids is tried: that has hundreds of weights per label,
and takes ten times as long or more."""
_DECAY = 0.1
"""The decay of the network's weights."""
_LEAST_SOFT = 0.01
_NEVER = -20.0
"""The logit of a label of which every input is held out."""
_HIDDEN, _NETWORK_COLUMNS, _BATCH = 32, 4096, 64
_ROUNDS, _UPDATES, _WARM = 15, 200, 1 / 3
"""A network sees each input so often, or more where that makes too few updates; a third as often from a warm start."""
_TURNED_BELOW, _TURNED_FROM_LABELS = 1_500, 5
"""Rows up to which, and labels from which, a logistic regression is fitted in the rows' own space: with 77 labels that takes
a tenth of the time."""
_SAMPLE = 512
"""Trained inputs that are kept to measure the distance to; with twice as many a prediction takes a third longer."""
_UNLIKE = 0.005
"""Share of held-out inputs that may be called unlike those that were trained on."""
_SIGMAS = 1.64
"""The number of standard errors worse on the newest labels at which a version is refused."""
_FEWEST_NEWEST = 30

_hashed = lru_cache(20_000)(features.hashed)


class TooFew(ValueError):
    """There are not two labels with two inputs each."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """An input and what a teacher, or a person, says of it."""

    input: str
    vector: Vector
    """(dimensions,), of length 1."""
    label: str
    """As the teacher wrote it."""
    weight: float = 1.0
    soft: Mapping[str, float] | None = None
    """Probability of each label, where the teacher told; what it leaves out has none."""
    at_s: float = 0.0
    """Unix seconds: what is newest is what a new version is compared on."""


def faded(
    rows: Sequence[Labelled],
    *,
    half_life_labels: float = 0.0,
    half_life_s: float = 0.0,
) -> list[float]:
    """The weights of rows, oldest first, each halved per so many newer labels and per so many seconds by which it is older
    than the newest; 0 does neither. A task that rests forgets nothing."""
    age = np.arange(len(rows))[::-1] / half_life_labels if half_life_labels else np.zeros(len(rows))
    if half_life_s:
        stamps = np.array([row.at_s for row in rows])
        age = age + (stamps.max(initial=0.0) - stamps) / half_life_s
    found: list[float] = (np.array([row.weight for row in rows]) * 0.5**age).tolist()
    return found


def train(
    rows: Sequence[Labelled],
    *,
    seed: int,
    warm: bytes | None = None,
    incumbent: bytes | None = None,
    incumbent_until_s: float = 0.0,
    form: Form | None = None,
    embedding_version: str = "",
    kinds: Sequence[Kind] = KINDS,
) -> Trained:
    """Trains on `rows`; takes a second or some for thousands of them. Raises TooFew.

    `warm`: a former version, from whose network the network goes on. `incumbent`: the version in use, which was trained
    on what came until `incumbent_until_s`; a new one that is worse on what came since is not accepted. `form`: how answers
    are written.
    """
    began = time.monotonic()
    with warnings.catch_warnings():
        # A fit that stopped at its limit of iterations is judged by the hold-out like any other.
        warnings.simplefilter("ignore")
        return _Training(rows, seed, kinds, warm).run(
            began, incumbent, incumbent_until_s, form or Form(), embedding_version
        )


@dataclass(frozen=True, slots=True)
class _Recipe:
    kind: Kind
    strength: float


@dataclass(slots=True)
class _HeldOut:
    """Logits for inputs by a model that was not trained on them."""

    places: Ints
    logits: Floats
    """(places, labels)"""
    temperature: float
    losses: Floats
    """(places,): calibrated log-losses"""
    loss: float
    """Their weighted mean."""


class _Training:
    def __init__(
        self,
        rows: Sequence[Labelled],
        seed: int,
        kinds: Sequence[Kind],
        warm: bytes | None,
    ) -> None:
        from scipy.sparse import csr_matrix

        self.labels = _labels(rows)
        if len(self.labels) < 2:
            raise TooFew(
                f"{len(rows)} labelled inputs hold {len(self.labels)} labels that occur twice: two are needed"
            )
        place = {normalised(label): n for n, label in enumerate(self.labels)}
        self.rows = [row for row in rows if normalised(row.label) in place]
        self.kinds, self.seed, self.random = kinds, seed, np.random.default_rng(seed)
        self.seen: list[Hashed] = [_hashed(row.input) for row in self.rows]
        self.vectors = np.stack([row.vector for row in self.rows]).astype(np.float32)
        ends = np.cumsum([0, *(len(seen.columns) for seen in self.seen)])
        self.columns = csr_matrix(
            (
                np.concatenate([s.values for s in self.seen]),
                np.concatenate([s.columns for s in self.seen]),
                ends,
            ),
            shape=(len(self.rows), COLUMNS),
        )
        self.weights = np.array([row.weight for row in self.rows])
        self.hard = np.array([place[normalised(row.label)] for row in self.rows])
        self.targets = _targets(self.rows, place, self.hard)
        self.warm = _warm_layers(warm, self.labels) if warm is not None else None

    def run(
        self, began: float, incumbent: bytes | None, until_s: float, form: Form, embedding_version: str
    ) -> Trained:
        newest = (
            np.flatnonzero([row.at_s > until_s for row in self.rows]) if incumbent else np.zeros(0, np.int64)
        )
        folds = self._folds(newest)
        tried = self._tried(folds)
        recipe, held = _preferred(tried)
        everything = np.arange(len(self.rows))
        fitted = self._fitted(recipe, everything).tempered(held.temperature)
        declared, distance = self._declared(recipe, held, folds, form, embedding_version)
        data = written(fitted, self._sample(), declared)
        accepted, reason, compared = self._compared(held, incumbent, newest)
        probabilities = _softmax(held.logits / held.temperature)
        right = probabilities.argmax(axis=1) == self.hard[held.places]
        metrics = {
            "labels": len(self.labels),
            "inputs": len(self.rows),
            "kind": recipe.kind,
            "held_out": len(held.places),
            "accuracy": float(np.average(right, weights=self.weights[held.places])),
            "log_loss": held.loss,
            "calibration_error": calibration_error(probabilities.max(axis=1), right),
            "temperature": held.temperature,
            "tried": {f"{r.kind}/{r.strength:g}": round(h.loss, 4) for r, h in tried.items()},
            "distance": distance,
            "bytes": len(data),
            "training_s": round(time.monotonic() - began, 3),
            **compared,
        }
        return Trained(data, metrics, accepted, reason)

    # ---- holding out

    def _tried(self, folds: Sequence[Ints]) -> dict[_Recipe, _HeldOut]:
        tried: dict[_Recipe, _HeldOut] = {}
        best = float("inf")
        kinds = tuple(self.kinds)
        if "centroid" in kinds and len(self.rows) < _FITTED_FROM * len(self.labels):
            kinds = ("centroid",)
        for strength in _STRENGTHS if "logistic" in kinds else ():
            recipe = _Recipe("logistic", strength)
            tried[recipe] = self._held_out(recipe, folds)
            if tried[recipe].loss > best:
                break
            best = tried[recipe].loss
        if "centroid" in kinds:
            centroids = _Recipe("centroid", _SHRUNK)
            tried[centroids] = self._held_out(centroids, folds)
        if "mlp" in kinds:
            network = _Recipe("mlp", _DECAY)
            tried[network] = self._held_out(network, folds)
        return tried

    def _folds(self, newest: Ints) -> list[Ints]:
        """Choose what is held out, in turn: of each label its share, and with it what came since the last version."""
        shuffled = self.random.permutation(len(self.rows))
        rank = np.zeros(len(self.rows), np.int64)
        for label in range(len(self.labels)):
            of_it = shuffled[self.hard[shuffled] == label]
            # Another beginning per label, so that rare labels do not all fall into the same fold.
            rank[of_it] = np.arange(len(of_it)) + label
        if len(self.rows) < _FOLDED_BELOW:
            return [fold for n in range(_FOLDS) if len(fold := np.flatnonzero(rank % _FOLDS == n))]
        held = np.flatnonzero(rank % round(1 / _HELD_OUT) == 0)
        held = self.random.permutation(held)[:_MOST_HELD_OUT]
        return [np.union1d(held, newest[-_MOST_HELD_OUT:])]

    def _held_out(self, recipe: _Recipe, folds: Sequence[Ints]) -> _HeldOut:
        logits = []
        for fold in folds:
            rest = np.setdiff1d(np.arange(len(self.rows)), fold)
            logits.append(self._logits(self._fitted(recipe, rest), fold))
        return self._calibrated(np.concatenate(folds), np.concatenate(logits))

    def _calibrated(self, places: Ints, logits: Floats) -> _HeldOut:
        """With the temperature that makes the log-loss smallest."""
        from scipy.optimize import minimize_scalar

        targets, weights = self.targets[places], self.weights[places]

        def losses(log_temperature: float) -> Floats:
            found: Floats = -(targets * _log_softmax(logits / np.exp(log_temperature))).sum(axis=1)
            return found

        best = minimize_scalar(
            lambda t: np.average(losses(t), weights=weights), bounds=_LOG_TEMPERATURES, method="bounded"
        )
        return _HeldOut(places, logits, float(np.exp(best.x)), losses(best.x), float(best.fun))

    # ---- fitting

    def _fitted(self, recipe: _Recipe, places: Ints) -> Layers:
        """Trained on the rows at these places; columns' scales are in its weights."""
        scales = self._scales(places)
        if recipe.kind == "logistic":
            return self._logistic(recipe.strength, places, scales)
        if recipe.kind == "centroid":
            return self._centroids(recipe.strength, places)
        return self._network(places, scales)

    def _scales(self, places: Ints) -> npt.NDArray[np.float32]:
        met = np.bincount(self.columns[places].indices, minlength=COLUMNS)
        rarity = 1.0 + np.log((1 + len(places)) / (1 + met))
        return np.asarray(0.25 * rarity, np.float32)

    def _inputs(self, places: Ints, chosen: Ints, scales: npt.NDArray[np.float32]) -> Any:
        """(places, chosen columns and embedding), sparse."""
        from scipy.sparse import csr_matrix, diags, hstack

        columns = self.columns[places][:, chosen] @ diags(scales[chosen])
        return hstack([columns, csr_matrix(self.vectors[places])], format="csr").astype(np.float32)

    def _logistic(self, strength: float, places: Ints, scales: npt.NDArray[np.float32]) -> Layers:
        from sklearn.linear_model import LogisticRegression

        # The others' weights would stay at nothing, and take time.
        met = np.unique(self.columns[places].indices)
        inputs = self._inputs(places, met, scales)
        rows, labels, weights = self._expanded(places)
        model = LogisticRegression(C=strength, max_iter=100, tol=1e-3)
        few = len(places) <= _TURNED_BELOW and len(self.labels) >= _TURNED_FROM_LABELS
        turned, back = _turned(inputs, len(met)) if few else (inputs, None)
        model.fit(turned if len(rows) == len(places) else turned[rows], labels, weights)
        coefficients, biases = model.coef_, model.intercept_
        if back is not None:
            coefficients = (inputs.T @ (back @ coefficients.T)).T
        if len(model.classes_) == 2:
            coefficients, biases = np.vstack([0 * coefficients, coefficients]), np.array([0.0, biases[0]])
        of_columns = np.zeros((COLUMNS, len(self.labels)))
        of_columns[np.ix_(met, model.classes_)] = coefficients[:, : len(met)].T * scales[met, None]
        of_vector = np.zeros((self.vectors.shape[1], len(self.labels)))
        of_vector[:, model.classes_] = coefficients[:, len(met) :].T
        bias = np.full(len(self.labels), _NEVER)
        bias[model.classes_] = biases
        return Layers(of_columns, of_vector, bias)

    def _centroids(self, shrunk: float, places: Ints) -> Layers:
        """Half the negative squared distance to each label's mean embedding, shrunk towards the mean of all: with many
        labels and few inputs of each there is little else to fit (Tibshirani et al., 2002; Snell et al., 2017)."""
        rows, labels, weights = self._expanded(places)
        vectors = self.vectors[places][rows] * weights[:, None]
        counts = np.bincount(labels, weights, len(self.labels))[:, None]
        sums = np.zeros((len(self.labels), self.vectors.shape[1]))
        np.add.at(sums, labels, vectors)
        centroids = (sums + shrunk * vectors.sum(axis=0) / weights.sum()) / (counts + shrunk)
        bias = np.where(counts[:, 0] > 0, -np.square(centroids).sum(axis=1) / 2, _NEVER)
        return Layers(np.zeros((COLUMNS, len(self.labels))), centroids.T, bias)

    def _network(self, places: Ints, scales: npt.NDArray[np.float32]) -> Layers:
        """Over the embedding and those columns that matter most to a logistic regression."""
        from sklearn.neural_network import MLPClassifier

        weighty = np.square(self._logistic(_STRENGTHS[0], places, scales).of_columns).sum(axis=1)
        chosen = np.sort(np.argpartition(-weighty, _NETWORK_COLUMNS)[:_NETWORK_COLUMNS])
        inputs = self._inputs(places, chosen, scales)
        rows, labels, weights = self._expanded(places)
        model = MLPClassifier(
            (_HIDDEN,),
            alpha=_DECAY,
            batch_size=min(_BATCH, len(rows)),
            learning_rate_init=2e-3,
            random_state=self.seed,
        )
        classes, first = np.unique(labels, return_index=True)
        if self.warm is not None:
            model.set_params(warm_start=True, max_iter=1).fit(inputs[rows[first]], labels[first])
            self.warm.give_to(model, chosen, scales, classes)
        rounds = max(_ROUNDS, _UPDATES * _BATCH / len(rows)) * (1.0 if self.warm is None else _WARM)
        model.set_params(max_iter=round(rounds))
        model.fit(inputs[rows], labels, sample_weight=weights)
        (inner, outer), (inner_bias, outer_bias) = model.coefs_, model.intercepts_
        if len(classes) == 2:
            outer, outer_bias = np.hstack([0 * outer, outer]), np.array([0.0, outer_bias[0]])
        of_columns = np.zeros((COLUMNS, _HIDDEN))
        of_columns[chosen] = inner[:_NETWORK_COLUMNS] * scales[chosen, None]
        bias = np.full(len(self.labels), _NEVER)
        last = np.zeros((_HIDDEN, len(self.labels)))
        last[:, classes], bias[classes] = outer, outer_bias
        return Layers(of_columns, inner[_NETWORK_COLUMNS:], inner_bias, last, bias)

    def _expanded(self, places: Ints) -> tuple[Ints, Ints, Floats]:
        """Rows of `places`, labels and weights: a row per label that a soft label names."""
        targets = self.targets[places]
        rows, labels = np.nonzero(targets >= _LEAST_SOFT)
        return rows, labels, targets[rows, labels] * self.weights[places][rows]

    def _logits(self, layers: Layers, places: Ints) -> Floats:
        return layers.logits(self.columns[places], self.vectors[places])

    # ---- what it may answer, and whether it is good enough

    def _sample(self, among: Ints | None = None) -> npt.NDArray[np.float32]:
        places = np.arange(len(self.rows)) if among is None else among
        drawn = np.random.default_rng(self.seed).permutation(places)[:_SAMPLE]
        found: npt.NDArray[np.float32] = self.vectors[np.sort(drawn)]
        return found

    def _declared(
        self, recipe: _Recipe, held: _HeldOut, folds: Sequence[Ints], form: Form, embedding_version: str
    ) -> tuple[Declared, float]:
        """Return the model's declaration, and the median distance of held-out inputs to those that were trained on."""
        distances, met = [], []
        for fold in folds:
            rest = np.setdiff1d(np.arange(len(self.rows)), fold)
            distances.append(1.0 - (self.vectors[fold] @ self._sample(rest).T).max(axis=1))
            known = np.zeros(features.TRIGRAMS, np.bool_)
            known[np.concatenate([self.seen[place].trigrams for place in rest])] = True
            met += [float(known[self.seen[place].trigrams].mean()) for place in fold]
        lengths = [len(row.input) for row in self.rows]
        far = np.concatenate(distances)
        declared = Declared(
            labels=self.labels,
            form=form,
            embedding_version=embedding_version,
            kind=recipe.kind,
            temperature=held.temperature,
            shortest=min(lengths),
            longest=max(lengths),
            farthest=float(np.quantile(far, 1.0 - _UNLIKE)),
            least_met=float(np.quantile(met, _UNLIKE)),
            met=met_bits([seen.trigrams for seen in self.seen]),
        )
        return declared, float(np.median(far))

    def _compared(
        self, held: _HeldOut, incumbent: bytes | None, newest: Ints
    ) -> tuple[bool, str, dict[str, Any]]:
        """By what both say of the newest inputs, on which neither was trained."""
        if incumbent is None:
            return True, "it is the first version", {}
        among = np.isin(held.places, newest)
        places = held.places[among]
        if len(places) < _FEWEST_NEWEST:
            return True, f"only {len(places)} labels are new: too few to compare by", {"newest": len(places)}
        try:
            before = Student.open(incumbent)
            said = [
                before.predict(self.rows[p].input, self.vectors[p], 0, self.seen[p]).label for p in places
            ]
        except StudentBroken as broken:
            return True, f"the version in use is broken: {broken}", {}
        mine = held.logits[among].argmax(axis=1) == self.hard[places]
        theirs = np.array(
            [
                normalised(s) == normalised(self.labels[self.hard[p]])
                for s, p in zip(said, places, strict=True)
            ]
        )
        difference = mine.astype(float) - theirs
        error = float(difference.std() / np.sqrt(len(places)))
        accepted = float(difference.mean()) >= -_SIGMAS * error
        figures = {
            "newest": len(places),
            "newest_accuracy": float(mine.mean()),
            "newest_accuracy_before": float(theirs.mean()),
            "comparison": comparison(
                "agreement", theirs.astype(np.float64), mine.astype(np.float64), with_built_in=False
            ),
        }
        told = f"{mine.mean():.3f} of the {len(places)} newest labels right, the version in use {theirs.mean():.3f}"
        return accepted, told, figures


def _turned(inputs: Any, sparse: int) -> tuple[Floats, Floats]:
    """The rows in coordinates of the space that they span, (rows, rows), and what leads back: the best weights lie in that
    space, and an L2 penalty does not see a rotation. So fewer rows than columns are fitted in as many numbers as rows.
    The first `sparse` columns are multiplied as a sparse matrix, the rest, which have no zeros, as a dense one."""
    columns, embeddings = inputs[:, :sparse], inputs[:, sparse:].toarray()
    products = (columns @ columns.T).toarray() + embeddings @ embeddings.T
    values, vectors = np.linalg.eigh(products.astype(np.float64))
    kept = values > values.max() * 1e-10
    roots = np.sqrt(values[kept])
    return vectors[:, kept] * roots, vectors[:, kept] / roots


def calibration_error(confidences: Floats, right: npt.NDArray[np.bool_], bins: int = 10) -> float:
    """Expected calibration error: the mean gap between confidence and accuracy in bins of confidence (Naeini, 2015)."""
    placed = np.minimum((confidences * bins).astype(int), bins - 1)
    gaps = [
        (placed == n).mean() * abs(confidences[placed == n].mean() - right[placed == n].mean())
        for n in np.unique(placed)
    ]
    return float(sum(gaps))


def _preferred(tried: Mapping[_Recipe, _HeldOut]) -> tuple[_Recipe, _HeldOut]:
    """The one with the smallest loss; a network, which is larger and slower, only where that is more than chance."""
    ranked = sorted(tried.items(), key=lambda pair: pair[1].loss)
    recipe, best = ranked[0]
    simpler = next((pair for pair in ranked if pair[0].kind != "mlp"), None)
    if recipe.kind != "mlp" or simpler is None:
        return recipe, best
    gained = simpler[1].losses - best.losses
    return ranked[0] if gained.mean() > gained.std() / np.sqrt(len(gained)) else simpler


def _labels(rows: Sequence[Labelled]) -> tuple[str, ...]:
    """Labels that occur often enough, each as it is written most, in a fixed order."""
    written: dict[str, dict[str, int]] = {}
    for row in rows:
        of_it = written.setdefault(normalised(row.label), {})
        of_it[row.label] = of_it.get(row.label, 0) + 1
    often = {
        plain: ways for plain, ways in sorted(written.items()) if sum(ways.values()) >= _FEWEST_OF_A_LABEL
    }
    return tuple(max(ways, key=lambda way: ways[way]) for ways in often.values())


def _targets(rows: Sequence[Labelled], place: Mapping[str, int], hard: Ints) -> Floats:
    """(rows, labels): probabilities that the teacher told, or all on its label."""
    targets = np.zeros((len(rows), len(place)))
    targets[np.arange(len(rows)), hard] = 1.0
    for n, row in enumerate(rows):
        if row.soft:
            told = np.zeros(len(place))
            for label, probability in row.soft.items():
                if (found := place.get(normalised(label))) is not None and probability >= _LEAST_SOFT:
                    told[found] += probability
            if told.sum() > 0:
                targets[n] = told / told.sum()
    return targets


def _warm_layers(data: bytes, labels: Sequence[str]) -> Layers | None:
    """The network of a former version, with a column per label of now; None if it is none, or broken."""
    try:
        declared = Student.open(data).declared
    except StudentBroken:
        return None
    if declared.kind != "mlp":
        return None
    return Layers.read(data).relabelled(declared, labels)


def _log_softmax(logits: Floats) -> Floats:
    shifted: Floats = logits - logits.max(axis=1, keepdims=True)
    logs: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logs


def _softmax(logits: Floats) -> Floats:
    found: Floats = np.exp(_log_softmax(logits))
    return found


def fitted(rows: Sequence[Labelled], *, seed: int, strength: float = 5.0) -> tuple[tuple[str, ...], Layers]:
    """The labels and the calibrated layers of one logistic regression or of centroids, without a search for the best recipe
    and without an export: for benchmarks, which train hundreds. Raises TooFew."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        training = _Training(rows, seed, ("logistic",), None)
        folds = training._folds(np.zeros(0, np.int64))
        recipes = [_Recipe("logistic", strength), _Recipe("centroid", _SHRUNK)]
        recipe, held = _preferred({each: training._held_out(each, folds[:3]) for each in recipes})
        return training.labels, training._fitted(recipe, np.arange(len(training.rows))).tempered(
            held.temperature
        )
