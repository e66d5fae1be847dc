"""A linear model of quality on the embedding and the features of a request, with weights per action.

Follow-the-regularized-leader (McMahan et al. 2013, "Ad Click Prediction") in a few passes: its steps shrink per weight, so
that little data moves it little. It predicts how far an action's quality is from that action's own mean. Vowpal Wabbit
computes it (`--ftrl`) where it is installed, else numpy, which finds the same weights.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from router.choosing import features
from router.choosing.bandit import BanditBroken, BanditInput, BanditMissing

if TYPE_CHECKING:
    from store.records import Vector

Floats = npt.NDArray[np.float32]
FEATURE_WEIGHT = 0.3
"""Size of one deviation of a feature beside the embedding's length of 1."""
STEP = 0.02
FIRST_SLOPE = 1.0
"""Added to the root of a weight's squared slopes, by which its step is divided: `--ftrl_beta`, this by default."""
PASSES = 3
MOST_ACTIONS = 16
VOWPAL = "vowpal-wabbit"
NUMPY = "numpy"


@functools.cache
def usual_learner() -> str:
    """Name what computes a new model on this machine: Vowpal Wabbit where it is installed, else numpy."""
    return VOWPAL if importlib.util.find_spec("vowpal_wabbit_next") is not None else NUMPY


def learner_told() -> str:
    """Tell in a clause what computes a new model here, and why."""
    if usual_learner() == VOWPAL:
        return f"{VOWPAL} (vowpal-wabbit-next is installed)"
    return f"{NUMPY} (vowpal-wabbit-next is not installed; it has no wheel for Python 3.13 and later)"


class Learner(Protocol):
    """Weights per action, by the action's number, 0 to MOST_ACTIONS - 1."""

    def predict(self, action: int, row: Floats) -> float:
        """Return the product of the row and the action's weights."""
        ...

    def learn(self, action: int, row: Floats, target: float, weight: float) -> None:
        """Move the action's weights by one step of squared error, `weight` times as steep."""
        ...

    def save(self) -> bytes:
        """Return what was learnt; the same learner is made of it again."""
        ...


class VowpalLearner:
    """Vowpal Wabbit's `--ftrl`."""

    def __init__(self, width: int, model: bytes | None) -> None:
        """`model`: what `save` returned; None for an untrained one. Raises BanditMissing, BanditBroken."""
        try:
            import vowpal_wabbit_next as vw
        except ImportError as error:
            why = "it learns with vowpal-wabbit-next, which is not installed"
            raise BanditMissing(why) from error
        self._width = width
        bits = max(10, math.ceil(math.log2(MOST_ACTIONS * width)))
        arguments = ["--ftrl", "--ftrl_alpha", str(STEP), "--noconstant", "-b", str(bits), "--quiet"]
        try:
            self._workspace = vw.Workspace(arguments, model_data=model)
        except Exception as error:
            raise BanditBroken(f"Vowpal Wabbit refused the model: {type(error).__name__}") from None
        self._label: Any = vw.SimpleLabel
        # One line for everything: freed ones never return to the system.
        self._line = vw.Example()
        self._indices: dict[int, npt.NDArray[np.uint64]] = {}

    def predict(self, action: int, row: Floats) -> float:
        """See Learner."""
        return float(self._workspace.predict_one(self._asked(action, row, 0.0, 1.0)))

    def learn(self, action: int, row: Floats, target: float, weight: float) -> None:
        """See Learner."""
        self._workspace.learn_one(self._asked(action, row, target, weight))

    def save(self) -> bytes:
        """See Learner."""
        found: bytes = self._workspace.serialize()
        return found

    def _asked(self, action: int, row: Floats, target: float, weight: float) -> Any:
        indices = self._indices.get(action)
        if indices is None:
            first = action * self._width
            indices = self._indices[action] = np.arange(first, first + self._width, dtype=np.uint64)
        group = self._line["x"]
        group.truncate_to(0)
        group.push_many_features(indices, row)
        self._line.set_label(self._label(target, weight))
        return self._line


