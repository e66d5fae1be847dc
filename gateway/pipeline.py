"""A request's whole way, on one page.

    exact match -> the same in flight -> similar question (off by default) -> decide (embed, nearest, score, combine, choose)
    -> stream -> remember

The stages stand side by side; none calls the next. One that is late or broken is bypassed, and the journey says so.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from multidict import CIMultiDict

from engines.answers.answer import Body
from engines.as_events import EVENTS
from engines.attempts import Attempts, CarriedOn
from engines.candidates import Try
from engines.chat import IN_BODY, ChatRequest, prompt_tokens
from engines.codecs.table import codec_of, request_id_header
from engines.engine import Engine, EngineReply, EngineRequest, Price
from engines.errors import EngineError, Kind, RequestError
from engines.large_json import dumped, outlined
from engines.trail import Tried
from gateway.booking import COST, Meter, shown
from gateway.cache_control import cache_control
from gateway.cache_status import BYPASS, COLLAPSED, MISS, hit_status
from gateway.controls import session_of
from gateway.errors import ENDED_IN_ERROR, ending
from gateway.forward import ChunkBuffer, forward
from gateway.guardrails.contract import STAGE, Withheld, told
from gateway.guardrails.held import HeldAnswer
from gateway.guardrails.stage import Guardrails
from gateway.in_flight import FOLLOWED_AT_MOST, Flight, InFlight
from gateway.journey import Journey
from gateway.limits.bounding import asking_for_usage, bounded, not_asking_for_usage
from gateway.limits.usage_chunk import UsageStripper
from gateway.off_loop import LARGE_BYTES, off_loop
from gateway.same_request import SameRequest, tells_enough, wants_variety
from gateway.send import SERVER, Send
from router.asked import EVERYTHING, Asked
from router.bill import Bill
from router.finished import Finished, Outcome
from router.model_names import ByModelName, plain_names
from router.plan import (
    POLICY_FAILED,
    PROOF_TOO_DEAR,
    SHADOW,
    STUDENT_FAILED,
    WITHOUT_DECISION,
    Ask,
    Attempt,
    Plan,
    Policy,
)
from router.policies.fixed import Fixed
from router.stand_ins import ANYBODY, StandIns
from store.answers.exact_key import exact_key
from store.records import ExactAnswer

if TYPE_CHECKING:
    from gateway.limits.limiter import Limiter
    from gateway.limits.scopes import Scope
    from gateway.reuse.stage import SemanticAnswers, SemanticStage
    from router.proving.standing import Proof
    from store.answers.exact_cache import ExactCache

_TOLD = WITHOUT_DECISION | {SHADOW, PROOF_TOO_DEAR}
"""Reasons that the header x-understudy-reason tells."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model name and who may answer it."""

    name: str
    engines: tuple[str, ...]
    policy: Policy
    remember: bool = True
    continue_broken: bool = True
    larger_context: str | None = None
    digest: str = ""
    """Of what the configuration says of these engines: where they are, which model, which headers are added."""
    ignored_fields: frozenset[str] = frozenset()
    """Further fields of a body that change no answer of theirs."""
    unknown_servers: bool = False
    """Whether some of them may heed headers that nobody here knows."""
    stand_ins: StandIns = ANYBODY
    key_dials: Mapping[str, float] = field(default_factory=dict)
    """Dials of single keys, by key id: what one key is answered need not suit another."""

    @property
    def reference(self) -> str:
        """The engine whose answers are the standard, and become examples."""
        return self.engines[-1]

    def served_by(self, key_id: str | None) -> str:
        """Who answers, and by which dial, for keys of remembered answers: none is replayed under another configuration."""
        dial = self.key_dials.get(key_id or "")
        return "\n".join(
            [self.policy.name, ",".join(self.engines), self.digest, "" if dial is None else f"{dial}"]
        )


async def stands_always(asked: Asked, answer: ExactAnswer) -> bool:
    """What a remembered answer names is taken to be there."""
    return True


