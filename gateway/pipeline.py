"""A request's whole way, on one page.

    exact match -> similar question (off by default) -> decide (embed, nearest, score, combine, choose) -> stream -> remember

The stages stand side by side; none calls the next. Each one is bypassed when it is late or broken, and the journey says so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from aiohttp import web
from multidict import CIMultiDict

from engines.attempts import Attempts, CarriedOn, Try, continuable
from engines.chat import ChatRequest
from engines.engine import Engine, EngineReply, EngineRequest
from engines.errors import RequestError
from gateway.answer import Answer
from gateway.cache_status import BYPASS, MISS, hit_status
from gateway.journey import Journey, Outcome
from gateway.own_response import own_response
from gateway.relay import relay
from gateway.replayed import as_events, as_json
from router.plan import Ask, Attempt, Plan
from router.policies.fixed import Fixed
from router.policy import Policy
from store.records import ExactAnswer

if TYPE_CHECKING:
    from gateway.reuse.stage import SemanticAnswers


class ExactAnswers(Protocol):
    """What is needed of store.answers.exact_cache.ExactCache."""

    def get(self, key: bytes, now_s: float) -> ExactAnswer | None: ...


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model name and who may answer it."""

    name: str
    engines: tuple[str, ...]
    policy: Policy
    remember: bool = True
    continue_broken: bool = True
    larger_context: str | None = None

    @property
    def reference(self) -> str:
        """The engine whose answers are the standard, and become examples."""
        return self.engines[-1]


