"""Keeps what the router saw and weighed, so that a better router can be learnt from it, and any other evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.keepers.keeper import Kept
from gateway.keepers.request import completion_id
from router.finished import Finished
from router.plan import Action, Attempt, Candidate, ExampleSelection, Plan, Weighed
from router.proving.standing import Proof
from store.decisions.choices import Choices
from store.records import PROOF_COMPARED, PROOF_LEAST, PROOF_LOWER, PROOF_UPPER, ChoiceRecord


class ChoiceKeeper:
    """Keeps what the router saw and weighed; for a rule, which weighs nothing, what it saw and did.

    `engines`: those of each served model, small to large. What a rule could have done instead follows from them.
    """

    def __init__(
        self,
        choices: Choices,
        engines: Mapping[str, Sequence[str]],
        *,
        embedding_version: str,
    ) -> None:
        self._choices = choices
        self._engines = engines
        self._embedding_version = embedding_version

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper. Nothing for a hit, nor for a policy that does not look at requests."""
        plan, attempt = finished.plan, finished.attempt
        if finished.hit is not None or plan is None or attempt is None:
            return
        if plan.vector is None and plan.choice is None and plan.proof is None:
            return
        if finished.asked.controls.no_store:
            yield "choice", "opted_out"
        elif not 200 <= finished.status < 300:
            yield "choice", "error"
        elif not finished.complete:
            yield "choice", "incomplete"
        else:
            yield "choice", self._choices.record(self._record(finished, plan, attempt))

    def _record(self, finished: Finished, plan: Plan, attempt: Attempt) -> ChoiceRecord:
        arrival, choice, helped = finished.arrival, plan.choice, plan.helped
        first_s = finished.first_chunk_s
        # A rule draws nothing: what it did is in `engine` and `example_ids`, and was never one of several by chance.
        actions = _rules_actions(plan, self._engines.get(finished.model, ()))
        chosen = chosen_without_load = -1
        if choice is not None:
            actions = tuple(_action(weighed) for weighed in choice.weighed)
            chosen, chosen_without_load = choice.chosen, choice.chosen_without_load
        # What stood in was not chosen for this request: without what the router saw, no outcome becomes a lesson for it.
        vector = plan.vector if finished.failed_over is None else None
        return ChoiceRecord(
            request_id=arrival.id,
            tenant=arrival.tenant,
            contributor=finished.asked.contributor,
            at_s=arrival.started_at_s,
            model=finished.model,
            completion_id=completion_id(finished.assembled),
            engine=attempt.engine,
            example_ids=finished.example_ids,
            policy=plan.policy,
            policy_version=plan.policy_version,
            probability=plan.probability,
            vector=vector,
            embedding_version=self._embedding_version if vector is not None else "",
            context=choice.context if choice else {},
            features_version=choice.features_version if choice else "",
            actions=actions,
            chosen=chosen if _as_chosen(finished, plan, attempt, actions, chosen) else -1,
            chosen_without_load=chosen_without_load,
            explored=choice.explored if choice else False,
            floored=choice.floored if choice else False,
            **_examples(plan, attempt, helped),
            cost_usd=finished.cost_usd or 0.0,
            total_ms=round(finished.total_s * 1000, 3),
            first_chunk_ms=None if first_s is None else round(first_s * 1000, 3),
            scope=plan.proof.scope if plan.proof is not None and finished.failed_over is None else "",
            noted=_noted(plan.proof),
            settings=plan.settings,
        )


def _as_chosen(
    finished: Finished, plan: Plan, attempt: Attempt, actions: tuple[dict[str, Any], ...], chosen: int
) -> bool:
    """Tell if what answered is what was drawn: its probability then says how likely this answer was.

    A stand-in may well be one of the actions, but it was not drawn; nor were two engines that said a part of it each, or
    one that the client named.
    """
    if plan.reason == "forced" or finished.by_stand_in or not 0 <= chosen < len(actions):
        return False
    drawn = actions[chosen]
    return (drawn["engine"], drawn["with_examples"]) == (attempt.engine, bool(attempt.examples))


def _action(weighed: Weighed) -> dict[str, Any]:
    return {
        "engine": weighed.action.engine,
        "with_examples": weighed.action.with_examples,
        "probability": weighed.probability,
        "probability_without_load": weighed.probability_without_load,
        "quality": weighed.quality,
        "cost_usd": weighed.cost_usd,
        "latency_s": weighed.latency_s,
        "reward": weighed.reward,
        "features": dict(weighed.features),
        "deviation": weighed.deviation,
        "sure": weighed.sure,
        "allowed": weighed.allowed,
    }


def _rules_actions(plan: Plan, engines: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """All that could have been done, the reference last, with the probabilities of a rule. It expected nothing: null."""
    first = plan.attempts[0]
    taken = Action(first.engine, bool(first.examples))
    possible = [
        Action(engine, with_examples)
        for engine in engines
        for with_examples in (False, True)
        if not (with_examples and engine == engines[-1])
    ]
    return tuple(
        {
            "engine": action.engine,
            "with_examples": action.with_examples,
            "probability": plan.probability if action == taken else 0.0,
            "probability_without_load": plan.probability if action == taken else 0.0,
            "quality": None,
            "cost_usd": None,
            "latency_s": None,
            "reward": None,
            "features": {},
        }
        for action in possible
    )


def _noted(proof: Proof | None) -> dict[str, float]:
    """See store.records.ChoiceRecord.noted."""
    standing = proof.nearest_to_proof() if proof is not None else None
    if proof is None or standing is None:
        return {}
    bounds = {PROOF_LEAST: proof.least, PROOF_LOWER: standing.lower, PROOF_UPPER: standing.upper}
    return {**proof.noted, **bounds, PROOF_COMPARED: standing.compared}


def _examples(plan: Plan, attempt: Attempt, helped: ExampleSelection | None) -> dict[str, Any]:
    sent = {candidate.example.id for candidate in attempt.examples}
    left_out = helped.left_out if helped is not None else {}

    def shown(candidate: Candidate) -> dict[str, Any]:
        id = candidate.example.id
        told = {
            "id": id,
            "similarity": candidate.similarity,
            "gain": candidate.gain,
            "sent": id in sent,
        }
        if id in plan.familiar:
            told["counts"] = plan.familiar[id]
        return told | {"left_out": left_out[id]} if id in left_out and id not in sent else told

    if helped is None:
        return {
            "scorer": "",
            "scorer_features_version": "",
            "candidates": tuple(map(shown, plan.neighbours)),
            "candidate_features": None,
            "quality_alone": 0.0,
            "quality_with": 0.0,
            "most_examples": len(attempt.examples),
            "examples_explored": "",
            "examples_probability": 1.0,
        }
    return {
        "scorer": helped.scorer,
        "scorer_features_version": helped.features_version,
        "candidates": tuple(map(shown, helped.considered)),
        "candidate_features": helped.features,
        "quality_alone": helped.quality_alone,
        "quality_with": helped.quality_with,
        "most_examples": helped.most,
        "examples_explored": helped.explored,
        "examples_probability": helped.probability,
    }
