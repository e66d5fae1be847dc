"""A request's whole way, on one page.

    exact match -> similar question (off by default) -> decide (embed, nearest, score, combine, choose) -> stream -> remember

The stages stand side by side; none calls the next. One that is late or broken is bypassed, and the journey says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from multidict import CIMultiDict

from engines.attempts import Attempts, CarriedOn, Try, continuable
from engines.engine import Engine, EngineReply, EngineRequest, Price
from engines.errors import RequestError
from engines.finished import Body
from gateway.cache_status import BYPASS, MISS, hit_status
from gateway.errors import ending
from gateway.forward import ChunkBuffer, forward
from gateway.journey import Journey
from gateway.replayed import as_events, as_json
from gateway.send import SERVER, Send
from router.asked import Asked
from router.finished import Finished, Outcome
from router.plan import Ask, Attempt, Plan, Policy
from router.policies.fixed import Fixed
from store.answers.exact_key import exact_key
from store.records import ExactAnswer

if TYPE_CHECKING:
    from gateway.reuse.stage import SemanticAnswers, SemanticStage
    from store.answers.exact_cache import ExactCache


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

    @property
    def served_by(self) -> str:
        """Who answers, for keys of remembered answers: another configuration must not replay this one's."""
        return f"{self.policy.name}\n{','.join(self.engines)}"


