"""Why not more is offloaded: per task scope, the dearest first, and what it would take."""

from __future__ import annotations

from admin.computing import Computations, TooMuchAsked
from admin.formats import tenant_label
from admin.page import Summary
from admin.roles import Content
from admin.sources import Sources
from admin.why_not import Question, why_nots


def why_not(sources: Sources, tenant: str | None, names: dict[str, str]) -> Summary | None:
    """Of the latest requests; None until anything is known. `names`: the operator's names of tenants."""
    references = tuple((model.name, model.engines[-1]) for model in sources.gateway.models)
    try:
        state = shared_why_not(sources).state(Question(tenant, references))
    except TooMuchAsked:
        return None
    if state.result is None or not state.result["requests"]:
        return None
    scopes = [
        {
            **scope,
            "tenant_name": tenant_label(names, scope["tenant"]),
            "instructions": Content(scope["instructions"]) if scope["instructions"] else "",
        }
        for scope in state.result["scopes"]
    ]
    return {**state.result, "scopes": scopes}


def shared_why_not(sources: Sources) -> Computations[Question]:
    """The computation that all overview pages share."""
    return sources.shared("why_not", lambda: why_nots(sources.store, sources.gateway.proven))
