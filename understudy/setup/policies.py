"""The policies of models that look examples up, the gates before small engines, and what follows them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from learning.guarantee.proof import ProofFollower
from learning.rehearsal.kept import latest
from learning.training.dial_follower import Apply, DialFollower
from learning.training.metrics import LearningMetrics
from router.finished import Finished
from router.plan import Policy
from router.policies.in_conversation import Elsewhere, InConversation
from router.proving.gate import Gate
from router.turns.conversations import IDLE_S
from store.decisions import session_ids
from store.decisions.sessions import LatestAnswer
from understudy.built import Built
from understudy.setup.few_shot import few_shot
from understudy.setup.pipeline import fixed
from understudy.setup.proof import gates


def add_to(built: Built) -> None:
    """Make every model's policy."""
    threads = ThreadPoolExecutor(2, thread_name_prefix="retrieve")
    built.threads = built.parts.add(threads, stop=threads.shutdown)
    metrics = built.learning_metrics = LearningMetrics(built.metrics.registry)

    def count(finished: Finished) -> None:
        plan = finished.plan
        metrics.decided(finished.model, plan.choice if plan is not None else None)

    built.parts.add(metrics, finished=count)
    turns: dict[str, Apply] = {}
    proven = _gates(built)
    built.policies = {name: _policy(built, name, turns, proven.get(name)) for name in built.config.models}
    if turns:
        built.follow(DialFollower(built.remembered.store.dials, turns))


def _gates(built: Built) -> Mapping[str, Gate]:
    config, store = built.config, built.remembered.store
    made = gates(config.models, config.engines, latest(store.folder), built.load.shedding)
    if made:
        built.follow(ProofFollower(store.outcomes, store.decisions.choices, made))
    return made


def _policy(built: Built, name: str, turns: dict[str, Apply], gate: Gate | None) -> Policy:
    settings = built.config.models[name]
    if settings.policy == "fixed":
        return fixed(settings)
    assert built.conversations is not None
    routing = _routing(built, name, turns, gate)
    hold = gate.hold if gate is not None else None
    return InConversation(routing, built.conversations, settings.ways, _elsewhere(built), hold)


def _elsewhere(built: Built) -> Elsewhere | None:
    """How to find what other workers answered; None where there are none, or no rows of requests."""
    memory, store = built.remembered, built.remembered.store
    if memory.requests is None or (built.config.listen.workers == 1 and store.reads.inline):
        return None
    answers, secret = store.decisions.sessions, store.secret

    async def latest(tenant: str, name: str, model: str) -> LatestAnswer | None:
        since_s = time.time() - IDLE_S
        named = session_ids.named(secret, name)
        return await store.reads.in_time(answers.latest_answer, tenant, named, model, since_s)

    return latest


def _routing(built: Built, name: str, turns: dict[str, Apply], gate: Gate | None) -> Policy:
    config, memory, settings = built.config, built.remembered, built.config.models[name]
    if settings.policy == "few_shot":
        rule = few_shot(settings, config, memory, built.engines, built.threads, gate)
        turns[name] = rule.turn
        return rule.policy
    from understudy.setup.in_context import in_context

    learned = in_context(
        name, settings, config, memory, built.engines, built.threads, built.learning_metrics, gate
    )
    built.follow(learned.follower)
    turns[name] = learned.turn
    return learned.policy
