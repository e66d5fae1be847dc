"""Replays a quality floor beside other routing settings: what it would have let through, judgement by judgement.

The account is the one that runs (router.guarantee.floor). What an offloaded answer would have lost is drawn from judged
answers of the same action of which about as much was predicted; each replay draws its judged answers anew (the bootstrap),
so that what is not known of them shows as spread between the replays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from learning.evaluation.logged import Floats, Logged
from learning.evaluation.off_policy import Figure, with_prediction
from router.guarantee.floor import FloorSettings, QualityFloor

RUNS = 24
_ALIKE = 15
"""Judged answers, about as good by prediction, of which one is drawn."""
_LAG_S = 60.0
_LOOKS_PER_LAG = 10


@dataclass(frozen=True, slots=True)
class Floor:
    """The promise, and where its account stands when the log begins."""

    settings: FloorSettings
    start: str | None = None
    """`QualityFloor.to_json` of the account; None: a new one."""
    judged_after_s: float = 1.0
    """Seconds after a request at which its judgement arrives."""


@dataclass(frozen=True, eq=False)
class Replayed:
    """The target as the floor limits it, over several replays."""

    probabilities: Floats
    """[n, K]: mean over the replays."""
    offloaded: Floats
    """[runs]: share of requests that went to another engine than the reference."""
    expected: Floats
    """[runs, n, K] as 32-bit floats: the probabilities in each replay."""
    stopped: float
    """Share of requests that would have been offloaded but for the floor."""


def with_floor_replayed(logged: Logged, target: Floats, floor: Floor) -> Replayed:
    """The target's probabilities as the floor would have limited them.

    `target` [n, K]: before the floor, for the requests of `logged`. Takes about a tenth of a second per run and thousand
    requests.
    """
    order = np.argsort([choice.at_s for choice in logged.choices], kind="stable")
    losses = _Losses(logged)
    found = np.zeros((RUNS, *target.shape), np.float32)
    offloaded = np.zeros(RUNS)
    for run in range(RUNS):
        rng = np.random.default_rng((0, run))
        losses.draw_anew(rng)
        found[run], offloaded[run] = _one(logged, target, floor, order, losses, rng)
    reference = np.arange(len(target)), logged.reference
    mean = found.mean(0, dtype=np.float64)
    mean /= mean.sum(1, keepdims=True)
    stopped = float((mean[reference] - target[reference]).mean())
    return Replayed(mean, offloaded, found, max(0.0, stopped))


def _one(
    logged: Logged,
    target: Floats,
    floor: Floor,
    order: npt.NDArray[np.int64],
    losses: _Losses,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.float32], float]:
    """The probabilities and the share offloaded of one replay."""
    settings = floor.settings
    account = QualityFloor(settings) if floor.start is None else QualityFloor.from_json(floor.start, settings)
    at_s = np.array([choice.at_s for choice in logged.choices])
    found = np.zeros(target.shape, np.float32)
    coming: list[tuple[float, float]] = []
    offloaded, cap, before_s = 0, account.offload_cap(), float(at_s[order[0]])
    step = max(1, settings.lag_requests // _LOOKS_PER_LAG)
    for start in range(0, len(order), step):
        block = order[start : start + step]
        limited = _limited(target[block], logged.reference[block], cap)
        found[block] = limited
        taken = (limited.cumsum(1) < rng.random((len(block), 1))).sum(1).clip(max=limited.shape[1] - 1)
        away = taken != logged.reference[block]
        now_s = float(at_s[block[-1]])
        judged = away & (rng.random(len(block)) < settings.judged_share)
        coming += [
            (float(at_s[row]) + floor.judged_after_s, losses.of(int(row), int(action), rng))
            for row, action in zip(block[judged], taken[judged], strict=True)
        ]
        due = [each for each in coming if each[0] <= now_s]
        coming = [each for each in coming if each[0] > now_s]
        for when_s, loss in due:
            account.note(loss, settings.judged_share, when_s)
        account.passed(len(block), int(away.sum()))
        if now_s > before_s:
            account.keep_pace(len(block), now_s - before_s, _LAG_S)
            before_s = now_s
        offloaded += int(away.sum())
        cap = account.offload_cap()
    return found, offloaded / len(order)


def _limited(target: Floats, reference: npt.NDArray[np.int64], cap: float) -> Floats:
    """router.choosing.chooser.capped, for many requests."""
    rows = np.arange(len(target))
    others = 1.0 - target[rows, reference]
    found = target * np.where(others > cap, cap / np.where(others > 0.0, others, 1.0), 1.0)[:, None]
    found[rows, reference] = 1.0 - np.minimum(others, cap)
    return found


class _Losses:
    """Draws the losses of offloaded answers from the judged ones."""

    def __init__(self, logged: Logged) -> None:
        log = logged.log
        known = np.isfinite(log.quality)
        fitted = with_prediction(log, Figure(log.quality, known, (0.0, 1.0)))
        assert fitted.predicted is not None
        self._predicted = fitted.predicted
        other = known & (log.chosen != logged.reference)
        self._donors = {
            action: np.flatnonzero(other & (log.chosen == action)) for action in range(len(logged.actions))
        }
        self._all = np.flatnonzero(other)
        self._losses = 1.0 - np.clip(np.where(known, log.quality, 0.0), 0.0, 1.0)
        self._drawn: dict[int, npt.NDArray[np.int64]] = {}

    def draw_anew(self, rng: np.random.Generator) -> None:
        """Draws the judged answers again, with replacement, each action's in the order of what was predicted."""
        for action, rows in self._donors.items():
            rows = rows if len(rows) else self._all
            drawn = rng.choice(rows, len(rows)) if len(rows) else rows
            self._drawn[action] = drawn[np.argsort(self._predicted[drawn, action], kind="stable")]

    def of(self, row: int, action: int, rng: np.random.Generator) -> float:
        """A loss, 0 to 1, for a request that takes an action; everything if nobody ever judged one."""
        donors = self._drawn[action]
        if not len(donors):
            return 1.0
        place = int(np.searchsorted(self._predicted[donors, action], self._predicted[row, action]))
        low = max(0, min(place - _ALIKE // 2, len(donors) - _ALIKE))
        alike: Sequence[int] = donors[low : low + _ALIKE].tolist()
        return float(self._losses[alike[int(rng.integers(len(alike)))]])
