"""The one seam of this room: Engine. Everything that answers implements it, and everything that guards wraps it.

The seam is HTTP-shaped (status, headers, body bytes) on purpose: a transparent gateway must hand back what the upstream
said byte for byte, so an answer is parsed only by those who need its meaning, never by those who carry it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from multidict import CIMultiDict

from engines.answers.tail import Tail
from engines.apis import Api
from engines.chat import ChatRequest, Usage
from engines.errors import EngineError, Kind, RequestError, Unavailable
from engines.exchanges import Take
from engines.placement import Placement
from engines.prediction import Prediction
from engines.run_call import RunCall
from engines.tells_usage import TellsUsage

Flow = Callable[[Take], Awaitable[None]]
Continues = Literal["prefill", "instruct", "off"]


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """A request to an engine. `headers` are end-to-end headers only; hop-by-hop ones were removed before."""

    method: str
    target: str
    """Raw request target below the engine's base URL, e.g. `/chat/completions?x=%20`; never re-quoted."""
    headers: CIMultiDict[str]
    body: bytes | AsyncIterator[bytes]
    """Bytes, or an upload that is passed on as it arrives (and so can be sent only once)."""
    chat: ChatRequest | None = None
    """The parsed view, where the body is a chat completion."""
    tenant: str = ""
    """Whose text it is, for engines that keep tenants' caches apart; empty where nobody's cache may hold it."""
    background: bool = False
    """The gateway asks by itself (judging, replay, warming) and no client waits."""
    plain: bool = False
    """Known to be answered by no stream, where `chat` does not tell."""
    beside_stand_in: bool = False
    """Another engine could answer now: shorter limits hold (engines.timeouts)."""
    continuable: bool = False
    """Another engine could carry the stream on."""
    client_timeout_s: float | None = None
    """How long the client waits, where it told."""
    wait_s: float = 0.0
    """How long a guard may hold it back until its engine may be asked; 0: it is refused at once."""
    prediction: Prediction | None = None
    """What a student makes of the request, for the engine that answers with it (engines.student)."""
    call: RunCall | None = None
    """The run that a workflow is asked for, for the engine that carries it out."""
    placement: Placement | None = None
    """Where it stands in its run, for the line of its engine; None: a plain call, which is all of its run."""
    as_asked: ChatRequest | None = None
    """What the client asked, where `chat` is another request."""
    session: str = ""
    """What the client calls the conversation; empty where it does not say."""
    model: str = ""
    """The model it asks for, where `chat` does not tell; empty where nobody read it."""
    without_usage: Callable[[], bytes] | None = None
    """Makes the body that does not ask for the stream's usage, if the gateway asks by itself (engines.telling_usage)."""
    not_at: frozenset[str] = frozenset()
    """Replicas that it must not be asked of (engines.servers)."""
    below: str | None = None
    """Below what of the server's root `target` is (`/v2`, or nothing); None: below the base URL. The root is the base URL
    without a `/v1` at its end."""

    @property
    def is_step(self) -> bool:
        """Tells whether it belongs to a run, and is no plain call."""
        return self.placement is not None and self.placement.run != ""


