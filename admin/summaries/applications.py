"""Applications found in plain calls: which of the latest requests read each other's answers."""

from __future__ import annotations

from typing import Any

from admin.page import Asked, Summary
from admin.roles import Content
from admin.sources import Sources
from workflows import inferred

LOOKED_THROUGH = 1_000
"""Latest requests with texts that the page is made from."""
ROWS = 50
_NAME_CHARACTERS = 160


def applications(sources: Sources, asked: Asked) -> Summary:
    """Nothing is looked for where `applications.infer` is off, and nothing beyond one key and end user."""
    found: list[inferred.Application] = []
    if sources.gateway.infer:
        latest = sources.store.decisions.texts.latest(LOOKED_THROUGH)
        calls = [
            inferred.Call(
                texts.request_id,
                (texts.tenant, key_id, end_user),
                texts.at_s,
                [str(message.get("text") or "") for message in texts.messages or ()],
                texts.answer,
            )
            for texts, key_id, end_user in reversed(latest)
        ]
        found = inferred.applications(calls)
    names = sources.tenant_names()
    return {
        "on": sources.gateway.infer,
        "looked_through": LOOKED_THROUGH,
        "rows": [_shown(one, names) for one in found[:ROWS]],
    }


def _shown(one: inferred.Application, names: dict[str, str]) -> dict[str, Any]:
    tenant = one.client[0]
    return {
        "name": Content(one.opening[:_NAME_CHARACTERS]),
        "tenant": tenant,
        "tenant_name": names.get(tenant, ""),
        "key_id": one.client[1],
        "times": one.times,
        "calls": one.calls,
        "calls_each": one.calls / one.times,
        "depth": one.depth,
        "edges": one.edges,
        "repeated_share": one.repeated / one.calls,
        "last_s": one.last.at_s,
        "last_request": one.last.id,
    }