class Pipeline:
    """Answers chat completions.

    `otherwise` serves models that `models` does not name; None refuses them. `ended` takes what came of each request,
    exactly once, also when it is cancelled; it must not block.
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        models: Mapping[str, ServedModel],
        otherwise: ServedModel | None = None,
        *,
        exact: ExactCache | None = None,
        similar: SemanticAnswers | None = None,
        ended: Callable[[Finished], None],
    ) -> None:
        self._engines = engines
        self._models = models
        self._otherwise = otherwise
        self._exact = exact
        self._similar = similar
        self._ended = ended

    @property
    def model_names(self) -> Collection[str]:
        """The models that are served by name."""
        return self._models.keys()

    def model(self, name: str) -> ServedModel | None:
        """Who serves a model of this name; None where nobody does."""
        return self._models.get(name) or self._otherwise

    async def answer(self, asked: Asked, send: Send) -> Finished:
        """Answer `asked` through `send`. Raises RequestError, EngineError where no answer began, and ClientGone."""
        model = self.model(asked.chat.model)
        if model is None:
            raise LookupError("the model is not served here")
        so_far = _SoFar(asked, model, self._engines[model.reference].info.price)
        try:
            if not await self._from_memory(asked, model, send, so_far):
                plan = await self._decide(asked, model, so_far)
                await self._stream(asked, model, plan, send, so_far)
        except BaseException as error:
            so_far.failed(error, gone=send.gone)
            raise
        finally:
            finished = so_far.finished()
            self._ended(finished)
        return finished

    async def _from_memory(self, asked: Asked, model: ServedModel, send: Send, so_far: _SoFar) -> bool:
        """Send a remembered answer, if there is one for this request, or for a similar one that may share it."""
        journey, more = so_far.journey, {}
        if self._exact is not None and not asked.controls.steers:
            so_far.exact_key = _exact_key(asked, model)
        hit = self._remembered(so_far.exact_key, asked, journey)
        if hit is not None:
            so_far.decided("exact", reason="exact_repeat")
        elif self._similar is not None and model.remember:
            stage = so_far.reuse = await self._similar.consider(
                asked, journey, endpoint=_endpoint(asked), served_by=model.served_by
            )
            if stage is not None and (reused := stage.reused) is not None:
                hit, more = reused.answer, reused.headers()
                so_far.decided("semantic", reused.policy, "reused", reused.decision.probability)
        if hit is None:
            return False
        began = time.perf_counter()
        headers, body = _replayed(hit, asked)
        journey.stage("replay", began)
        _explain(headers, journey, engine="", examples=0)
        headers["x-request-id"] = asked.arrival.id
        headers.update(more)
        so_far.hit, so_far.outcome, so_far.status = hit.body, Outcome.HIT, 200
        send.whole(200, headers, body)
        return True

    def _remembered(self, key: bytes | None, asked: Asked, journey: Journey) -> ExactAnswer | None:
        if self._exact is None or key is None or asked.controls.no_cache:
            return None
        began = time.perf_counter()
        try:
            return self._exact.get(key, time.time())
        except Exception as error:
            journey.bypassed.append(f"exact:{type(error).__name__}")
            return None
        finally:
            journey.stage("exact", began)

    async def _decide(self, asked: Asked, model: ServedModel, so_far: _SoFar) -> Plan:
        controls, journey = asked.controls, so_far.journey
        forced = controls.engine
        if forced is not None and forced not in model.engines:
            raise RequestError(
                f"x-understudy-engine is {forced[:60]!r}; '{model.name}' is served by {', '.join(model.engines)}.",
                code="unknown_engine",
                param="x-understudy-engine",
            )
        ask = Ask(
            asked.chat,
            asked.arrival.tenant,
            controls.max_examples,
            key_id=asked.arrival.key_id,
            preference=controls.preference,
            forced=forced is not None,
            end_user=asked.end_user,
            anonymous=asked.arrival.anonymous,
        )
        try:
            plan = await model.policy.decide(ask)
        except Exception as error:
            # A policy that fails must not fail the request (SPEC §1): the reference engine answers, as without us.
            journey.bypassed.append(f"decide:{type(error).__name__}")
            plan = await Fixed((model.reference,), reason="policy_failed").decide(ask)
        if forced is not None:
            plan = _forced(plan, forced)
        if so_far.reuse is not None:
            plan = so_far.reuse.steered(plan, model.reference)
        so_far.plan = plan
        so_far.decided(plan.policy, plan.policy_version, plan.reason, plan.probability)
        journey.bypassed.extend(plan.bypassed)
        journey.stages_s.update(plan.stages_s)
        return plan

    async def _stream(self, asked: Asked, model: ServedModel, plan: Plan, send: Send, so_far: _SoFar) -> None:
        journey = so_far.journey
        ways, larger = list(plan.attempts), None
        tries = [self._try(way, asked) for way in ways]
        if model.larger_context:
            ways.append(Attempt(model.larger_context))
            larger = self._try(ways[-1], asked)
        carry_on = model.continue_broken and continuable(asked.chat)
        attempts = so_far.attempts = Attempts(tries, larger, carry_on=carry_on)
        journey.asked_at = time.perf_counter()
        async with attempts as reply:
            journey.waited_s = time.perf_counter() - journey.asked_at
            journey.bypassed.extend(f"engine:{name}" for name in attempts.failures)
            way = ways[attempts.index]
            so_far.began(reply, way, self._engines[way.engine].info.price)
            reply.headers.add("Cache-Status", MISS if "exact" in journey.stages_s else BYPASS)
            _explain(reply.headers, journey, engine=way.engine, examples=len(way.examples))
            broken = await forward(reply, attempts.chunks(), send, journey, kept=so_far.kept)
        if broken is not None:
            so_far.outcome, so_far.error = Outcome.FAILED, broken.message
        else:
            so_far.outcome = Outcome.ANSWERED if reply.status < 400 else Outcome.UPSTREAM_ERROR

    def _try(self, way: Attempt, asked: Asked) -> Try:
        engine = self._engines[way.engine]
        chat, headers = asked.chat.rewritten(model=engine.info.model, messages=way.messages), asked.headers
        if chat is not asked.chat:
            headers = headers.copy()
            headers.popall("Content-Length", None)
            headers.popall("Content-Encoding", None)
        request = EngineRequest("POST", asked.target, headers, chat.body, chat, asked.arrival.tenant)
        return Try(engine, request, lengthened=bool(way.examples))


class _SoFar:
    """What is known of a request while it is being answered; `finished` makes a frozen value of it, however it ended."""

    def __init__(self, asked: Asked, model: ServedModel, reference_price: Price) -> None:
        self.asked = asked
        self.model = model
        self.journey = Journey(asked.arrival)
        self.kept = ChunkBuffer(asked.max_kept_bytes)
        self.outcome, self.status, self.engine, self.error = Outcome.FAILED, 0, "", ""
        self.exact_key: bytes | None = None
        self.hit: bytes | None = None
        self.reuse: SemanticStage | None = None
        self.plan: Plan | None = None
        self.attempts: Attempts | None = None
        self._reference_price = reference_price
        self._decision = "", "", "", 1.0
        self._way: Attempt | None = None
        self._price = Price()
        self._content_type, self._encoded = "", False

    def decided(self, policy: str, version: str = "", reason: str = "", probability: float = 1.0) -> None:
        """It is known how the request is answered, and why."""
        self._decision = policy, version, reason, probability

    def began(self, reply: EngineReply, way: Attempt, price: Price) -> None:
        """It is known who answers."""
        self.engine, self.status, self._way, self._price = reply.engine, reply.status, way, price
        self._content_type = reply.headers.get("Content-Type", "")
        self._encoded = "Content-Encoding" in reply.headers

    def failed(self, error: BaseException, *, gone: bool) -> None:
        """No answer began, or its reader left."""
        end = ending(error, gone=gone)
        self.outcome = end.outcome
        if end.outcome is not Outcome.ABORTED:
            self.status, self.error = end.status, end.error
        if end.engine is not None:
            self.engine = end.engine

    def finished(self) -> Finished:
        """What came of it, now."""
        asked, journey, way, kept = self.asked, self.journey, self._way, self.kept
        policy, version, reason, probability = self._decision
        attempts = self.attempts
        carried_on = attempts.carried_on if attempts is not None else []
        failed_over = way is not None and attempts is not None and attempts.index > 0
        price, broken_off = _shares(self._price, carried_on)
        return Finished(
            arrival=asked.arrival,
            outcome=self.outcome,
            status=self.status,
            engine=self.engine,
            model=asked.chat.model,
            error=self.error,
            policy=policy,
            policy_version=version,
            reason=f"{reason}+failover" if failed_over else reason,
            probability=probability,
            stages_s=journey.stages_s,
            bypassed=journey.bypassed,
            asked_at=journey.asked_at,
            waited_s=journey.waited_s,
            head_at=journey.head_at,
            first_chunk_at=journey.first_chunk_at,
            ended_at=time.perf_counter(),
            asked=asked,
            plan=self.plan,
            exact_key=self.exact_key,
            hit=self.hit,
            attempt=way,
            failed_over=failed_over,
            carried_on_by=tuple(carried.engine.info.name for carried in carried_on),
            from_reference=(
                way is not None and way.engine == self.model.reference and not way.examples and not carried_on
            ),
            remember=self.model.remember,
            price=price,
            broken_off=broken_off,
            reference_price=self._reference_price,
            body=Body(kept.chunks, kept.size_bytes, self._content_type, self._encoded),
            reuse=self.reuse,
        )


def _shares(first: Price, carried_on: Sequence[CarriedOn]) -> tuple[Price, tuple[tuple[Price, int], ...]]:
    """The price of the engine that gave the end of an answer; and of each that broke off before, with the tokens it gave."""
    price, broken_off, before = first, [], 0
    for carried in carried_on:
        tokens = max(0, carried.tokens_before - before)
        broken_off.append((price, tokens))
        before += tokens
        price = carried.engine.info.price
    return price, tuple(broken_off)


def _endpoint(asked: Asked) -> str:
    """What else can change the answer: path and query (an API version, say), and a beta switched on."""
    return f"{asked.target}\n{asked.headers.get('OpenAI-Beta', '')}"


def _exact_key(asked: Asked, model: ServedModel) -> bytes:
    return exact_key(asked.remembered_for, _endpoint(asked), model.served_by, asked.chat.fields)


def _replayed(hit: ExactAnswer, asked: Asked) -> tuple[CIMultiDict[str], bytes]:
    """A remembered answer as this client wants it: a stream, or JSON."""
    chat = asked.chat
    if chat.stream:
        body = as_events(hit.body, include_usage=chat.include_usage, chat=chat)
        content_type = "text/event-stream; charset=utf-8"
    else:
        body = as_json(hit.body, usage_missing=hit.usage_estimated, chat=chat)
        content_type = hit.content_type
    age_s = max(0, int(time.time() - hit.stored_at_s))
    headers = CIMultiDict(
        {
            "Content-Type": content_type,
            "Server": SERVER,
            "Cache-Status": hit_status(hit, age_s),
            "Age": str(age_s),
        }
    )
    if hit.usage_estimated:
        headers["x-understudy-usage"] = "estimated"
    return headers, body


def _forced(plan: Plan, engine: str) -> Plan:
    """The plan of a client that names its engine: that one only, with the examples the policy found for it."""
    chosen = next((attempt for attempt in plan.attempts if attempt.engine == engine), Attempt(engine))
    return replace(plan, attempts=(chosen,), reason="forced", probability=1.0, choice=None)


def _explain(headers: CIMultiDict[str], journey: Journey, *, engine: str, examples: int) -> None:
    if engine:
        headers["x-understudy-engine"] = engine
    headers["x-understudy-examples"] = str(examples)
    headers["x-understudy-decision-id"] = journey.arrival.id
    headers["x-understudy-overhead-ms"] = f"{journey.overhead_ms():.2f}"
