"""Whose offloaded answers are bad: tenants by their own quality alarms. Computed beside the pages: it reads many rows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from admin.computing import Computations, ReportProgress
from admin.formats import tenant_label
from admin.page import Summary
from admin.sources import Sources
from admin.summaries.quality import standings
from learning.guarantee.quality_alarm import ALARMS, Level, QualityStanding, quality_of_tenants

_FRESH_S = 60.0
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class TenantQuality:
    """How the tenants stand of whose answers enough is known."""

    levels: Mapping[str, Level]
    """The worst of each."""
    alarms: tuple[QualityStanding, ...]
    """The worst of each that has an alarm which everybody's does not say already; the worst first."""


def tenant_quality(sources: Sources) -> TenantQuality | None:
    """As of a minute ago at most where pages are looked at; None until it was read for the first time."""
    result = shared_tenant_quality(sources).state(None).result
    return None if result is None else result["found"]


def shared_tenant_quality(sources: Sources) -> Computations[None]:
    """The computation that all pages share."""

    def compute(_: None, report: ReportProgress) -> dict[str, Any]:
        references, bar = sources.gateway.references(), sources.gateway.quality_alarm
        quality = sources.store.decisions.quality
        levels: dict[str, Level] = {}
        alarms: dict[str, QualityStanding] = {}
        for one in quality_of_tenants(quality, references, bar, time.time()):
            levels.setdefault(one.tenant, one.level)
            if one.level in ALARMS and not one.alone:
                alarms.setdefault(one.tenant, one)
        return {"found": TenantQuality(levels, tuple(alarms.values()))}

    return sources.shared("tenant_quality", lambda: Computations(compute, "tenant-quality", fresh_s=_FRESH_S))


def shown(found: TenantQuality | None, names: Mapping[str, str]) -> Summary | None:
    """As JSON, with the worst alarms. `names`: the operator's names of tenants."""
    if found is None:
        return None
    levels = Counter(found.levels.values())
    worst = found.alarms[:_SHOWN]
    return {
        "measured": len(found.levels),
        **{level: levels[level] for level in ALARMS},
        "alarms": len(found.alarms),
        "worst": [
            {"tenant": one.tenant, "tenant_name": tenant_label(names, one.tenant), **standing}
            for one, standing in zip(worst, standings(worst), strict=True)
        ],
    }
