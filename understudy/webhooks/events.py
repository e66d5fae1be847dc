"""What operators are told of, and when: pure functions from how things stand to what has to be noticed.

A message says what crossed what, and names keys, tenants and engines as the operator does. It holds no text of a request or
an answer, no secret, and no address of a client.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from learning.guarantee.quality_alarm import QualityStanding
from store.jobs.engine_states import EngineStateRow
from store.jobs.webhooks import Crossing
from store.people.allowance import NANO, USD, Standing
from store.people.limits import Limits
from store.records import Key

PERCENTS = (50, 80, 100)
_DAYS_BEFORE = (7, 1)
_DAY_S = 86_400
_CLEARLY = 0.01
"""By how much a mean quality must be above what is wanted before it counts as good again."""
_LOW, _ENOUGH = 0.05, 0.08
"""Shares of the disk that are free: below the first it is low, above the second no more."""


@dataclass(frozen=True, slots=True)
class Budgeted:
    """A key or a tenant whose dollars are limited."""

    kind: str
    """key or tenant."""
    id: str
    name: str
    limits: Limits

    @property
    def scope(self) -> str:
        """Under which name its allowances are kept."""
        return f"{self.kind}:{self.id}"


def budgets(who: Budgeted, standings: Iterable[Standing], now_s: float) -> list[Crossing]:
    """Half, four fifths and all of a budget spent, each once per window."""
    found = []
    spent = {one.window.kind: one for one in standings}
    for budget in who.limits.budgets:
        standing = spent.get(USD + budget.per)
        if standing is None or budget.usd <= 0:
            continue
        window, spent_usd = standing.window, standing.spent / NANO
        for percent in PERCENTS:
            # In whole nanodollars, as limits are kept: nine tenths of a cent must not become a cent.
            if standing.spent * 100 < round(budget.usd * NANO) * percent:
                break
            data = {
                who.kind: who.id,
                "name": who.name,
                "per": budget.per,
                "limit_usd": budget.usd,
                "spent_usd": round(spent_usd, 9),
                "percent": percent,
                "window_began_at": _time(window.start_s) if window.start_s else None,
            }
            name = f"budget:{who.scope}:{window.kind}:{window.start_s}:{budget.usd:g}:{percent}"
            found.append(_crossing(name, "crossed", None, "budget.crossed", data, now_s))
    return found


def engines(rows: Sequence[EngineStateRow], now_s: float) -> list[Crossing]:
    """Engines that have gone down as every worker sees them, on all their replicas, or have come back."""
    found = []
    for name in sorted({row.engine for row in rows}):
        mine = [row for row in rows if row.engine == name and row.state not in ("unknown", "drained")]
        if not mine:
            continue
        down = all(row.state == "down" for row in mine)
        state, event = ("down", "engine.down") if down else ("up", "engine.up")
        since = min((row.since_s for row in mine if row.since_s is not None), default=None)
        data = {"engine": name, "since": _time(since) if since is not None else None}
        found.append(_crossing(f"engine:{name}", state, "up", event, data, now_s))
    return found


def disk(free_bytes: int, total_bytes: int, now_s: float) -> list[Crossing]:
    """The data folder's disk is nearly full. Between the two bounds it is what it was."""
    share = free_bytes / total_bytes if total_bytes else 1.0
    if _LOW <= share <= _ENOUGH:
        return []
    low = share < _LOW
    data = {"free_bytes": free_bytes, "free_percent": round(100 * share, 1)}
    return [_crossing("disk", "low" if low else "enough", "enough", "disk.low" if low else "", data, now_s)]


def expiring(keys: Iterable[Key], now_s: float) -> list[Crossing]:
    """Keys that end within seven days, and within one."""
    found = []
    for key in keys:
        ends_s = key.expires_at_s
        if ends_s is None or key.revoked_at_s is not None or ends_s <= now_s:
            continue
        for days in _DAYS_BEFORE:
            if ends_s - now_s <= days * _DAY_S:
                data = {
                    "key": key.id,
                    "name": key.name,
                    "tenant": key.tenant_name,
                    "expires_at": _time(ends_s),
                    "within_days": days,
                }
                name = f"key:{key.id}:{int(ends_s)}:{days}"
                found.append(_crossing(name, "expiring", None, "key.expiring", data, now_s))
    return found


def quality(standing: QualityStanding, now_s: float, tenant_name: str = "") -> list[Crossing]:
    """Offloaded answers of an engine have become worse than wanted, or are good again, which is noted and not told.

    Near the border, and where too little is known, it is what it was. A tenant's are told of with its name, unless no other
    has any: then everybody's are the same.
    """
    latest, level = standing.latest, standing.level
    near = level == "good" and latest.mean < standing.bar + _CLEARLY
    if near or level == "not known yet" or (standing.alone and level != "good"):
        return []
    data = {
        "model": standing.model,
        "engine": standing.engine,
        "by": standing.by,
        "level": level,
        "quality": round(latest.mean, 4),
        "low": round(latest.low, 4),
        "high": round(latest.high, 4),
        "outcomes": latest.count,
        "wanted": round(standing.bar, 4),
        "fallen": standing.fallen,
        "tenant": standing.tenant or None,
        "tenant_name": tenant_name or None,
    }
    name = f"quality:{standing.model}:{standing.engine}:{standing.by}"
    if standing.tenant:
        name += f":{standing.tenant}"
    return [_crossing(name, level, "good", "" if level == "good" else "quality.alarm", data, now_s)]


def _crossing(
    name: str, value: str, usual: str | None, event: str, data: Mapping[str, Any], now_s: float
) -> Crossing:
    body = json.dumps({"type": event, "timestamp": _time(now_s), "data": data}, ensure_ascii=False)
    return Crossing(name, value, usual, event, body)


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