@dataclass(slots=True)
class EngineReply:
    """An answer that has begun: its head is here, and `chunks` yields its body as it arrives. Read it once.

    Reading raises engines.errors.EngineError when the body ends early or a phase times out.
    """

    status: int
    headers: CIMultiDict[str]
    rest: AsyncIterator[bytes]
    """The body after `first`. Read `chunks` instead, unless the layer of another generator matters."""
    engine: str = ""
    replica: str = ""
    """Which of the engine's base URLs answers; empty where it has one."""
    self_delimiting: bool = True
    """Whether a cut in the body shows by itself (it has a length or is chunked)."""
    reason: str | None = None
    """The status line's reason phrase, where there was one."""
    first: bytes | None = None
    """The first chunk, where engines.servers waited for it already; None where it is still in `rest`."""
    drained_at: float | None = None
    """When all of the body had been taken (time.monotonic); None before, and where nobody noted it."""
    kind: Kind | None = None
    """What kind of failure it is, as the guard saw; None where it is none, or is the client's own."""
    limited_s: float | None = None
    """Where this answer was the first to tell of a rate limit: seconds until its engine may be asked again. Its request may
    then wait (`EngineRequest.wait_s`), and its retry finds out for all others."""
    broken: Kind | None = None
    """Why the body was no whole answer, as its reader found; None where it was one, or nobody read it to its end."""
    tail: Tail | None = None
    """What its reader feeds of the stream, so that its guard can tell how it ended."""
    beside_usd: float | None = None
    """What engines were paid that were asked at the same time (engines.cascade); None: there were none. Then `engine` is who
    gave the answer, whoever was asked for it."""
    flow: Flow | None = None
    """Hands over what follows of the body the moment it comes, for as long as it is taken; what is refused, and how the body
    ends, is for `chunks` to tell. For those who took from `chunks` all that came before. None where nobody hands over."""

    lost: Collection[str] | None = None
    """Names of what the engine's answer held that the client's API has no word for, so far (engines.translating); None where
    it is not translated."""

    @property
    def streams_events(self) -> bool:
        """Tells whether the body is a stream of server-sent events that can be read."""
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return kind == "text/event-stream" and "Content-Encoding" not in self.headers

    @property
    def chunks(self) -> AsyncIterator[bytes]:
        """The whole body."""
        if self.first is not None:
            self.rest, self.first = self._from_first(self.first, self.rest), None
        return self.rest

    def hold(self, body: bytes) -> None:
        """All that is given of the body: what follows is not read."""
        self.first, self.rest = body, no_chunks()

    async def _from_first(self, first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        if first:
            yield first
        try:
            async for chunk in rest:
                yield chunk
        except EngineError as error:
            self.broken = error.kind
            raise
        self.drained_at = time.monotonic()


async def no_chunks() -> AsyncIterator[bytes]:
    """A body of which nothing is left."""
    return
    yield


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """How busy an engine is right now."""

    in_flight: int = 0
    queued: int = 0
    capacity: int | None = None
    """Requests it serves at once before they queue; None when unknown."""
    kv_use: float | None = None
    """Share of its key-value cache in use, 0 to 1, where the engine tells."""
    kv_tokens: int | None = None
    """How many tokens that cache holds, where the engine tells."""
    first_chunk_s: float | None = None
    """Recent mean time to the first chunk of streams (engines.servers.pace); None before the first stream."""
    idle_first_chunk_s: float | None = None
    """The fastest recent time to a first chunk; None before the first stream."""
    answer_s: float | None = None
    """Recent mean time to the end of an answer; None before the first."""
    answer_tokens: float | None = None
    """Recent mean length of an answer, in tokens; None before the first."""
    limit_left: float | None = None
    """Share of its rate limit that is left, 0 to 1, where the upstream tells."""
    open: bool = True
    """Whether it is asked at all: false while its circuit breaker is open."""

    @property
    def utilisation(self) -> float:
        """How full it is: 0 idle, 1 at capacity, more when requests queue."""
        fill = (self.in_flight + self.queued) / self.capacity if self.capacity else 0.0
        spent = 0.0 if self.limit_left is None else 1.0 - self.limit_left
        return max(fill, self.kv_use or 0.0, spent)


@dataclass(frozen=True, slots=True)
class Price:
    """An engine's price, in US dollars. None: nobody said, which is not the same as 0; 0 has to be written."""

    input_usd_per_mtok: float | None = None
    output_usd_per_mtok: float | None = None
    """Per million tokens."""
    cached_input_usd_per_mtok: float | None = None
    """Of the prompt's tokens, those read from a cache; None: as any other."""
    cache_write_usd_per_mtok: float | None = None
    """Of the prompt's tokens, those written to a cache; None: as any other."""
    usd_per_request: float | None = None
    usd_per_image: float | None = None
    service_tiers: tuple[tuple[str, float], ...] = ()
    """What all of it is multiplied by where the answer names one of these service tiers."""
    cache_write_1h_usd_per_mtok: float | None = None
    """Of the tokens written to a cache, those kept for an hour; None: as any other that is written."""
    long_prompt_above_tokens: int | None = None
    """Prompts of more tokens are long, those of a cache included; None: none is."""
    long_prompt_input_factor: float = 1.0
    """What the prices of a long prompt's tokens are multiplied by, read from a cache or written to one or neither."""
    long_prompt_output_factor: float = 1.0
    """The same of the tokens of its completion."""

    @property
    def known(self) -> bool:
        """Tells whether there is any price at all."""
        return not (
            self.input_usd_per_mtok is None
            and self.output_usd_per_mtok is None
            and self.usd_per_request is None
            and self.usd_per_image is None
        )

    @property
    def both_usd_per_mtok(self) -> float:
        """The price of a million tokens of prompt and as many of completion: to compare engines by. What has no price
        counts as 0."""
        return (self.input_usd_per_mtok or 0.0) + (self.output_usd_per_mtok or 0.0)

    def cost_usd(self, usage: Usage) -> float | None:
        """Dollars for one answer; None where it used what has no price."""
        dollars = self.usd_per_request
        if usage.images and self.usd_per_image is not None:
            dollars = (dollars or 0.0) + usage.images * self.usd_per_image
        by_token = self.input_usd_per_mtok is not None or self.output_usd_per_mtok is not None
        if by_token and (usage.tokens or (dollars is None and not usage.images)):
            tokens_usd = self._tokens_usd(usage)
            if tokens_usd is None:
                return None
            dollars = (dollars or 0.0) + tokens_usd
        return None if dollars is None else dollars * self._factor(usage.service_tier)

    def most_usd(self, prompt_tokens: int, completion_tokens: int, images: int = 0) -> float | None:
        """The most that an answer with so many tokens can cost: none of its prompt read from a cache, all of it written to
        one where that is dearer, at the dearest service tier."""
        write, hour = self.cache_write_usd_per_mtok or 0.0, self.cache_write_1h_usd_per_mtok or 0.0
        usage = Usage(
            prompt_tokens,
            completion_tokens,
            cache_write_tokens=prompt_tokens if max(write, hour) > (self.input_usd_per_mtok or 0.0) else 0,
            cache_write_1h_tokens=prompt_tokens if hour > write else 0,
            images=images,
        )
        dollars = self.cost_usd(usage)
        if dollars is None:
            return None
        return dollars * max([1.0, *(factor for _, factor in self.service_tiers)])

    def compared_usd(
        self,
        prompt_tokens: float,
        completion_tokens: float,
        cached_tokens: float = 0.0,
        written_tokens: float = 0.0,
    ) -> float:
        """Dollars for an answer that is not there yet: to compare engines by. What has no price counts as 0. Of the prompt's
        tokens, `cached_tokens` are read from a cache and `written_tokens` are written to one."""
        each = self.input_usd_per_mtok or 0.0
        prompt_usd, output_usd = prompt_tokens * each, completion_tokens * (self.output_usd_per_mtok or 0.0)
        if self.cached_input_usd_per_mtok is not None:
            prompt_usd += cached_tokens * (self.cached_input_usd_per_mtok - each)
        if self.cache_write_usd_per_mtok is not None:
            prompt_usd += written_tokens * (self.cache_write_usd_per_mtok - each)
        if self.long_prompt_above_tokens is not None and prompt_tokens > self.long_prompt_above_tokens:
            prompt_usd *= self.long_prompt_input_factor
            output_usd *= self.long_prompt_output_factor
        return (prompt_usd + output_usd) / 1e6 + (self.usd_per_request or 0.0)

    def _tokens_usd(self, usage: Usage) -> float | None:
        plain = max(0, usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens)
        for_an_hour = min(usage.cache_write_1h_tokens, usage.cache_write_tokens)
        written = usage.cache_write_tokens - for_an_hour
        base = self.input_usd_per_mtok
        cached = base if self.cached_input_usd_per_mtok is None else self.cached_input_usd_per_mtok
        write = base if self.cache_write_usd_per_mtok is None else self.cache_write_usd_per_mtok
        hour = write if self.cache_write_1h_usd_per_mtok is None else self.cache_write_1h_usd_per_mtok
        above = self.long_prompt_above_tokens
        long = above is not None and usage.prompt_tokens > above
        factor = self.long_prompt_input_factor if long else 1.0
        output_factor = self.long_prompt_output_factor if long else 1.0
        dollars = 0.0
        for tokens, price, times in (
            (plain, base, factor),
            (usage.cached_tokens, cached, factor),
            (written, write, factor),
            (for_an_hour, hour, factor),
            (usage.completion_tokens, self.output_usd_per_mtok, output_factor),
        ):
            if tokens and price is None:
                return None
            dollars += tokens * (price or 0.0) * times
        return dollars / 1e6

    def _factor(self, tier: str) -> float:
        return next((factor for name, factor in self.service_tiers if name == tier), 1.0)


UNPRICED = Price()


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The router may know this of an engine without asking it."""

    name: str
    model: str | None = None
    """The model name the engine expects; None passes the client's through."""
    price: Price = field(default_factory=Price)
    context_tokens: int | None = None
    """Its context window; None until the configuration or the engine itself tells."""
    continues: Continues = "off"
    """How it goes on with an answer that broke off: it is given its beginning (`continue_final_message`), or is asked to
    repeat the end of it (engines.seam)."""
    attempts: int = 1
    """How often it is asked for one request, at most."""
    replica: str = ""
    """Which of the engine's base URLs, as host:port; empty where it has one."""
    replicas: tuple[str, ...] = ()
    """All of them, of an engine that has several (engines.servers)."""
    apis: frozenset[Api] | None = None
    """The APIs it speaks; None: nobody said, and it is asked all of them."""
    region: str = ""
    """Where it answers, as the operator calls it; empty: nobody said."""
    cache_ttl_s: float | None = None
    """How long its provider keeps a prompt's beginning in a cache after it was used; 0: it has no cache. None: until its
    memory is needed for others, as vLLM does."""
    holds_key: bool = True
    """Whether it never sees a client's own credential: then its 401 is the gateway's problem, else the client's."""
    tells_usage: TellsUsage = field(default_factory=TellsUsage, compare=False)
    """Whether its streams are asked for their usage."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Of its models, or of what it is asked at paths that begin with a slash, where they differ: see `price_of`."""

    translated: frozenset[Api] = frozenset()
    """Those of them that it does not speak itself: requests are translated (engines.translating)."""

    def price_of(self, model: str, path: str = "") -> Price:
        """Finds what it charges for a model, as a client or the answer names it, at a path below its base URL."""
        prices = self.prices
        return (path and prices.get(path)) or prices.get(model) or self.price

    def speaks(self, api: Api) -> bool:
        """Tells whether it is asked requests of this API."""
        return self.apis is None or api in self.apis


@dataclass(frozen=True, slots=True)
class Admission:
    """Tells whether an engine may be asked now."""

    refusal: Unavailable | None = None
    """Why not, as it would be raised; its `kind` and `retry_after_s` tell more. None: it may be asked."""
    spared: bool = False
    """It may be asked, but little is left of its rate limit: a stand-in is to answer, where there is one."""
    opens_in_s: float | None = None
    """Refused, but waiting so long (`EngineRequest.wait_s`) may help; 0 where a probe under way will tell. None: it
    will not."""
    others: int = 0
    """Further replicas of it that may be asked now."""

    @property
    def admitted(self) -> bool:
        """Tells whether it may be asked now, if need be."""
        return self.refusal is None


ADMITTED = Admission()


class Engine(Protocol):
    """Answers requests."""

    @property
    def info(self) -> EngineInfo: ...

    def stream(self, request: EngineRequest) -> AbstractAsyncContextManager[EngineReply]:
        """Ask. Leaving the context, for whatever reason, ends the generation upstream at once.

        Raises engines.errors.EngineError on entry when no answer began.
        """
        ...

    def load(self) -> EngineLoad: ...

    async def health(self) -> None:
        """Return if the engine lives, raise EngineError if not. Cheap, bounded in time; never a generation."""
        ...

    async def aclose(self) -> None: ...


def admission(engine: Engine, request: EngineRequest) -> Admission:
    """Tells whether `engine` may be asked now; always, where nothing guards it."""
    # Not isinstance: of a protocol it takes a tenth of what a student's whole answer does.
    admits: Callable[[EngineRequest], Admission] | None = getattr(engine, "admits", None)
    return admits(request) if admits is not None else ADMITTED


def unsayable(engine: Engine, chat: ChatRequest) -> RequestError | None:
    """Why a request cannot be said in the API of an engine that it is translated for; None where it can."""
    says: Callable[[ChatRequest], RequestError | None] | None = getattr(engine, "unsayable", None)
    return says(chat) if says is not None else None


@runtime_checkable
class CountsTokens(Protocol):
    """An engine that can say how many tokens something is to it."""

    async def count_tokens(self, what: str | Sequence[Mapping[str, Any]]) -> int | None:
        """Counts the tokens of a text, or of messages as its chat template puts them; None if it is not told in time."""
        ...


@runtime_checkable
class Starts(Protocol):
    """An engine that is started by this process, in the background, and may be down for a while."""

    @property
    def problem(self) -> str | None:
        """Why it cannot answer now, for a person; None while it can."""
        ...

    def start(self) -> None:
        """Begin to bring it up. Inside the running loop."""
        ...
