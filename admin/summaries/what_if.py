"""Simulate: what other routing settings would have brought to the requests that were answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from admin.choices import offered
from admin.computing import Computations, ComputationState, TooMuchAsked
from admin.formats import tenant_label
from admin.page import ActionFailed, Asked, BadParameter, Summary
from admin.settings_effect import NothingToTell
from admin.sources import Sources
from admin.summaries.dials import dials, in_force
from admin.summaries.what_if_charts import frontier_chart, reward_chart
from admin.summaries.what_if_words import sentence
from admin.what_if import Question, Settings, what_ifs


def what_if(sources: Sources, asked: Asked) -> Summary:
    """For one served model and tenant: `model`, `tenant`; settings: `preference`, `theta`, `m`, `max_examples`.

    Answers at once with the present state: `state` is ready, computing (`progress` says how far; an older result may be
    shown meanwhile) or nothing. A setting that is not given is as it is in force for the tenant.
    """
    names = [model.name for model in sources.gateway.models]
    model = asked.text("model", longest=200) or (names[0] if names else "")
    if model and model not in names:
        raise BadParameter(f"model is {model[:60]!r}; one of {', '.join(names)} is right")
    tenants = _tenants(sources, model)
    tenant = asked.text("tenant", longest=200) or (tenants[0] if tenants else "")
    settings = dials(sources, model, tenant)
    now = {row["name"]: row["in_force"] for row in settings["rows"]}
    chosen = _chosen(asked, now)
    tenant_names = sources.tenant_names()
    summary: dict[str, Any] = {
        "model": model,
        "models": names,
        "tenant": tenant,
        "tenants": offered(((each, tenant_label(tenant_names, each)) for each in tenants), tenant),
        "policy": next((each.policy for each in sources.gateway.models if each.name == model), ""),
        "now": now,
        "chosen": chosen,
        "settings": settings["rows"],
        "changed": {name: value for name, value in chosen.items() if name in now and now[name] != value},
        "state": "nothing",
        "progress": None,
        "nothing": "",
        "at_s": None,
        "result": None,
        "sentence": "",
        "chart": None,
        "reward_chart": None,
    }
    if not tenant:
        return summary | {"nothing": "no decision of this model is in the log yet"}
    question = Question(tenant, model, _settings(chosen), _settings(_with_defaults(now)))
    shown = _shown(_state(sources, asked, question), question)
    return summary | shown | {"sentence": _sentence(shown.get("result"), chosen, now)}


def _sentence(result: Mapping[str, Any] | None, chosen: dict[str, Any], now: dict[str, Any]) -> str:
    """What the change would bring, in words; empty where that is not known. `result`: as the page shows it."""
    if result is None or not result["effect"]:
        return ""
    return sentence(result["effect"], chosen, now, caps=result["caps"], points=result["points"])


def _chosen(asked: Asked, now: dict[str, Any]) -> dict[str, Any]:
    """The settings asked for; those not given are as they are in force, or have their defaults."""
    given = _with_defaults(now)
    return {
        "preference": asked.number("preference", given["preference"], least=0.0, most=1.0),
        "theta": asked.number("theta", given["theta"], least=-1.0, most=1.0),
        "m": asked.whole("m", int(given["m"]), least=1, most=1000),
        "max_examples": asked.whole("max_examples", int(given["max_examples"]), least=0, most=100),
    }


def _with_defaults(now: dict[str, Any]) -> dict[str, Any]:
    return asdict(Settings()) | now


def _state(sources: Sources, asked: Asked, question: Question) -> ComputationState:
    """The state of the question; a page opened by a person starts the computation. Raises ActionFailed."""
    computations = shared(sources)
    try:
        state = computations.state(question, begin=not asked.by_itself)
        if asked.by_itself and state.at_s is None and not state.computing:
            # The question was evicted from the cache while its page still waits.
            state = computations.state(question)
    except TooMuchAsked as error:
        raise ActionFailed(str(error)) from error
    return state


def _shown(state: ComputationState, question: Question) -> dict[str, Any]:
    """The part of the summary that depends on the computation. Raises what the computation raised unexpectedly."""
    found: dict[str, Any] = {}
    if state.computing:
        found = {"state": "computing", "progress": {"doing": state.doing, "done": state.done}}
    elif state.problem is not None:
        if not isinstance(state.problem, NothingToTell):
            raise state.problem
        return {"nothing": str(state.problem), "at_s": state.at_s}
    if state.result is None:
        return found
    result = state.result
    points = [_point(point, question) for point in result["points"]]
    caps = [{**cap, "asked": cap["most"] == question.settings.max_examples} for cap in result["caps"]]
    return found | {
        "state": "computing" if state.computing else "ready",
        "at_s": state.at_s,
        "result": {**{name: result[name] for name in _SHOWN}, "points": points, "caps": caps},
        "chart": frontier_chart(points, caps) if points else None,
        "reward_chart": reward_chart(result["over_time"]) if points else None,
    }


_SHOWN = (
    "effect",
    "requests",
    "judged",
    "level",
    "quality_is",
    "cautions",
    "policies_left_out",
    "by_count",
    "caps_unknown",
    "over_time",
)


def known_sentence(sources: Sources, model: str, tenant: str, chosen: dict[str, Any]) -> str:
    """What a change would bring, where it was computed lately; empty otherwise. Computes nothing."""
    now = in_force(sources, model, tenant)
    question = Question(tenant, model, _settings(_with_defaults(chosen)), _settings(_with_defaults(now)))
    result = shared(sources).state(question, begin=False).result
    if result is not None:
        result = {**result, "points": [_point(point, question) for point in result["points"]]}
    return _sentence(result, _with_defaults(chosen), now)


def prepare(sources: Sources, asked: Asked, model: str) -> None:
    """Starts computing the settings in force if nothing else is computed: viewers often ask for it next."""
    tenants = [] if asked.by_itself or shared(sources).busy else _tenants(sources, model)
    if tenants:
        now = _settings(_with_defaults(in_force(sources, model, tenants[0])))
        shared(sources).state(Question(tenants[0], model, now, now))


def shared(sources: Sources) -> Computations[Question]:
    """The computations that all pages share."""
    models = {each.name: each for each in sources.gateway.models}
    return sources.shared("what_if", lambda: what_ifs(sources.open_store, models))


def _tenants(sources: Sources, model: str) -> list[str]:
    return [tenant for tenant, of in sources.store.decisions.choices.slots() if of == model]


def _settings(chosen: dict[str, Any]) -> Settings:
    return Settings(
        float(chosen["preference"]), float(chosen["theta"]), int(chosen["m"]), int(chosen["max_examples"])
    )


def _point(point: dict[str, Any], question: Question) -> dict[str, Any]:
    """One policy at one preference, with its doubly robust estimates."""
    preference = point["preference"]
    name = point["policy"]
    return {
        "policy": name,
        "says": _says(name),
        "preference": preference,
        "offloaded": point["offloaded"],
        "quality": point["quality"]["dr"],
        "cost_usd": _not_negative(point["cost_usd"]["dr"]),
        "latency_s": _not_negative(point["latency_s"]["dr"]),
        "effective_samples": point["effective_samples"],
        "unsupported": point["unsupported"],
        "asked": name.startswith("few_shot:") or preference == question.settings.preference,
    }


def _not_negative(told: dict[str, float | None]) -> dict[str, float | None]:
    """Where little is known the estimator may return a negative price or time, which is cut to 0."""
    return {name: value if value is None else max(0.0, value) for name, value in told.items()}


def _says(policy: str) -> str:
    if policy == "logged":
        return "what was done, by its probabilities"
    if policy == "expected":
        return "by what the router expected"
    kind, _, rest = policy.partition(":")
    if kind == "always":
        return f"always {rest}"
    if kind == "few_shot":
        theta, _, m = rest.partition(",")
        return f"the rule: at least {m} past requests of similarity {theta} or more"
    return policy