class NumpyLearner:
    """The algorithm of `--ftrl` in numpy: the weights of Vowpal Wabbit but for rounding (tests/router/choosing)."""

    def __init__(self, width: int, model: bytes | None) -> None:
        """`model`: what `save` returned; None for an untrained one. Raises BanditBroken."""
        shape = (3, MOST_ACTIONS, width)
        # Per weight: the sum of its slopes, less what its steps regularized; the root of the sum of their squares; itself.
        self._state = np.zeros(shape, np.float32)
        if model is not None:
            if len(model) != self._state.nbytes:
                raise BanditBroken(f"the model has {len(model)} bytes; {self._state.nbytes} are needed")
            self._state[:] = np.frombuffer(model, np.float32).reshape(shape)

    def predict(self, action: int, row: Floats) -> float:
        """See Learner."""
        return float(row @ self._state[2, action])

    def learn(self, action: int, row: Floats, target: float, weight: float) -> None:
        """See Learner."""
        sums, root, weights = self._state[:, action]
        slope = row * np.float32(2.0 * weight * (float(row @ weights) - target))
        steeper = np.sqrt(root * root + slope * slope)
        sums += slope - (steeper - root) * weights / STEP
        root[:] = steeper
        weights[:] = -STEP * sums / (FIRST_SLOPE + steeper)

    def save(self) -> bytes:
        """See Learner."""
        return self._state.tobytes()


LEARNERS: dict[str, Callable[[int, bytes | None], Learner]] = {VOWPAL: VowpalLearner, NUMPY: NumpyLearner}
"""By name. Each is made of the length of a row, and of what it saved if it is not to begin anew."""


class Linear:
    """Not thread-safe: the bandit that owns it holds a lock."""

    def __init__(
        self,
        dimensions: int,
        names: Sequence[str],
        mean: Floats,
        deviation: Floats,
        actions: Iterable[str] = (),
        model: bytes | None = None,
        learner: str = "",
    ) -> None:
        """`names` of the context features it reads, and how each is distributed; `learner`: of LEARNERS, or the usual one.

        Raises BanditMissing, BanditBroken.
        """
        self.names, self.mean, self.deviation = tuple(names), mean, deviation
        self.actions = list(actions)
        self._usual = list(zip(self.names, mean.tolist(), strict=True))
        self._scale = FEATURE_WEIGHT / deviation
        self._dimensions = dimensions
        self._width = dimensions + len(self.names)
        self._learner: Learner = LEARNERS[learner or usual_learner()](self._width, model)

    @classmethod
    def scaled_to(cls, dimensions: int, contexts: Sequence[Mapping[str, float]], learner: str = "") -> Linear:
        """An untrained model that reads every feature of quality that some of `contexts` have."""
        names = sorted({name for context in contexts for name in context} - features.NOT_FOR_QUALITY)
        columns = [[c[name] for c in contexts if name in c] for name in names]
        mean = np.array([np.mean(column) for column in columns], np.float32)
        deviation = np.array([np.std(column) for column in columns], np.float32)
        # What never differed says nothing, now or later.
        deviation[deviation < 1e-6] = np.inf
        return cls(dimensions, names, mean, deviation, learner=learner)

    def row(self, vector: Vector | None, context: Mapping[str, float], likeness: float = 1.0) -> Floats:
        """Return the columns that it reads of a request; a missing embedding or feature counts as an average one.

        The lower its likeness to past requests, 0 to 1, the less the embedding counts: what is known of some subjects says
        little of others, where length and looks still tell.
        """
        row = np.zeros(self._width, np.float32)
        if vector is not None:
            row[: self._dimensions] = vector * likeness
        found = [context.get(name, usual) for name, usual in self._usual]
        row[self._dimensions :] = (np.array(found, np.float32) - self.mean) * self._scale
        return row

    def correction(self, action: str, row: Floats) -> float:
        """Return how much better than its mean the action is expected to be. Raises BanditInput."""
        if action not in self.actions:
            return 0.0
        found = self._learner.predict(self.actions.index(action), row)
        if not abs(found) < 1e6:
            raise BanditInput("the model's prediction is not finite")
        return found

    def learn(self, action: str, row: Floats, difference: float, weight: float) -> None:
        """Learns that the action was better than its mean by `difference`. More than MOST_ACTIONS are not told apart."""
        if action not in self.actions:
            if len(self.actions) == MOST_ACTIONS:
                return
            self.actions.append(action)
        self._learner.learn(self.actions.index(action), row, difference, weight)

    def model(self) -> bytes:
        """Return what was learnt, as bytes."""
        return self._learner.save()
