"""A change of routing settings before it is made: what would change, for whom, and what that would bring as far as known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.formats import tenant_label
from admin.page import Asked, BadParameter, Summary
from admin.sources import Sources
from admin.summaries.dials import dials
from admin.summaries.what_if import known_sentence


def routing_change(sources: Sources, asked: Asked) -> Summary:
    """For one served model, the first if none is named: `model`, `tenant`, and the settings by name. Nothing is changed by
    looking."""
    names = [each.name for each in sources.gateway.models]
    model = served_model(sources, asked) if asked.text("model") else (names[0] if names else "")
    tenant = asked.text("tenant", longest=200)
    own, everybody = dials(sources, model, tenant), dials(sources, model)
    given = {name: value for name, value in settings_of(asked).items() if value is not None}
    now = {row["name"]: row["in_force"] for row in own["rows"]}
    tenant_names = sources.tenant_names()
    return {
        "model": model,
        "tenant": tenant,
        "tenant_name": tenant_label(tenant_names, tenant) if tenant else "",
        "changes": [
            {key: row[key] for key in ("name", "label", "says")}
            | {"now": row["in_force"], "then": given[row["name"]]}
            for row in own["rows"]
            if row["name"] in given and given[row["name"]] != row["in_force"]
        ],
        "fields": {name: given.get(name, value) for name, value in now.items()},
        "version": f"{own['version']}.{everybody['version']}",
        "own": [each["name"] for each in everybody["own"] if each["tenant"] != tenant],
        "sentence": known_sentence(sources, model, tenant, now | given) if tenant else "",
    }


def served_model(sources: Sources, asked: Asked) -> str:
    """The served model that is named. Raises BadParameter for another."""
    model = asked.text("model", longest=200)
    if model not in {each.name for each in sources.gateway.models}:
        raise BadParameter(f"model is {model[:60]!r}, which is not served here", "model")
    return model


def settings_of(asked: Asked) -> Mapping[str, Any]:
    """The settings that are named, None for others. Raises BadParameter for values that none has."""
    given: dict[str, Any] = {
        "preference": asked.number("preference", None, least=0.0, most=1.0),
        "theta": asked.number("theta", None, least=-1.0, most=1.0),
    }
    for name, least, most in (("m", 1, 1000), ("max_examples", 0, 100)):
        given[name] = asked.whole(name, 0, least=least, most=most) if asked.text(name) else None
    return given