class Pipeline:
    """Answers chat completions.

    `otherwise` serves models that `models` does not name; None refuses them. `sampled`: also requests that want another
    answer each time are answered from memory. `single_flight`: the same request, asked while it is being answered, gets that
    answer. `too_dear` says of a served model's request that is not offloaded yet whether proving more would cost more than
    it can save; it must not block. `ended` takes what came of each request, exactly once, also when it is cancelled; it must
    not block.
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        models: Mapping[str, ServedModel],
        otherwise: ServedModel | None = None,
        *,
        exact: ExactCache | None = None,
        similar: SemanticAnswers | None = None,
        sampled: bool = False,
        single_flight: bool = False,
        too_dear: Callable[[str, str, Proof | None], bool] = lambda model, tenant, proof: False,
        limiter: Limiter | None = None,
        guardrails: Guardrails | None = None,
        stands: Callable[[Asked, ExactAnswer], Awaitable[bool]] = stands_always,
        same: SameRequest | None = None,
        ended: Callable[[Finished], None],
    ) -> None:
        """`stands` says whether what a remembered answer names is still there."""
        self._engines = engines
        self._models = ByModelName(models)
        self._stands = stands
        self._same = same or SameRequest()
        self._otherwise = otherwise
        self._exact = exact
        self._similar = similar
        self._sampled = sampled
        self._in_flight = InFlight() if single_flight else None
        self._too_dear = too_dear
        self._limiter = limiter
        self._guardrails = guardrails
        self._ended = ended

    @property
    def serves_models(self) -> bool:
        """Whether any models are served by name."""
        return len(self._models) > 0

    @property
    def model_names(self) -> Collection[str]:
        """The models that are served by name."""
        return plain_names(self._models)

    def model(self, name: str) -> ServedModel | None:
        """Who serves a model of this name; None where nobody does."""
        return self._models.get(name) or self._otherwise

    def reference(self, chat: ChatRequest) -> str:
        """The engine whose answers to this request are the standard; empty where nobody answers it."""
        model = self.model(chat.model)
        speaking = [e for e in model.engines if self._engines[e].info.speaks(chat.api)] if model else []
        return speaking[-1] if speaking else ""

    def prices(self, name: str) -> dict[str, Price]:
        """What each engine charges that may be asked for a model, by its name."""
        model = self.model(name)
        asked = (*model.engines, *filter(None, [model.larger_context])) if model is not None else ()
        return {engine: self._engines[engine].info.price_of(name) for engine in asked}

    def most(self, chat: ChatRequest) -> tuple[float, int]:
        """(dollars, tokens) that a request may take; 0 where nothing is remembered, or its engines have no price."""
        if self._limiter is None:
            return 0.0, 0
        return self._limiter.most(chat, list(self.prices(chat.model).values()))

    async def answer(self, asked: Asked, send: Send) -> Finished:
        """Answer `asked` through `send`. Raises RequestError, EngineError where no answer began, and ClientGone."""
        model = self.model(asked.chat.model)
        if model is None:
            raise LookupError("the model is not served here")
        so_far = _SoFar(asked, model, self._engines[model.reference].info.price_of(asked.chat.model))
        flight: Flight | None = None
        held: HeldAnswer | None = None
        try:
            if self._guardrails is not None:
                asked, send, held = await self._guarded(self._guardrails, asked, send, so_far)
            if asked.arrival.reach is not EVERYTHING:
                model = self._allowed(model, asked)
            model = self._speaking(model, asked)
            if model is not so_far.model:
                so_far.served_by(model, self._engines[model.reference].info.price_of(asked.chat.model))
            if self._limiter is not None and asked.arrival.key_id is not None:
                asked = so_far.limited(self._limiter)
            varied = not self._sampled and wants_variety(asked.chat.own_fields)
            so_far.replayable = not (varied or asked.chat.state)
            if not await self._from_memory(asked, model, send, so_far):
                flight = (
                    self._in_flight.lead(asked, so_far.exact_key)
                    if self._in_flight and held is None
                    else None
                )
                plan = await self._plan(asked, model, send, so_far) if flight is None else None
                if plan is not None:
                    await self._stream(asked, model, plan, send, so_far)
            if held is not None and self._guardrails is not None:
                await self._judged(self._guardrails, held, asked, so_far)
        except BaseException as error:
            so_far.failed(error, gone=send.gone)
            raise
        finally:
            if flight is None:
                finished = so_far.finished()
                self._ended(finished)
        if flight is not None:
            finished = await flight.led(send, partial(self._led, asked, model, send, so_far))
        return finished

    async def _guarded(
        self, guardrails: Guardrails, asked: Asked, send: Send, so_far: _SoFar
    ) -> tuple[Asked, Send, HeldAnswer | None]:
        """The request as it is to be answered, and what holds its answer back until it is judged. Raises Withheld."""
        if asked.arrival.guarded is None:
            # A step of a run, which came through no door.
            asked = so_far.asked = await guardrails.step(asked, so_far.journey)
        held = guardrails.hold(
            asked.arrival, asked.chat.model, asked.chat.own_fields, send, asked.max_kept_bytes
        )
        return asked, held or send, held

    async def _judged(self, guardrails: Guardrails, held: HeldAnswer, asked: Asked, so_far: _SoFar) -> None:
        """Send the answer on, as guardrails have it; what they replaced is not remembered. Raises Withheld."""
        chat, codec = asked.chat, codec_of(asked.chat)
        by = await guardrails.release(held, codec, asked.arrival, chat.own_fields, chat, so_far.journey)
        if by:
            so_far.withheld(by)

    def _allowed(self, model: ServedModel, asked: Asked) -> ServedModel:
        """The model as this asker may use it: with engines of their region only. Raises RequestError (403)."""
        reach, name = asked.arrival.reach, asked.chat.model
        if not reach.allows_model(name):
            raise not_allowed(
                f"The model '{name[:100]}' is not among those that this key may use.", "model_not_allowed"
            )
        everyone = (*model.engines, *((model.larger_context,) if model.larger_context else ()))
        infos = {one: self._engines[one].info for one in everyone}
        if reach.priced_only and not all(info.price_of(name).known for info in infos.values()):
            raise not_allowed(
                f"What this key may spend is limited, and not every engine of '{name[:100]}' has a price.",
                "unpriced",
            )
        if all(reach.allows_region(info.region) for info in infos.values()):
            return model
        there = tuple(one for one in model.engines if reach.allows_region(infos[one].region))
        if not there:
            raise not_allowed(
                f"This tenant's requests are answered in the region '{reach.region}' only, where no engine serves"
                f" '{name[:100]}'.",
                "region_not_allowed",
            )
        larger = model.larger_context
        return replace(
            model,
            engines=there,
            # What was learnt chooses among all of them, and would ask the others.
            policy=Fixed(tuple(reversed(there)), reason="region"),
            larger_context=larger if larger and reach.allows_region(infos[larger].region) else None,
        )

    def _speaking(self, model: ServedModel, asked: Asked) -> ServedModel:
        """The model with those engines only that speak the request's API. Raises RequestError (404) where none does."""
        api = asked.chat.api
        speaking = tuple(name for name in model.engines if self._engines[name].info.speaks(api))
        larger = model.larger_context
        if larger is not None and not self._engines[larger].info.speaks(api):
            larger = None
        if not speaking:
            raise not_spoken(asked.chat.model, codec_of(asked.chat).path)
        if api == "completions":
            # A prompt is no conversation: nothing was learnt about it, and examples have no place in it.
            return replace(
                model, engines=speaking, larger_context=larger, policy=Fixed(speaking[::-1], reason="api")
            )
        if len(speaking) == len(model.engines) and larger == model.larger_context:
            return model
        return replace(model, engines=speaking, larger_context=larger)

    async def _led(
        self, asked: Asked, model: ServedModel, send: Send, so_far: _SoFar, shared: Send
    ) -> Finished:
        """The same for a request that others may follow: they get what an engine says to `shared`."""
        try:
            plan = await self._plan(asked, model, send, so_far)
            if plan is not None:
                await self._stream(asked, model, plan, shared, so_far)
        except BaseException as error:
            so_far.failed(error, gone=send.gone)
            raise
        finally:
            finished = so_far.finished()
            self._ended(finished)
        return finished

    # ---- answers that are there, or on their way

    async def _from_memory(self, asked: Asked, model: ServedModel, send: Send, so_far: _SoFar) -> bool:
        """Send the answer that the very same request was given, or is being given now."""
        if self._exact is not None and so_far.replayable and not asked.controls.steers:
            where = self._same.endpoint(asked.target, asked.headers)
            otherwise = await off_loop(len(asked.chat.body), _exact_key, asked, where, model)
            so_far.exact_key = self._same.key(otherwise, asked.headers, others=model.unknown_servers)
        for more in range(FOLLOWED_AT_MOST, -1, -1):
            hit = await self._remembered(so_far.exact_key, asked, so_far.journey)
            if hit is not None:
                so_far.decided("exact", reason="cache_hit")
                await self._replay(hit, asked, send, so_far)
                return True
            flight = self._in_flight.leader(asked, so_far.exact_key) if more and self._in_flight else None
            if flight is None:
                return False
            with flight.followed():
                if await self._follow(flight, asked, send, so_far):
                    return True
        return False

    async def _follow(self, flight: Flight, asked: Asked, send: Send, so_far: _SoFar) -> bool:
        """Send what another request is being sent; False, and nothing is sent, where that cannot be."""
        journey, began = so_far.journey, time.perf_counter()
        headers = await flight.head_for(asked)
        journey.waited_s += time.perf_counter() - began
        if headers is None:
            return False
        reply = EngineReply(200, headers, flight.chunks())
        headers["Cache-Status"] = COLLAPSED
        headers[request_id_header(asked.chat.api)] = asked.arrival.id
        so_far.decided("exact", reason="in_flight")
        so_far.follows(reply)
        if not asked.chat.stream:
            headers[COST] = shown(0.0)
        _explain(headers, journey, engine="", examples=0)
        try:
            tail = codec_of(asked.chat).tail(headers, asked.chat.choices)
            broken = await forward(reply, reply.chunks, send, journey, kept=so_far.kept, tail=tail)
        except EngineError:
            # It broke before anything was sent.
            so_far.hit = None
            return False
        so_far.outcome = Outcome.HIT
        if broken is not None:
            so_far.outcome, so_far.error = Outcome.FAILED, broken.message
        return True

    async def _replay(
        self,
        hit: ExactAnswer,
        asked: Asked,
        send: Send,
        so_far: _SoFar,
        more: Mapping[str, str] | None = None,
    ) -> None:
        began = time.perf_counter()
        headers, body = await off_loop(len(hit.body), _replayed, hit, asked)
        so_far.journey.stage("replay", began)
        _explain(headers, so_far.journey, engine="", examples=0)
        headers[request_id_header(asked.chat.api)] = asked.arrival.id
        if not asked.chat.stream:
            headers[COST] = shown(0.0)
        headers.update(more or {})
        so_far.hit, so_far.outcome, so_far.status = hit.body, Outcome.HIT, 200
        send.whole(200, headers, body)

    async def _remembered(self, key: bytes | None, asked: Asked, journey: Journey) -> ExactAnswer | None:
        if self._exact is None or key is None or asked.controls.no_cache:
            return None
        began = time.perf_counter()
        try:
            answer = await self._exact.find(key, time.time())
            if answer is None or not tells_enough(answer, asked.chat):
                return None
            return answer if await self._stands(asked, answer) else None
        except Exception as error:
            journey.bypassed.append(f"exact:{type(error).__name__}")
            return None
        finally:
            journey.stage("exact", began)

    # ---- answers of engines

    async def _plan(self, asked: Asked, model: ServedModel, send: Send, so_far: _SoFar) -> Plan | None:
        """Who is to be asked; None where a similar question's answer was sent, which is for this client alone."""
        chat = asked.chat
        if self._similar is not None and model.remember and so_far.replayable and chat.api == "chat":
            stage = so_far.reuse = await self._similar.consider(
                asked,
                so_far.journey,
                endpoint=self._same.told(asked.target, asked.headers, others=model.unknown_servers),
                served_by=model.served_by(asked.arrival.key_id),
                ignored_fields=model.ignored_fields,
            )
            if stage is not None and (reused := stage.reused) is not None:
                so_far.reused_example = reused.example_id
                so_far.decided("semantic", reused.policy, "reused", reused.decision.probability)
                await self._replay(reused.answer, asked, send, so_far, reused.headers())
                return None
        return await self._decide(asked, model, so_far)

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
            named_scope=controls.scope,
            end_user=asked.end_user,
            anonymous=asked.arrival.anonymous,
            task=controls.task,
        )
        try:
            if asked.chat.state:
                plan = await _stateful(asked, model).decide(ask)
            else:
                plan = self._spoken(await model.policy.decide(ask), asked, model)
        except Exception as error:
            # A policy that fails must not fail the request (SPEC §1): the reference engine answers, as without us.
            journey.bypassed.append(f"decide:{type(error).__name__}")
            plan = await Fixed((model.reference,), reason=POLICY_FAILED).decide(ask)
        if plan.reason == SHADOW and self._too_dear(model.name, ask.tenant, plan.proof):
            plan = replace(plan, reason=PROOF_TOO_DEAR)
        if forced is not None:
            plan = _forced(plan, forced)
        if so_far.reuse is not None:
            plan = so_far.reuse.steered(plan, model.reference)
        so_far.plan = plan
        so_far.decided(plan.policy, plan.policy_version, plan.reason, plan.probability)
        journey.bypassed.extend(plan.bypassed)
        journey.stages_s.update(plan.stages_s)
        return plan

    def _spoken(self, plan: Plan, asked: Asked, model: ServedModel) -> Plan:
        """The plan without engines that do not speak the request's API."""
        attempts = tuple(one for one in plan.attempts if self._speaks(one, asked))
        if len(attempts) == len(plan.attempts):
            return plan
        shadow = tuple(one for one in plan.shadow if self._speaks(one, asked))
        if attempts and attempts[0] is plan.attempts[0]:
            return replace(plan, attempts=attempts, shadow=shadow)
        others = attempts or tuple(Attempt(name) for name in reversed(model.engines))
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

    def _speaks(self, way: Attempt, asked: Asked) -> bool:
        return self._engines[way.engine].info.speaks(asked.chat.api)

    async def _stream(self, asked: Asked, model: ServedModel, plan: Plan, send: Send, so_far: _SoFar) -> None:
        journey = so_far.journey
        size = len(asked.chat.body)
        proven = plan.proof.open_actions() if plan.proof is not None else ()
        found = model.stand_ins.ways(plan.attempts, proven, plan.settings.get("offload_cap", 0.0))
        if model.larger_context:
            found.append((Attempt(model.larger_context), False))
        ways = [way for way, _ in found]
        chat = self._counted(asked, ways, so_far)
        tries = [await off_loop(size, self._try, way, asked, chat, in_outage) for way, in_outage in found]
        if self._limiter is not None and so_far.scopes:
            so_far.bill = await self._reserved(tries, asked, so_far.scopes)
        larger = tries.pop() if model.larger_context else None
        attempts = so_far.attempts = Attempts(tries, larger, carry_on=model.continue_broken)
        journey.asked_at = time.perf_counter()
        async with attempts as reply:
            journey.waited_s += time.perf_counter() - journey.asked_at
            way = ways[attempts.index]
            if ways[0].prediction is not None and way is not ways[0]:
                # It is no engine that failed, but a stage that was to spare one.
                so_far.without_student = True
                so_far.decided(plan.policy, plan.policy_version, STUDENT_FAILED, plan.probability)
                journey.bypassed.append("student:no_answer")
            journey.bypassed.extend(f"engine:{name}" for name in attempts.failures)
            so_far.began(reply, way, self._engines[way.engine].info.price_of(asked.chat.model))
            reply.headers.add("Cache-Status", MISS if "exact" in journey.stages_s else BYPASS)
            _explain(reply.headers, journey, engine=way.engine, examples=len(way.examples))
            if plan.posed is not None:
                reply.headers["x-understudy-task"] = plan.posed.task.name
            if plan.reason in _TOLD:
                reply.headers["x-understudy-reason"] = plan.reason
            if attempts.index > so_far.without_student:
                planned = plan.attempts[so_far.without_student].engine
                reply.headers["x-understudy-failed-over"] = str(_planned(planned, attempts))
            codec = codec_of(asked.chat)
            tail = codec.tail(reply.headers, asked.chat.choices) if reply.status < 400 else None
            broken = await forward(
                reply,
                attempts.chunks(tail),
                send,
                journey,
                kept=so_far.kept,
                meter=self._meter(way, reply, asked),
                tail=tail,
                must_end=True,
                strip=UsageStripper() if chat is not asked.chat and reply.streams_events else None,
            )
        if broken is not None:
            so_far.outcome, so_far.error = Outcome.FAILED, broken.message
        elif tail is not None and tail.failed():
            so_far.outcome, so_far.error = Outcome.FAILED, ENDED_IN_ERROR
        else:
            so_far.outcome = Outcome.ANSWERED if reply.status < 400 else Outcome.UPSTREAM_ERROR

    def _meter(self, way: Attempt, reply: EngineReply, asked: Asked) -> Meter | None:
        """What reads the cost of an answer that has a head to say it in; the recorder reads what others used."""
        sent = way.messages or asked.chat.messages
        if reply.streams_events:
            return None
        return Meter(
            self._engines[way.engine].info,
            reply,
            method="POST",
            target=asked.target,
            model=asked.chat.model,
            prompt_tokens=lambda: prompt_tokens(sent),
            only_cost=True,
        )

    def _counted(self, asked: Asked, ways: Sequence[Attempt], so_far: _SoFar) -> ChatRequest:
        """The request that engines get: it asks for its usage, where there is something to count and its client did not."""
        chat = asked.chat
        asks = asking_for_usage(chat.api, chat.own_fields)
        if not asks:
            return chat
        priced = any(self._engines[way.engine].info.price_of(chat.model).known for way in ways)
        if not priced and not any(scope.spends for scope in so_far.scopes):
            return chat
        if chat.raw is None:
            return chat.changed(asks)
        fields = {**chat.raw, **asks}
        return codec_of(chat).read(dumped(fields, like=chat.body), fields)

    async def _reserved(self, tries: Sequence[Try], asked: Asked, scopes: Sequence[Scope]) -> Bill | None:
        """What any of these may cost is set aside. Raises LimitReached."""
        assert self._limiter is not None
        chat = asked.chat
        size_bytes = max(len(one.request.body) for one in tries if isinstance(one.request.body, bytes))
        if "Content-Encoding" in asked.headers:
            # What was packed is paid for unpacked.
            size_bytes = max(
                size_bytes, await off_loop(LARGE_BYTES, lambda: len(dumped(chat.own_fields, like=chat.body)))
            )
        # A student's answer is no engine's, and costs nothing.
        prices = [one.engine.info.price_of(chat.model) for one in tries if one.request.prediction is None]
        return await self._limiter.ask(scopes, chat.model, prices, size_bytes, chat.own_fields, chat.api)

    def _try(self, way: Attempt, asked: Asked, wanted: ChatRequest, in_outage: bool) -> Try:
        engine = self._engines[way.engine]
        # A step of a run asks for its usage by our own word, not its client's.
        of_a_run = asked.placement is not None and bool(asked.placement.run)
        plain = not_asking_for_usage(asked.chat) if of_a_run else asked.chat
        if not engine.info.tells_usage.asked:
            wanted = plain
        changed = partial(codec_of(wanted).changed, model=engine.info.model, messages=way.messages)
        chat, headers, without_usage = changed(wanted), asked.headers, None
        if wanted is not plain:
            without_usage = partial(_body, changed, plain)
            # Its usage is to be read on its way.
            headers = headers.copy()
            headers["Accept-Encoding"] = "identity"
        if chat is not asked.chat:
            headers = headers.copy()
            headers.popall("Content-Length", None)
            headers.popall("Content-Encoding", None)
        placement = asked.placement
        if placement is not None and way.messages is not None:
            placement = placement.among(way.messages, asked.chat.messages)
        request = EngineRequest(
            "POST",
            asked.target,
            headers,
            chat.body,
            chat,
            asked.arrival.tenant,
            prediction=way.prediction,
            placement=placement,
            as_asked=asked.chat,
            session=session_of(asked.controls.session, asked.chat.own_fields),
            without_usage=without_usage,
            not_at=asked.not_at,
        )
        return Try(engine, request, in_outage)


