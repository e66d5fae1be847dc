"""Logs of invented decisions, whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from learning.evaluation.logged import Logged, logged
from learning.evaluation.off_policy import Log, checked_log
from store.records import ChoiceRecord, OutcomeRecord
from tests.store.rows import choice_record, outcome_record

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """A log, and what every action would have brought."""

    log: Log
    qualities: Floats
    """[n, K]"""


def world(
    seed: int, n: int = 400, *, linear: bool = True, looked: float = 1.0, least: float = 0.1, actions: int = 3
) -> World:
    """Quality is a line of the first feature, or a wave that no line follows; noisy, mostly within 0..1."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 3))
    x = features[:, :1]
    slopes = np.linspace(-0.12, 0.12, actions)
    qualities = 0.5 + (x * slopes if linear else 0.3 * np.sin(6 * x + np.arange(actions)))
    qualities = np.clip(qualities + rng.normal(0, 0.02, size=(n, actions)), 0.0, 1.0)
    probabilities = least + (1 - actions * least) * rng.dirichlet(np.ones(actions), size=n)
    chosen = np.array([rng.choice(actions, p=row / row.sum()) for row in probabilities])
    seen = qualities[np.arange(n), chosen]
    seen = np.where(rng.random(n) < looked, seen, np.nan)
    cost = np.linspace(0.1, 1.0, actions)[chosen]
    log = checked_log(probabilities, chosen, seen, np.full(n, looked), cost, cost * 2, features)
    return World(log, qualities)


def one_action(n: int, actions: int, which: int) -> Floats:
    found = np.zeros((n, actions))
    found[:, which] = 1.0
    return found


@dataclass(frozen=True)
class Met:
    """What store.decisions.outcomes.Experience gives."""

    choice: ChoiceRecord
    outcomes: tuple[OutcomeRecord, ...]


def met(number: int, chosen: int, *outcomes: dict[str, Any], **changes: Any) -> Met:
    """A request that was decided among small, small with examples, and large."""
    probabilities = changes.pop("probabilities", (0.3, 0.3, 0.4))
    ways = (("small", False, 0.6, 0.1, 1.0), ("small", True, 0.8, 0.2, 2.0), ("large", False, 1.0, 1.0, 4.0))
    actions = tuple(
        {
            "engine": engine,
            "with_examples": with_examples,
            "probability": probability,
            "quality": quality,
            "cost_usd": cost_usd,
            "latency_s": latency_s,
            "reward": 0.0,
            "features": {"rank": float(engine == "large")},
        }
        for (engine, with_examples, quality, cost_usd, latency_s), probability in zip(
            ways, probabilities, strict=True
        )
    )
    fields: dict[str, Any] = {
        "actions": actions,
        "chosen": chosen,
        "engine": ways[chosen][0] if 0 <= chosen < 3 else "other",
        "features_version": "1",
        "cost_usd": ways[chosen][3] if 0 <= chosen < 3 else 0.5,
        "total_ms": 1500.0,
    }
    choice = choice_record(number, **(fields | changes))
    rows = tuple(
        outcome_record(number, **({"engine": choice.engine, "key": f"k{k}", "source": "judge"} | each))
        for k, each in enumerate(outcomes)
    )
    return Met(choice, rows)


def logged_world(n: int = 300, seed: int = 0, *, share: float = 0.5) -> Logged:
    """Judged by a coin: alone the small engine is worth 0.5, with examples 0.9."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        chosen = int(rng.choice(3, p=(0.3, 0.3, 0.4)))
        quality = (0.5, 0.9, 1.0)[chosen]
        judged = [{"quality": quality, "probability": share}] if rng.random() < share else []
        rows.append(met(number, chosen, *judged))
    return logged(rows)