class Pipeline:
    """Answers chat completions."""

    def __init__(
        self,
        engines: Mapping[str, Engine],
        exact: ExactAnswers | None,
        similar: SemanticAnswers | None = None,
    ) -> None:
        self._engines = engines
        self._exact = exact
        self._similar = similar

    async def answer(
        self,
        request: web.BaseRequest,
        target: str,
        headers: CIMultiDict[str],
        answer: Answer,
        model: ServedModel,
        journey: Journey,
    ) -> web.StreamResponse:
        """Answer `answer.chat`, filling in `answer` on the way.

        The door hands the journey, and with it the answer, to the recorder: exactly once, also when cancelled.
        """
        journey.answer = answer
        answer.reference_price = self._engines[model.reference].info.price
        hit = self._remembered(answer, journey)
        if hit is not None:
            return self._replay(hit, answer, journey)
        reused = await self._reused(target, headers, answer, model, journey)
        if reused is not None:
            return reused
        plan = await self._decide(answer, model, journey)
        return await self._stream(request, target, headers, answer, model, plan, journey)

    def _remembered(self, answer: Answer, journey: Journey) -> ExactAnswer | None:
        if self._exact is None or answer.exact_key is None or answer.controls.no_cache:
            return None
        began = time.perf_counter()
        try:
            return self._exact.get(answer.exact_key, time.time())
        except Exception as error:
            journey.bypassed.append(f"exact:{type(error).__name__}")
            return None
        finally:
            journey.stage("exact", began)

    async def _reused(
        self, target: str, headers: CIMultiDict[str], answer: Answer, model: ServedModel, journey: Journey
    ) -> web.Response | None:
        if self._similar is None or not model.remember:
            return None
        endpoint = f"{target}\n{headers.get('OpenAI-Beta', '')}"
        served_by = f"{model.policy.name}\n{','.join(model.engines)}"
        reused = await self._similar.consider(answer, journey, endpoint=endpoint, served_by=served_by)
        if reused is None:
            return None
        response = self._replay(reused.answer, answer, journey)
        journey.policy, journey.policy_version = "semantic", reused.policy
        journey.reason, journey.probability = "reused", reused.decision.probability
        response.headers.update(reused.headers())
        return response

    def _replay(self, hit: ExactAnswer, answer: Answer, journey: Journey) -> web.Response:
        began = time.perf_counter()
        chat = answer.chat
        if chat.stream:
            body = as_events(hit.body, include_usage=chat.include_usage, chat=chat)
            content_type = "text/event-stream; charset=utf-8"
        else:
            body = as_json(hit.body, usage_missing=hit.usage_estimated, chat=chat)
            content_type = hit.content_type
        answer.hit = hit.body
        journey.outcome, journey.status = Outcome.HIT, 200
        journey.policy, journey.reason = "exact", "exact_repeat"
        journey.stage("replay", began)
        age_s = max(0, int(time.time() - hit.stored_at_s))
        headers = {"Cache-Status": hit_status(hit, age_s), "Age": str(age_s)}
        if hit.usage_estimated:
            headers["x-understudy-usage"] = "estimated"
        response = own_response(body, content_type=content_type, headers=headers)
        _explain(response.headers, journey, engine="", examples=0)
        response.headers["x-request-id"] = journey.id
        return response

    async def _decide(self, answer: Answer, model: ServedModel, journey: Journey) -> Plan:
        controls = answer.controls
        forced = controls.engine
        if forced is not None and forced not in model.engines:
            raise RequestError(
                f"x-understudy-engine is {forced[:60]!r}; '{model.name}' is served by {', '.join(model.engines)}.",
                code="unknown_engine",
                param="x-understudy-engine",
            )
        ask = Ask(
            answer.chat,
            journey.tenant,
            controls.max_examples,
            key_id=journey.key_id,
            preference=controls.preference,
            forced=forced is not None,
        )
        try:
            plan = await model.policy.decide(ask)
        except Exception as error:
            # A policy that fails must not fail the request (SPEC §1): the reference engine answers, as without us.
            journey.bypassed.append(f"decide:{type(error).__name__}")
            plan = await Fixed((model.reference,), reason="policy_failed").decide(ask)
        if forced is not None:
            plan = _forced(plan, forced)
        if answer.semantic is not None:
            plan = answer.semantic.steered(plan, model.reference)
        answer.plan = plan
        journey.policy, journey.policy_version = plan.policy, plan.policy_version
        journey.reason, journey.probability = plan.reason, plan.probability
        journey.bypassed.extend(plan.bypassed)
        journey.stages.update(plan.stages_s)
        return plan

    async def _stream(
        self,
        request: web.BaseRequest,
        target: str,
        headers: CIMultiDict[str],
        answer: Answer,
        model: ServedModel,
        plan: Plan,
        journey: Journey,
    ) -> web.StreamResponse:
        tries = [
            self._try(attempt, target, headers, answer.chat, journey.tenant) for attempt in plan.attempts
        ]
        attempts, larger = list(plan.attempts), None
        if model.larger_context:
            attempts.append(Attempt(model.larger_context))
            larger = self._try(attempts[-1], target, headers, answer.chat, journey.tenant)
        journey.asked = time.perf_counter()
        engines = Attempts(tries, larger, carry_on=model.continue_broken and continuable(answer.chat))
        async with engines as reply:
            journey.waited = time.perf_counter() - journey.asked
            journey.bypassed.extend(f"engine:{name}" for name in engines.failures)
            if engines.index > 0:
                journey.reason += "+failover"
            self._begun(reply, attempts[engines.index], answer, model, journey)
            chunks = engines.chunks()
            reply.first, reply.rest = None, chunks
            try:
                response = await relay(request, reply, journey, kept=answer.kept, ends_with_terminal=True)
            finally:
                for carried in engines.carried_on:
                    self._carried_on(carried, answer, journey)
        answer.complete = journey.outcome is Outcome.ANSWERED
        return response

    def _begun(
        self, reply: EngineReply, attempt: Attempt, answer: Answer, model: ServedModel, journey: Journey
    ) -> None:
        """It is known who answers: for the recorder in `answer`, for the client in the reply's headers."""
        journey.example_ids = tuple(c.example.id for c in attempt.examples)
        answer.attempt = attempt
        answer.status = reply.status
        answer.content_type = reply.headers.get("Content-Type", "")
        answer.identity = "Content-Encoding" not in reply.headers
        answer.remember = model.remember
        answer.from_reference = attempt.engine == model.reference and not attempt.examples
        answer.price = self._engines[attempt.engine].info.price
        reply.headers.add("Cache-Status", MISS if "exact" in journey.stages else BYPASS)
        _explain(reply.headers, journey, engine=attempt.engine, examples=len(attempt.examples))

    def _carried_on(self, carried: CarriedOn, answer: Answer, journey: Journey) -> None:
        """An answer of several engines: each is paid, and none is taught, remembered or judged by it."""
        journey.continued.append(carried.engine.info.name)
        before = sum(said for _, said in answer.broken_off)
        answer.broken_off.append((answer.price, max(0, carried.tokens_before - before)))
        answer.price = carried.engine.info.price
        answer.from_reference = False

    def _try(
        self, attempt: Attempt, target: str, headers: CIMultiDict[str], chat: ChatRequest, tenant: str
    ) -> Try:
        engine = self._engines[attempt.engine]
        asked = chat.rewritten(model=engine.info.model, messages=attempt.messages)
        if asked is not chat:
            headers = headers.copy()
            headers.popall("Content-Length", None)
            headers.popall("Content-Encoding", None)
        request = EngineRequest("POST", target, headers, asked.body, asked, tenant)
        return Try(engine, request, lengthened=bool(attempt.examples))


def _forced(plan: Plan, engine: str) -> Plan:
    """The plan of a client that names its engine: that one only, with the examples the policy found for it."""
    chosen = next((attempt for attempt in plan.attempts if attempt.engine == engine), Attempt(engine))
    return replace(plan, attempts=(chosen,), reason="forced", probability=1.0, choice=None)


def _explain(headers: CIMultiDict[str], journey: Journey, *, engine: str, examples: int) -> None:
    if engine:
        headers["x-understudy-engine"] = engine
    headers["x-understudy-examples"] = str(examples)
    headers["x-understudy-decision-id"] = journey.id
    headers["x-understudy-overhead-ms"] = f"{journey.overhead_ms():.2f}"
