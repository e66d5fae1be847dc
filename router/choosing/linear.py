"""A linear model of quality: Vowpal Wabbit on the embedding and the features of a request, with weights per action.

Follow-the-regularized-leader (`--ftrl`: McMahan et al. 2013, "Ad Click Prediction") in a few passes: its steps shrink per
weight, so that little data moves it little. It predicts how far an action's quality is from that action's own mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
PASSES = 3
MOST_ACTIONS = 16


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
    ) -> None:
        """`names` of the context features it reads, and how each is distributed. Raises BanditMissing, BanditBroken."""
        try:
            import vowpal_wabbit_next as vw
        except ImportError as error:
            raise BanditMissing("vowpal-wabbit-next is not installed") from error
        self.names, self.mean, self.deviation = tuple(names), mean, deviation
        self.actions = list(actions)
        self._usual = list(zip(self.names, mean.tolist(), strict=True))
        self._scale = FEATURE_WEIGHT / deviation
        self._dimensions = dimensions
        self._width = dimensions + len(self.names)
        bits = max(10, math.ceil(math.log2(MOST_ACTIONS * self._width)))
        arguments = ["--ftrl", "--ftrl_alpha", str(STEP), "--noconstant", "-b", str(bits), "--quiet"]
        try:
            self._workspace = vw.Workspace(arguments, model_data=model)
        except Exception as error:
            raise BanditBroken(f"Vowpal Wabbit refused the model: {type(error).__name__}") from None
        self._label: Any = vw.SimpleLabel
        # One line for everything: freed ones never return to the system.
        self._line = vw.Example()
        self._indices: dict[str, npt.NDArray[np.uint64]] = {}

    @classmethod
    def scaled_to(cls, dimensions: int, contexts: Sequence[Mapping[str, float]]) -> Linear:
        """An untrained model that reads every feature of quality that some of `contexts` have."""
        names = sorted({name for context in contexts for name in context} - features.NOT_FOR_QUALITY)
        columns = [[c[name] for c in contexts if name in c] for name in names]
        mean = np.array([np.mean(column) for column in columns], np.float32)
        deviation = np.array([np.std(column) for column in columns], np.float32)
        # What never differed says nothing, now or later.
        deviation[deviation < 1e-6] = np.inf
        return cls(dimensions, names, mean, deviation)

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
        found = float(self._workspace.predict_one(self._asked(action, row, 0.0, 1.0)))
        if not abs(found) < 1e6:
            raise BanditInput("the model's prediction is not finite")
        return found

    def learn(self, action: str, row: Floats, difference: float, weight: float) -> None:
        """Learns that the action was better than its mean by `difference`. More than MOST_ACTIONS are not told apart."""
        if action not in self.actions:
            if len(self.actions) == MOST_ACTIONS:
                return
            self.actions.append(action)
        self._workspace.learn_one(self._asked(action, row, difference, weight))

    def model(self) -> bytes:
        """Return what Vowpal Wabbit learnt, as bytes."""
        found: bytes = self._workspace.serialize()
        return found

    def _asked(self, action: str, row: Floats, difference: float, weight: float) -> Any:
        indices = self._indices.get(action)
        if indices is None:
            first = self.actions.index(action) * self._width
            indices = self._indices[action] = np.arange(first, first + self._width, dtype=np.uint64)
        group = self._line["x"]
        group.truncate_to(0)
        group.push_many_features(indices, row)
        self._line.set_label(self._label(difference, weight))
        return self._line