def _body(changed: Callable[[ChatRequest], ChatRequest], chat: ChatRequest) -> bytes:
    return changed(chat).body


class _SoFar:
    """What is known of a request while it is being answered; `finished` makes a frozen value of it, however it ended."""

    def __init__(self, asked: Asked, model: ServedModel, reference_price: Price) -> None:
        self.asked = asked
        self.model = model
        self.journey = Journey(asked.arrival)
        self._stored, self._guardrail = not asked.controls.no_store, ""
        if (guarded := asked.arrival.guarded) is not None and guarded.spent_s:
            self.journey.stages_s[STAGE] = guarded.spent_s
            self.journey.bypassed.extend(guarded.bypassed)
        self.kept = ChunkBuffer(asked.max_kept_bytes)
        self.outcome, self.status, self.engine, self.error, self.told = Outcome.FAILED, 0, "", "", ""
        self._came: ChatRequest | None = None
        self.exact_key: bytes | None = None
        self.replayable = False
        self.hit: bytes | None = None
        self.reuse: SemanticStage | None = None
        self.reused_example: int | None = None
        self.scopes: tuple[Scope, ...] = ()
        self.bill: Bill | None = None
        self.plan: Plan | None = None
        self.attempts: Attempts | None = None
        self.without_student = False
        """Whether a student that was to answer had no answer: who is next is who would have been asked without it."""
        self._reference_price = reference_price
        self._decision = "", "", "", 1.0
        self._way: Attempt | None = None
        self._price = Price()
        self._content_type, self._encoded, self._replay_forbidden = "", False, False

    def limited(self, limiter: Limiter) -> Asked:
        """The request with the most output that its limits allow. Raises RequestError."""
        chat = self.asked.chat
        self.scopes = limiter.scopes_of(self.asked.arrival)
        if self.scopes:
            changes = limiter.bounded(self.scopes, chat.own_fields, chat.api)
            if changes:
                self._came, self.asked = chat, bounded(self.asked, changes)
        return self.asked

    def served_by(self, model: ServedModel, reference_price: Price) -> None:
        """Not all of the model's engines may be asked this."""
        self.model, self._reference_price = model, reference_price

    def decided(self, policy: str, version: str = "", reason: str = "", probability: float = 1.0) -> None:
        """It is known how the request is answered, and why."""
        self._decision = policy, version, reason, probability

    def began(self, reply: EngineReply, way: Attempt, price: Price) -> None:
        """It is known who answers."""
        self.engine, self.status, self._way, self._price = reply.engine, reply.status, way, price
        self._content_type = reply.headers.get("Content-Type", "")
        self._encoded = "Content-Encoding" in reply.headers
        self._replay_forbidden = cache_control(reply.headers).forbids_replay

    def follows(self, reply: EngineReply) -> None:
        """It is sent another request's answer."""
        self.hit, self.status = b"", reply.status
        self._content_type = reply.headers.get("Content-Type", "")
        self._encoded = "Content-Encoding" in reply.headers

    def failed(self, error: BaseException, *, gone: bool) -> None:
        """No answer began, or its reader left."""
        if isinstance(error, Withheld):
            self.withheld(error.guardrail)
        end = ending(error, gone=gone, sent_all=self.journey.sent_all)
        follows = self.hit is not None and end.outcome is Outcome.ANSWERED
        self.outcome = Outcome.HIT if follows else end.outcome
        if end.status:
            self.status, self.error, self.told = end.status, end.error, end.told
        if end.engine is not None:
            self.engine = end.engine

    def withheld(self, guardrail: str) -> None:
        """A guardrail keeps what was asked or said from its client: nothing of it is remembered, judged or compared."""
        self._guardrail = guardrail
        self.asked = replace(self.asked, controls=replace(self.asked.controls, no_store=True))
        self.exact_key = self.reuse = None

    def finished(self) -> Finished:
        """What came of it, now."""
        if self.plan is not None and self.plan.late is not None:
            self.plan = self.plan.with_late()
        asked, journey, way, kept = self.asked, self.journey, self._way, self.kept
        policy, version, reason, probability = self._decision
        attempts = self.attempts
        carried_on = attempts.carried_on if attempts is not None else []
        failed_over = None
        if attempts is not None and self.plan is not None and way is not None:
            by_others = any(carried.engine.info.name != way.engine for carried in carried_on)
            if attempts.index > self.without_student or by_others:
                failed_over = _planned(self.plan.attempts[self.without_student].engine, attempts)
        instead_of = None
        if failed_over is None and way is not None and self.plan is not None:
            instead_of = _down_then(self.plan, way.engine)
        as_decided = failed_over is None and instead_of is None
        price, broken_off = _shares(self._price, carried_on, asked.chat.model)
        return Finished(
            arrival=asked.arrival,
            outcome=self.outcome,
            status=self.status,
            engine=self.engine,
            model=asked.chat.model,
            error=self.error,
            told=self.told,
            policy=policy,
            policy_version=version,
            reason=reason if as_decided else f"{reason}+failover",
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
            replay_forbidden=self._replay_forbidden,
            hit=self.hit,
            attempt=way,
            failed_over=failed_over,
            instead_of=instead_of,
            trail=tuple(attempts.trail) if attempts is not None else (),
            engine_head_at=attempts.head_at if attempts is not None else 0.0,
            came=self._came,
            engine_got=attempts.asked_for if attempts is not None else None,
            carried_on_by=tuple(carried.engine.info.name for carried in carried_on),
            from_reference=(
                way is not None and way.engine == self.model.reference and not way.examples and not carried_on
            ),
            remember=self.model.remember and not asked.chat.state,
            price=price,
            broken_off=broken_off,
            # What another engine charged says nothing of what the decision saved.
            reference_price=self._reference_price if as_decided else None,
            body=Body(kept.chunks, kept.size_bytes, self._content_type, self._encoded, kept.passed),
            stored=self._stored,
            guardrail=self._guardrail,
            bill=self.bill,
            reuse=self.reuse,
            reused_example=self.reused_example,
        )


