"""The dials of one served model: what is configured, what is in force, and who turned them when."""

from __future__ import annotations

from typing import Any

from admin.sources import Sources
from router.dials import Dials
from store.learned.dials import TurnedDials


def dials(sources: Sources, model: str) -> dict[str, Any]:
    """The configured dials, those in force, and the history of changes."""
    log = sources.store.dials
    turned = log.in_force(model)
    configured = sources.gateway.actions.dials.get(model, Dials())
    rows = []
    for name, says in _DIALS:
        own, now = getattr(configured, name), getattr(turned, name) if turned else None
        if own is not None:
            rows.append(
                {"name": name, "says": says, "configured": own, "in_force": own if now is None else now}
            )
    return {
        "rows": rows,
        "turned": turned is not None,
        "by": turned.user if turned else None,
        "at_s": turned.at_s if turned else None,
        "history": [_change(row) for row in log.history(model)],
    }


_DIALS = (
    ("preference", "0 is cheapest, 1 is best"),
    ("theta", "cosine from which a past request is near"),
    ("m", "near ones that the rule wants"),
    ("max_examples", "most examples sent along"),
)


def _change(row: TurnedDials) -> dict[str, Any]:
    return {
        "id": row.id,
        "at_s": row.at_s,
        "by": row.user,
        "values": {name: value for name, _ in _DIALS if (value := getattr(row, name)) is not None},
        "taken_back_at_s": row.taken_back_at_s,
        "taken_back_by": row.taken_back_by,
    }
