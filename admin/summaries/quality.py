"""Quality of answers, from sampled judgements, with an interval; and the accounts of the quality floors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from admin.page import Summary
from admin.sources import ServedFacts
from learning.evaluation.intervals import Ratio, bootstrap, widened
from router.choosing.floor import FloorSettings, QualityFloor
from store.decisions.outcomes import JudgedAnswer
from store.learned.quality_floors import FloorRow

STANDINGS = {"holds": "holds", "limiting": "throttling", "threatened": "at_risk"}
"""The words of the pages for those of store.learned.quality_floors."""
_RESAMPLES = 400
_FEWEST = 5


def quality(
    judged: Sequence[JudgedAnswer], models: Sequence[ServedFacts], offloaded: int, answered: int
) -> Summary | None:
    """Mean quality of all answers, 0 to 1, where 1 is as good as the reference engine's own.

    Offloaded answers are judged with known probabilities and weighted by their inverse (Hájek 1971). The reference's own
    are 1 by definition; answers from memory are assumed to be like the others. None for too few judgements.
    """
    references = {model.name: model.engines[-1] for model in models}
    seen = [j for j in judged if j.model in references and j.engine != references[j.model]]
    if not answered or (offloaded and len(seen) < _FEWEST):
        return None
    share = offloaded / answered
    if not offloaded:
        return {"value": 1.0, "low": 1.0, "high": 1.0, "judged": 0, "offloaded": None}
    weights = np.array([1.0 / j.probability for j in seen])
    qualities = np.array([j.quality for j in seen])
    ((value, interval),) = bootstrap([Ratio(weights * qualities, weights)], resamples=_RESAMPLES)
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    low, high = widened(interval, value, effective, (0.0, 1.0))
    return {
        "value": 1.0 - share * (1.0 - value),
        "low": 1.0 - share * (1.0 - low),
        "high": 1.0 - share * (1.0 - high),
        "judged": len(seen),
        "offloaded": {"value": value, "low": low, "high": high},
    }


def floors(rows: Sequence[FloorRow], names: Mapping[str, str], now_s: float) -> list[Summary]:
    """The account of every quality floor."""
    found = []
    for row in rows:
        account = _account(row.state)
        found.append(
            {
                "tenant": row.tenant,
                "tenant_name": names.get(row.tenant, ""),
                "model": row.model,
                "standing": STANDINGS[row.standing],
                "cap": row.cap,
                "age_s": max(0.0, now_s - row.at_s),
                "promised_loss": account.get("x"),
                "loss_estimate": account.get("loss_estimate"),
                "loss_bound": account.get("loss_bound"),
                "judged": account.get("judged"),
                "requests": account.get("requests"),
            }
        )
    return found


def _account(state: str) -> Summary:
    try:
        found = json.loads(state)
        settings = FloorSettings(found["x"], found["alpha"], found["judged_share"])
        return QualityFloor.from_json(state, settings).state()
    except (ValueError, KeyError, TypeError):
        return {}