def not_spoken(model: str, path: str) -> RequestError:
    """The error for a request in an API that no engine speaks that serves its model."""
    return RequestError(
        f"No engine of '{model[:100]}' speaks the API at {path} (engines.*.apis).",
        status=404,
        code="api_not_spoken",
        param="model",
    )


def not_allowed(message: str, code: str) -> RequestError:
    """The refusal of a model that this asker may not use."""
    return RequestError(message, status=403, code=code, param="model")


def _shares(
    first: Price, carried_on: Sequence[CarriedOn], model: str
) -> tuple[Price, tuple[tuple[Price, int], ...]]:
    """The price of the engine that gave the end of an answer; and of each that broke off before, with the tokens it gave."""
    price, broken_off, before = first, [], 0
    for carried in carried_on:
        tokens = max(0, carried.tokens_before - before)
        broken_off.append((price, tokens))
        before += tokens
        price = carried.engine.info.price_of(model)
    return price, tuple(broken_off)


def _planned(name: str, attempts: Attempts) -> Tried:
    """The engine `name` that was decided on, and how it failed."""
    failed = (one for one in attempts.trail if one.engine == name and one.kind is not None)
    return next(failed, Tried(name, "", Kind.OPEN, 0, 0.0))


def _down_then(plan: Plan, answered: str) -> Tried | None:
    """The engine that the router would have taken had it not been down, where that is not who answered."""
    name = plan.choice.instead_of if plan.choice is not None else ""
    return Tried(name, "", Kind.OPEN, 0, 0.0) if name and name != answered else None


