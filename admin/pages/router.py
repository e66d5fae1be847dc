"""Router pages: who answers and why, what other settings would have brought, and changing them."""

from __future__ import annotations

import time
from typing import Any

from admin.page import Action, ActionFailed, Asked, BadParameter, Done, Page
from admin.sources import Sources
from admin.summaries.dials import dials
from admin.summaries.router import router
from admin.summaries.routing_change import routing_change, served_model, settings_of
from admin.summaries.what_if import what_if
from store.errors import ValueRefused
from store.learned.dials import ChangedMeanwhile, TurnedDials

_WAIT_S = 30.0


def change(sources: Sources, asked: Asked) -> Done:
    """Puts routing settings in force. Form fields: `model`, the settings by name, `for` (tenant or all) with `tenant`, and
    `version` as the page gave it. What is as it would be anyway is not stored, and follows later changes."""
    model = served_model(sources, asked)
    tenant = asked.text("tenant", longest=200)
    whose = tenant if asked.choice("for", ("tenant", "all"), "all") == "tenant" else ""
    if asked.text("for") == "tenant" and not tenant:
        raise BadParameter("for is 'tenant', and no tenant is named", "for")
    base, before = _base(sources, model, whose), _in_force(sources, model, whose)
    chosen = {
        name: value
        for name, value in settings_of(asked).items()
        if value is not None and name in base and value != base[name]
    }
    if not chosen:
        raise ActionFailed(
            "These are the settings as they are without a change. To go back to them, use Undo on the router page."
        )
    row = TurnedDials(model, time.time(), asked.viewer.name, **chosen, tenant=whose)
    try:
        sources.store.dials.turn(row, instead_of=_version(asked, own=bool(whose))).result(_WAIT_S)
    except ValueRefused as error:
        raise BadParameter("one of the settings has a value that it cannot have") from error
    except ChangedMeanwhile as error:
        raise ActionFailed(_told(error), field="version") from error
    return Done(
        "In force: workers decide by these settings within a second.",
        f"/router?model={model}",
        target=model,
        detail={"tenant": whose, "from": before, "to": base | chosen},
    )


def undo(sources: Sources, asked: Asked) -> Done:
    """Undoes the last change of the settings. Form fields: `model`, `tenant` for a tenant's own, and `version`: the id of
    the change that is undone."""
    model, tenant = served_model(sources, asked), asked.text("tenant", longest=200)
    before = _in_force(sources, model, tenant)
    undone = asked.whole("version", 0) or None
    try:
        done = sources.store.dials.take_back(model, asked.viewer.name, tenant, instead_of=undone).result(
            _WAIT_S
        )
    except ChangedMeanwhile as error:
        raise ActionFailed(_told(error), field="version") from error
    if not done:
        raise ActionFailed("No routing setting is changed here: all is as configured.")
    return Done(
        "Undone: what was in force before is again.",
        f"/router?model={model}",
        target=model,
        detail={"tenant": tenant, "from": before, "to": _in_force(sources, model, tenant)},
    )


def _base(sources: Sources, model: str, tenant: str) -> dict[str, Any]:
    """What is in force without a change: as configured, and for a tenant as for everybody."""
    rows = dials(sources, model)["rows"]
    return {row["name"]: row["in_force" if tenant else "configured"] for row in rows}


def _in_force(sources: Sources, model: str, tenant: str) -> dict[str, Any]:
    return {row["name"]: row["in_force"] for row in dials(sources, model, tenant)["rows"]}


def _version(asked: Asked, *, own: bool) -> int | None:
    """The row that was in force when the form was made; None where it does not say."""
    given = asked.text("version", longest=60)
    if not given:
        return None
    parts = given.split(".")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise BadParameter("version is not one that the page gave", "version")
    return int(parts[0 if own else 1])


def _told(error: ChangedMeanwhile) -> str:
    now = error.now
    if now is None:
        return "The settings were undone by somebody meanwhile. Nothing was changed; look at them again."
    values = {name: getattr(now, name) for name in ("preference", "theta", "m", "max_examples")}
    said = ", ".join(f"{name} {value:g}" for name, value in values.items() if value is not None)
    return f"The settings were changed by {now.user} meanwhile ({said}). Nothing was changed; look at them again."


ROUTER = Page("/router", "Router", "router.html", router, charts=True, csv="learnt")
SIMULATE = Page(
    "/router/simulate", "Simulate", "simulate.html", what_if, section="/router", in_menu=False, charts=True
)
CHANGE = Page(
    "/router/settings",
    "Change routing settings",
    "routing_change.html",
    routing_change,
    section="/router",
    in_menu=False,
    actions=(Action("/router/settings", change), Action("/router/settings/undo", undo)),
)
