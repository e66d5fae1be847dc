"""The stage that decides who is asked, and with which examples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from engines.chat import IN_BODY
from engines.engine import Engine, unsayable
from engines.errors import RequestError
from engines.off_loop import off_loop
from gateway.served_model import ServedModel
from gateway.stages.stage import Next, UnderWay
from router.asked import Asked
from router.plan import POLICY_FAILED, PROOF_TOO_DEAR, SHADOW, Ask, Attempt, Plan
from router.policies.fixed import Fixed
from router.proving.standing import Proof

TooDear = Callable[[str, str, Proof | None], bool]
"""Whether proving more of a served model for a tenant would cost more than it can save. It must not block."""


class PolicyStage:
    """See gateway.stages.stage.Stage."""

    def __init__(self, engines: Mapping[str, Engine], too_dear: TooDear, *, translates: bool = False) -> None:
        """`translates`: some of them may have no words for what is asked."""
        self._engines = engines
        self._too_dear = too_dear
        self._translates = translates

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """See Stage. Raises RequestError (400) for an engine that is named and does not serve the model, and for what can be
        said to none of them."""
        record, model = request.record, request.model
        asked = record.asked
        forced = asked.controls.engine
        if forced is not None and forced not in model.engines:
            raise RequestError(
                f"x-understudy-engine is {forced[:60]!r}; '{model.name}' is served by {', '.join(model.engines)}.",
                code="unknown_engine",
                param="x-understudy-engine",
            )
        ask = _ask(asked)
        try:
            if asked.chat.state:
                plan = await _stateful(asked, model).decide(ask)
            else:
                plan = self._spoken(await model.policy.decide(ask), asked, model)
        except Exception as error:
            # A policy that fails must not fail the request (SPEC §1): the reference engine answers, as without us.
            record.bypassed.append(f"decide:{type(error).__name__}")
            plan = await Fixed((model.reference,), reason=POLICY_FAILED).decide(ask)
        if self._translates and not asked.holder:
            plan = await off_loop(len(asked.chat.body), self._sayable, plan, asked, model)
        if plan.reason == SHADOW and self._too_dear(model.name, ask.tenant, plan.proof):
            plan = replace(plan, reason=PROOF_TOO_DEAR)
        if forced is not None:
            plan = _forced(plan, forced)
        if request.steered is not None:
            plan = request.steered(plan, model.reference)
        record.plan = plan
        record.decided(plan.policy, plan.policy_version, plan.reason, plan.probability)
        record.bypassed.extend(plan.bypassed)
        record.stages_s.update(plan.stages_s)
        return next

    def _spoken(self, plan: Plan, asked: Asked, model: ServedModel) -> Plan:
        """The plan without engines that do not speak the request's API."""
        api = asked.chat.api
        planned = (*plan.attempts, *plan.shadow)
        unspoken = {one.engine for one in planned if not self._engines[one.engine].info.speaks(api)}
        return _without(plan, unspoken, model.engines) if unspoken else plan

    def _sayable(self, plan: Plan, asked: Asked, model: ServedModel) -> Plan:
        """The plan without engines whose API cannot say the request. Raises RequestError where none is left."""
        planned = [one.engine for one in (*plan.attempts, *plan.shadow)]
        why: dict[str, RequestError] = {}
        for name in dict.fromkeys((*planned, *model.engines)):
            if (refusal := unsayable(self._engines[name], asked.chat)) is not None:
                why[name] = refusal
        if not why:
            return plan
        left = tuple(name for name in model.engines if name not in why)
        if not left:
            raise next(iter(why.values()))
        # What depends on more than its body is asked of one.
        return _without(plan, why.keys(), left[-1:] if asked.chat.state else left)


def _without(plan: Plan, left_out: Collection[str], engines: Sequence[str]) -> Plan:
    """The plan without some engines; of these engines the largest first, where it has no others."""
    attempts = tuple(one for one in plan.attempts if one.engine not in left_out)
    shadow = tuple(one for one in plan.shadow if one.engine not in left_out)
    if attempts and attempts[0] is plan.attempts[0]:
        return replace(plan, attempts=attempts, shadow=shadow)
    others = attempts or tuple(Attempt(name) for name in reversed(engines))
    # Who was drawn is not asked: nothing is to be learnt of that choice.
    return replace(
        plan,
        attempts=others,
        shadow=shadow,
        reason="api",
        probability=1.0,
        choice=None,
        proof=None,
        posed=None,
        prediction=None,
    )


def _ask(asked: Asked) -> Ask:
    controls, arrival = asked.controls, asked.arrival
    return Ask(
        asked.chat,
        arrival.tenant,
        controls.max_examples,
        key_id=arrival.key_id,
        preference=controls.preference,
        forced=controls.engine is not None,
        named_scope=controls.scope,
        end_user=asked.end_user,
        anonymous=arrival.anonymous,
        task=controls.task,
        named_session=controls.session,
    )


def _stateful(asked: Asked, model: ServedModel) -> Fixed:
    """Who answers a request that depends on more than its body: who holds that, else the reference. Others only where all
    of it is in the body after all."""
    if asked.chat.state == IN_BODY:
        return Fixed(tuple(reversed(model.engines)), reason="state")
    holder = asked.holder if asked.holder in model.engines else model.reference
    return Fixed((holder,), reason="state")


def _forced(plan: Plan, engine: str) -> Plan:
    """The plan of a client that names its engine: that one only, with the examples the policy found for it."""
    chosen = next((attempt for attempt in plan.attempts if attempt.engine == engine), Attempt(engine))
    return replace(
        plan, attempts=(chosen,), reason="forced", probability=1.0, choice=None, proof=None, shadow=()
    )
