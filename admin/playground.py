"""Two engines asked the same thing at once, by an operator, and what would have been decided of such a request.

Nothing is asked of the gateway: what it would have decided is told from what is stored, as far as that goes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from admin.actions import NotDone, Reply
from admin.page import ActionFailed, Asked, BadParameter, Done, Summary
from admin.roles import Content
from admin.sources import ServedFacts, Sources
from admin.summaries.dials import in_force
from admin.summaries.requests import tenants_to_choose
from store.jobs.operator_asks import OperatorAsk

_MOST_PROMPT = 20_000
_NEAREST = 5


def playground(sources: Sources, asked: Asked) -> Summary:
    """What the form offers."""
    return {
        "engines": sorted(engine.name for engine in sources.gateway.engines),
        "models": [model.name for model in sources.gateway.models],
        "tenants": tenants_to_choose(sources, ""),
        "can_ask": sources.gateway.actions.ask is not None,
        "most": _MOST_PROMPT,
    }


async def compare(sources: Sources, asked: Asked) -> Done:
    """Asks both engines. Form fields: `one`, `other`, `model`, `tenant`, `system`, `prompt`."""
    names = asked.text("one", longest=200), asked.text("other", longest=200)
    prompt, system = (asked.text(name, longest=_MOST_PROMPT) for name in ("prompt", "system"))
    if not prompt:
        raise BadParameter("prompt is empty; write what the engines are to be asked", "prompt")
    model, tenant = asked.text("model", longest=200), asked.text("tenant", longest=64)
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    if sources.gateway.actions.ask is None:
        raise ActionFailed("This gateway has no engines that these pages could ask.")
    answers = await asyncio.gather(*(_asked(sources, asked, name, messages, model, tenant) for name in names))
    decided = await asyncio.to_thread(_decided, sources, model, tenant, prompt)
    return Done(
        f"{names[0]} and {names[1]} were asked.",
        target=" ".join(names),
        detail={"engines": list(names), "cost_usd": sum(one["cost_usd"] for one in answers)},
        again=True,
        shown={
            "prompt": Content(prompt),
            "system": Content(system),
            "answers": answers,
            "model": model,
            "decided": decided,
        },
    )


async def _asked(
    sources: Sources, asked: Asked, name: str, messages: Sequence[dict[str, str]], model: str, tenant: str
) -> Summary:
    """One engine's answer, or why there is none; what it charged is booked to the operator in either case."""
    ask = sources.gateway.actions.ask
    assert ask is not None
    at_s = time.time()
    reply: Reply | None = None
    failed = ""
    try:
        reply = await ask(name, messages, model)
        cost_usd = reply.cost_usd
    except NotDone as error:
        failed, cost_usd = str(error), error.cost_usd
    spent = (reply.prompt_tokens, reply.completion_tokens, reply.latency_s) if reply else (0, 0, 0.0)
    row = OperatorAsk(at_s, asked.viewer.name, tenant, "", name, False, cost_usd, *spent)
    if reply is not None or cost_usd:
        await asyncio.to_thread(lambda: sources.store.jobs.operator_asks.note(row).result(30))
    return {
        "engine": name,
        "failed": failed,
        "text": Content(reply.text) if reply else None,
        "finish_reason": reply.finish_reason if reply else "",
        "cost_usd": cost_usd,
        "prompt_tokens": spent[0],
        "completion_tokens": spent[1],
        "latency_s": spent[2],
    }


def _decided(sources: Sources, model: str, tenant: str, prompt: str) -> Summary | None:
    """What is known of how the model's requests of a tenant are decided; None for a name that no model has."""
    served = next((one for one in sources.gateway.models if one.name == model), None)
    if served is None:
        return None
    dials = in_force(sources, model, tenant)
    near, why_none = _near(sources, tenant, prompt)
    theta = dials.get("theta")
    alike = [one for one in near if theta is not None and one["similarity"] >= theta]
    opened = [
        region.action.engine
        for scope in sources.gateway.proven()
        if scope.model == model and scope.tenant == tenant
        for region in scope.regions
        if region.open
    ]
    return {
        "policy": served.policy,
        "engines": list(served.engines),
        "dials": dials,
        "near": near,
        "why_none": why_none,
        "open": sorted(set(opened)),
        "says": _says(served, len(alike), dials, opened),
    }


def _near(sources: Sources, tenant: str, prompt: str) -> tuple[list[dict[str, Any]], str]:
    """The tenant's most similar examples, or why none can be told."""
    actions = sources.gateway.actions
    if actions.embed is None:
        return [], "This gateway keeps no examples."
    try:
        vector = actions.embed(prompt)
    except NotDone as error:
        return [], str(error)
    version = actions.embedding_version()
    found = sources.store.examples.search.nearest(tenant, vector, version, which="", limit=_NEAREST)
    likeness = found.similarities or [0.0] * len(found.rows)
    rows = [
        {"id": row.id, "question": Content(row.question), "similarity": similarity}
        for row, similarity in zip(found.rows, likeness, strict=True)
    ]
    return rows, "" if rows else "This tenant has no examples."


def _says(served: ServedFacts, alike: int, dials: dict[str, Any], opened: Sequence[str]) -> str:
    """One sentence."""
    reference = served.engines[-1]
    if len(served.engines) == 1:
        return f"{reference} answers: the model has no other engine."
    if served.policy == "fixed":
        return f"{reference} answers: the policy is fixed."
    wanted = dials.get("m") or 1
    enough = dials.get("theta") is None or alike >= wanted
    likely = "a smaller engine may be asked, with them" if enough else f"{reference} is likely to answer"
    likely = f"Examples near enough: {alike}, wanted: {wanted}. So {likely}"
    proof = (
        f"proven for this tenant are {', '.join(sorted(set(opened)))}"
        if opened
        else "nothing is proven for this tenant"
    )
    return f"{likely}; {proof}."
