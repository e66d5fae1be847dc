"""What becomes of a finished answer: one keeper per kind of memory. They run on the recorder's thread and must not raise for
what a client or an engine said."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any, Protocol

import orjson

from gateway.answer import Answer
from gateway.assemble import Assembled
from gateway.contributor import contributor, user_of
from gateway.journey import Journey
from gateway.log import log
from router.admission import Admission, Contributor, Finished
from router.digest import cut, question, scope
from store.contributors import Standing
from store.records import ExactAnswer, NewExample, RequestRecord, Vector

_GZIP_OR_ZLIB = 47
_TWIN_CANDIDATES = 4
_UNJUDGED = 0.5
"""The quality of an answer that nobody judged, halfway between worthless and perfect."""

Keeping = tuple[str, Future[Any] | str]
"""(kind, a write under way) or (kind, the reason why nothing is kept)."""


class Keeper(Protocol):
    """Keeps one kind of thing."""

    def keep(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> Iterator[Keeping]:
        """What was handed to the store, or why not."""
        ...


def decoded(answer: Answer) -> bytes:
    """The body without its content encoding. Raises zlib.error for one that is not gzip or deflate."""
    body = b"".join(answer.kept.chunks)
    return body if answer.identity else zlib.decompress(body, _GZIP_OR_ZLIB)


class ExactSink(Protocol):
    """What is needed of store.exact_cache.ExactCache."""

    def put(self, key: bytes, tenant: str, answer: ExactAnswer) -> Future[Any]: ...


class ExactKeeper:
    """Keeps whole answers for exact repeats."""

    def __init__(self, cache: ExactSink, *, tool_calls: bool = False) -> None:
        self._cache = cache
        self._tool_calls = tool_calls

    def keep(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> Iterator[Keeping]:
        """See Keeper."""
        if answer.hit is not None or answer.exact_key is None:
            return
        reason = self._refusal(journey, answer, assembled)
        if reason is not None or assembled is None:
            yield "exact", reason or "incomplete"
            return
        streamed = answer.content_type.startswith("text/event-stream")
        stored = ExactAnswer(
            orjson.dumps(assembled.completion) if streamed else decoded(answer),
            "application/json" if streamed else answer.content_type,
            journey.engine,
            time.time(),
            usage_estimated=assembled.usage() is None,
        )
        yield "exact", self._cache.put(answer.exact_key, journey.tenant, stored)

    def _refusal(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> str | None:
        if answer.controls.no_store:
            return "opted_out"
        if not 200 <= answer.status < 300:
            return "error"
        if not answer.complete or assembled is None or not assembled.whole:
            return "incomplete"
        if journey.reason.endswith("+failover"):
            return "stand_in"
        if assembled.calls_tools() and not self._tool_calls:
            return "tool_calls"
        if any(c.get("finish_reason") not in ("stop", "tool_calls") for c in assembled.choices()):
            return "cut_short"
        return None


class Bank(Protocol):
    """What is needed of store.examples.ExampleBank."""

    def admit(self, new: NewExample) -> Future[Any]: ...


class BlockingEmbedder(Protocol):
    """What is needed of router.embedder.Embedder."""

    @property
    def version(self) -> str: ...

    def embed_blocking(self, text: str) -> Vector: ...


class ExampleKeeper:
    """Keeps what the reference engine said as an example, if the admission rules let it, with the text they let through."""

    def __init__(
        self,
        bank: Bank,
        embedder: BlockingEmbedder,
        admission: Admission,
        nearest: Callable[[str, Vector, int], list[tuple[int, float]]],
        *,
        secret: bytes,
        embedded_characters: int,
        standing: Callable[[str, str, float], Standing] | None = None,
        opted_out_keys: Collection[str] = (),
    ) -> None:
        self._opted_out_keys = frozenset(opted_out_keys)
        self._standing = standing
        self._bank = bank
        self._embedder = embedder
        self._admission = admission
        self._nearest = nearest
        self._secret = secret
        self._embedded_characters = embedded_characters

    def keep(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> Iterator[Keeping]:
        """See Keeper."""
        if answer.hit is not None or assembled is None:
            return
        chat = answer.chat
        verdict = self._admission.judge(
            Finished(
                chat=chat,
                status=answer.status,
                complete=answer.complete and assembled.whole,
                opted_out=answer.controls.no_store,
                key_opted_out=journey.key_id in self._opted_out_keys,
                model_opted_out=not answer.remember,
                from_reference=answer.from_reference,
                question=question(chat.messages),
                answer=assembled.text(),
                finish_reason=assembled.finish_reason(),
                choices=len(assembled.choices()),
                calls_tools=assembled.calls_tools(),
                contributor=self._contributor(journey),
            )
        )
        if not verdict.admitted:
            yield "example", verdict.reason or "refused"
            return
        vector = self._vector(answer, verdict.embedded_text)
        new = NewExample(
            tenant=journey.tenant,
            scope=scope(chat),
            question=verdict.question,
            answer=verdict.answer,
            embedded_text=verdict.embedded_text,
            vector=vector,
            embedding_version=self._embedder.version,
            source_engine=journey.engine,
            request_id=journey.id,
            prompt_tokens=journey.prompt_tokens,
            completion_tokens=journey.completion_tokens,
            contributor=contributor(self._secret, journey.tenant, journey.key_id, user_of(chat.fields)),
            served_from_s=verdict.held_until_s or 0.0,
            neighbours=self._neighbours(journey.tenant, vector),
        )
        yield "example", self._bank.admit(new)

    def _contributor(self, journey: Journey) -> Contributor | None:
        """Counts of the key this came by; None where clients have no keys of ours, and so nobody shares a bank."""
        if self._standing is None or journey.key_id is None:
            return None
        return Contributor(**asdict(self._standing(journey.tenant, journey.key_id, time.time())))

    def _vector(self, answer: Answer, text: str) -> Vector | None:
        plan = answer.plan
        if plan is not None and plan.vector is not None and plan.embedded_text == text:
            return plan.vector
        try:
            return self._embedder.embed_blocking(cut(text, self._embedded_characters))
        except Exception as error:
            # Kept without a vector: gateway.reembedder gives it one later.
            log("warning", "embedding_failed", error=error)
            return None

    def _neighbours(self, tenant: str, vector: Vector | None) -> tuple[tuple[int, float], ...]:
        """Among these a twin is looked for; without an index nothing is merged."""
        if vector is None:
            return ()
        try:
            return tuple(self._nearest(tenant, vector, _TWIN_CANDIDATES))
        except Exception as error:
            log("warning", "twin_search_failed", error=error)
            return ()


class Ledger(Protocol):
    """What is needed of store.accounting.Ledger."""

    def note_use(self, ids: Sequence[int]) -> None: ...

    def note_gain(self, ids: Sequence[int], amount: float) -> None: ...


class UseKeeper:
    """Keeps count of what examples were good for. Only counted here; housekeeping writes it."""

    def __init__(
        self, ledger: Ledger, dearest_usd_per_mtok: float, gain: Callable[[float, float], float]
    ) -> None:
        self._ledger = ledger
        self._dearest = dearest_usd_per_mtok
        self._gain = gain

    def keep(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> Iterator[Keeping]:
        """See Keeper."""
        if journey.example_ids:
            price = answer.price.output_usd_per_mtok
            cost = min(1.0, price / self._dearest) if self._dearest else 1.0
            self._ledger.note_use(journey.example_ids)
            self._ledger.note_gain(journey.example_ids, self._gain(cost, _UNJUDGED))
        yield from ()


class RequestSink(Protocol):
    """What is needed of store.decisions.DecisionLog."""

    def record(self, record: RequestRecord) -> Future[Any]: ...


class RequestKeeper:
    """Keeps a row per request: no content, enough to explain the decision and to evaluate another one."""

    def __init__(self, requests: RequestSink) -> None:
        self._requests = requests

    def keep(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> Iterator[Keeping]:
        """See Keeper."""
        if not answer.controls.no_store:
            yield "request", self._requests.record(_row(journey))


def _row(journey: Journey) -> RequestRecord:
    def ms(seconds: float) -> float:
        return round(seconds * 1000, 3)

    return RequestRecord(
        id=journey.id,
        tenant=journey.tenant,
        started_at_s=journey.started_at_s,
        endpoint=journey.path,
        model=journey.model,
        engine=journey.engine,
        outcome=journey.outcome.value,
        status=journey.status,
        policy=journey.policy,
        policy_version=journey.policy_version,
        probability=journey.probability,
        reason=journey.reason,
        example_ids=journey.example_ids,
        prompt_tokens=journey.prompt_tokens,
        completion_tokens=journey.completion_tokens,
        usage_estimated=journey.usage_estimated,
        cost_usd=journey.cost_usd,
        total_ms=ms(journey.ended - journey.began),
        first_chunk_ms=None if journey.first_chunk is None else ms(journey.first_chunk - journey.began),
        overhead_ms=ms(journey.overhead_s),
        stages_ms=orjson.dumps({name: ms(s) for name, s in journey.stages.items()}).decode(),
    )
