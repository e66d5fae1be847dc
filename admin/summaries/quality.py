"""Quality of offloaded answers, by judge, feedback and review, with intervals; and the accounts of the quality floors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from admin.page import Summary
from learning.evaluation.mean_quality import MeanQuality, mean_quality
from learning.guarantee.quality_alarm import QualityStanding
from router.guarantee.floor import FloorSettings, QualityFloor
from store.decisions.quality_rollups import QualitySums
from store.learned.quality_floors import FloorRow

STANDINGS = {"holds": "holds", "limiting": "throttling", "threatened": "at_risk"}
"""The words of the pages for those of store.learned.quality_floors."""
KINDS: Mapping[str, str] = {"judge": "judge", "feedback": "user", "review": "label"}
"""Who says how good answers are, by the sources of the log."""


def offloaded_quality(
    rows: Iterable[QualitySums], references: Mapping[str, str]
) -> dict[str, Summary | None]:
    """Mean quality of offloaded answers with its interval, by who says so (KINDS); None where nobody did.

    `references`: the reference engine of each served model. Failed-over answers are nobody's decision, and left out.
    """
    seen = [
        row
        for row in rows
        if not row.failed_over and row.model in references and row.engine != references[row.model]
    ]
    return {
        kind: shown(mean_quality(row for row in seen if row.source == source))
        for kind, source in KINDS.items()
    }


def shown(mean: MeanQuality | None) -> Summary | None:
    """As JSON."""
    if mean is None:
        return None
    return {"count": mean.count, "mean": mean.mean, "low": mean.low, "high": mean.high}


def of_all(judged: Summary | None, offloaded: int, answered: int) -> Summary | None:
    """Quality of everything that engines answered: the reference's own answers are 1 by definition.

    `judged`: of the offloaded ones; None where nobody knows.
    """
    if not answered or (offloaded and judged is None):
        return None
    share = offloaded / answered if judged is not None else 0.0
    known = judged or {"mean": 1.0, "low": 1.0, "high": 1.0}
    return {name: 1.0 - share * (1.0 - known[name]) for name in ("mean", "low", "high")}


def standings(found: Sequence[QualityStanding]) -> list[Summary]:
    """How each engine's offloaded answers stand, as JSON, the worst first."""
    return [
        {
            "model": one.model,
            "engine": one.engine,
            "by": one.by,
            "level": one.level,
            "bar": one.bar,
            "latest": shown(one.latest),
            "week": shown(one.week),
            "week_before": shown(one.week_before),
            "fallen": one.fallen,
        }
        for one in found
    ]


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
                "guaranteed_loss": account.get("x"),
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