def _exact_key(asked: Asked, endpoint: str, model: ServedModel) -> bytes:
    chat, arrival = asked.chat, asked.arrival
    same = asked.remembered_for, endpoint, model.served_by(arrival.key_id)
    fields = outlined(chat.own_fields) if len(chat.body) > LARGE_BYTES else chat.own_fields
    try:
        return exact_key(*same, fields, model.ignored_fields)
    except TypeError:
        # It holds what only the slow way of writing it can write.
        return exact_key(*same, chat.own_fields, model.ignored_fields)


def _replayed(hit: ExactAnswer, asked: Asked) -> tuple[CIMultiDict[str], bytes]:
    """A remembered answer as this client wants it: a stream, or JSON."""
    chat, codec = asked.chat, codec_of(asked.chat)
    if chat.stream:
        body, content_type = codec.events(hit.body, chat), EVENTS
    else:
        body, content_type = codec.replayed(hit.body, chat), hit.content_type
    age_s = max(0, int(time.time() - hit.stored_at_s))
    headers = CIMultiDict(
        {
            "Content-Type": content_type,
            "Server": SERVER,
            "Cache-Status": hit_status(hit, age_s),
            "Age": str(age_s),
        }
    )
    return headers, body


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


def _explain(headers: CIMultiDict[str], journey: Journey, *, engine: str, examples: int) -> None:
    if engine:
        headers["x-understudy-engine"] = engine
    headers["x-understudy-examples"] = str(examples)
    headers["x-understudy-decision-id"] = journey.arrival.id
    told(headers, journey.arrival)
    headers["x-understudy-overhead-ms"] = f"{journey.overhead_ms():.2f}"
