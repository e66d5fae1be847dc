"""Router pages: who answers and why, what other dials would have brought, and changing the dials."""

from __future__ import annotations

import time

from admin.page import Action, ActionFailed, Asked, BadParameter, Done, Page
from admin.sources import Sources
from admin.summaries.dials import dials
from admin.summaries.router import router
from admin.summaries.what_if import what_if
from store.errors import ValueRefused
from store.learned.dials import TurnedDials

_WAIT_S = 30.0


def turn(sources: Sources, asked: Asked) -> Done:
    """Puts dials in force. Form fields: `model`, and the dials by name; values equal to the configured ones are ignored."""
    model = _model(sources, asked)
    configured = {row["name"]: row["configured"] for row in dials(sources, model)["rows"]}
    given = {
        "preference": asked.number("preference", None, least=0.0, most=1.0),
        "theta": asked.number("theta", None, least=-1.0, most=1.0),
        "m": asked.number("m", None, least=1, most=1000),
        "max_examples": asked.number("max_examples", None, least=0, most=100),
    }
    chosen = {
        name: value
        for name, value in given.items()
        if value is not None and name in configured and value != configured[name]
    }
    whole = {name: int(chosen[name]) for name in ("m", "max_examples") if name in chosen}
    if not chosen:
        raise ActionFailed(
            "These are the dials as they are configured. To go back to them, take the last turn back."
        )
    row = TurnedDials(
        model,
        time.time(),
        asked.viewer.name,
        preference=chosen.get("preference"),
        theta=chosen.get("theta"),
        m=whole.get("m"),
        max_examples=whole.get("max_examples"),
    )
    try:
        sources.store.dials.turn(row).result(_WAIT_S)
    except ValueRefused as error:
        raise BadParameter("one of the dials has a value that no dial has") from error
    return Done(
        "In force: workers decide by these dials within a second.",
        f"/router?model={model}",
        target=model,
        detail=chosen | whole,
    )


def take_back(sources: Sources, asked: Asked) -> Done:
    """Takes the last change of the dials back. Form field: `model`."""
    model = _model(sources, asked)
    if not sources.store.dials.take_back(model, asked.viewer.name).result(_WAIT_S):
        raise ActionFailed("No dial of this model is turned: all is as configured.")
    return Done("Taken back: what was in force before is again.", f"/router?model={model}", target=model)


def _model(sources: Sources, asked: Asked) -> str:
    model = asked.text("model", longest=200)
    if model not in {each.name for each in sources.gateway.models}:
        raise BadParameter(f"model is {model[:60]!r}, which is not served here")
    return model


ROUTER = Page(
    "/router",
    "Router",
    "router.html",
    router,
    charts=True,
    actions=(Action("/router/dials", turn), Action("/router/dials/back", take_back)),
)
WHAT_IF = Page(
    "/router/what-if", "What if", "what_if.html", what_if, section="/router", in_menu=False, charts=True
)
