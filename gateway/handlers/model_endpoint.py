"""An endpoint that asks a model: `/chat/completions`, `/responses`, `/messages`, `/completions`.

Read the request, find who serves its model, hand it to the pipeline. The codec knows the wire format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web
from multidict import CIMultiDict

from engines.chat import ChatRequest
from engines.codecs.codec import Codec
from engines.engine import EngineRequest
from engines.errors import RequestError
from engines.placement import PLAIN, Placement, Rank
from gateway.azure import for_deployment
from gateway.controls import read_controls, refuse_unsuited
from gateway.encodings import accept_only_readable
from gateway.handlers.by_model import unknown_model
from gateway.keys import Authenticator, outgoing_headers
from gateway.off_loop import off_loop
from gateway.passthrough import Passthrough, reads_bodies
from gateway.pipeline import Pipeline
from gateway.relay import relay_for
from gateway.send import Send
from gateway.wire import is_json, read_body, read_json
from router.asked import Admitted, Asked
from router.finished import Journey

if TYPE_CHECKING:
    from learning.bank.contributor import EndUsers
    from router.finished import Finished

_FLEX = Placement(Rank.THROUGHPUT)


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes, in bytes."""

    max_json_bytes: int
    max_kept_bytes: int


class Instead(Protocol):
    """Answers some requests of an endpoint instead of the model that they name."""

    def concerns(self, fields: Mapping[str, Any]) -> bool:
        """Whether a body may be one of these requests. A look into a dict."""
        ...

    async def answer(
        self, request: web.BaseRequest, target: str, body: bytes, fields: dict[str, Any], journey: Journey
    ) -> web.StreamResponse | None:
        """The answer; None if it is none of these requests after all. Raises RequestError."""
        ...


class Stored(Protocol):
    """What an API stores between two requests (gateway.handlers.responses)."""

    async def found(self, chat: ChatRequest, arrival: Admitted, end_user: str) -> Held:
        """Where what a request names is. Raises RequestError (404) for what is others' only."""
        ...

    def noting(self, send: Send, asked: Asked) -> Send:
        """A `send` that notes what is stored of the answer."""
        ...

    def ended(self, finished: Finished) -> None:
        """Note what is stored, now that the answer was sent."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """Where what a request names is."""

    chat: ChatRequest
    """The request, with the conversation before its input if that was kept here."""
    engine: str = ""
    not_at: frozenset[str] = frozenset()


class ModelEndpoint:
    """Without a pipeline, and for models that it does not serve, requests go to the default upstream as they came.

    `end_users`: None if nothing is remembered. `instead` are asked in order.
    """

    def __init__(
        self,
        codec: Codec,
        pipeline: Pipeline | None,
        passthrough: Passthrough | None,
        keys: Authenticator,
        limits: Limits,
        end_users: EndUsers | None = None,
        *,
        instead: Sequence[Instead] = (),
        stored: Stored | None = None,
    ) -> None:
        self._codec = codec
        self._pipeline = pipeline
        self._passthrough = passthrough
        self._keys = keys
        self._limits = limits
        self._end_users = end_users
        self._instead = instead
        self._stored = stored

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.handlers.handler.Handler. Raises RequestError for a body that is not a request of this API."""
        headers = outgoing_headers(request.headers, self._keys)
        body = await read_body(request, self._limits.max_json_bytes)
        pipeline, fields = self._pipeline, None
        serves = pipeline is not None and pipeline.serves_models
        needed = reads_bodies(self._passthrough, journey, serves_models=serves)
        if is_json(request):
            fields = await read_json(request, body, self._limits.max_json_bytes, needed=needed)
        if fields is None:
            if serves:
                raise unsupported(request)
            return await self._forward(request, target, headers, body, journey)
        body, fields = for_deployment(journey.deployment, body, fields, headers)
        for other in self._instead:
            if other.concerns(fields):
                answer = await other.answer(request, target, body, fields, journey)
                if answer is not None:
                    return answer
        try:
            chat = await off_loop(len(body), self._codec.read, body, fields)
        except RequestError:
            if needed:
                raise
            return await self._forward(request, target, headers, body, journey)
        journey.model = chat.model
        if pipeline is None or pipeline.model(chat.model) is None:
            if self._passthrough is None:
                names = pipeline.model_names if pipeline is not None else ()
                raise unknown_model(chat.model, journey.admitted, names)
            return await self._forward(request, target, headers, body, journey, choices=chat.choices)
        asked = await self._asked(request, target, headers, chat, fields, journey.admitted)
        relay = relay_for(request)
        stored = self._stored
        journey.in_pipeline = True
        if stored is None:
            await pipeline.answer(asked, relay)
        else:
            stored.ended(await pipeline.answer(asked, stored.noting(relay, asked)))
        return relay.response

    async def _asked(
        self,
        request: web.BaseRequest,
        target: str,
        headers: CIMultiDict[str],
        chat: ChatRequest,
        fields: dict[str, Any],
        arrival: Admitted,
    ) -> Asked:
        """What the pipeline is to answer. Raises RequestError."""
        controls = read_controls(request.headers, fields)
        refuse_unsuited(controls, chat)
        if arrival.anonymous:
            controls = replace(controls, no_store=True, no_cache=True)
        accept_only_readable(headers)
        contributor = end_user = user = ""
        if self._end_users is not None:
            contributor, end_user = self._end_users.behind(arrival, request.headers, fields)
            user = self._end_users.user(request.headers, fields)
        held = Held(chat) if self._stored is None else await self._stored.found(chat, arrival, end_user)
        if held.chat is not chat:
            headers.popall("Content-Length", None)
            headers.popall("Content-Encoding", None)
        # The one spelling of the path, and the query as it came.
        _, separator, query = target.partition("?")
        return Asked(
            arrival,
            self._codec.path + separator + query,
            headers,
            held.chat,
            controls,
            self._limits.max_kept_bytes,
            contributor,
            end_user,
            placement(fields.get("service_tier")),
            held.engine,
            held.not_at,
            user,
        )

    async def _forward(
        self,
        request: web.BaseRequest,
        target: str,
        headers: CIMultiDict[str],
        body: bytes,
        journey: Journey,
        *,
        choices: int = 1,
    ) -> web.StreamResponse:
        """The default upstream's answer to it."""
        if self._passthrough is None:
            raise unsupported(request)
        outgoing = EngineRequest("POST", target, headers, body, model=journey.model)
        return await self._passthrough.forward(request, outgoing, journey, choices=choices, codec=self._codec)


def unsupported(request: web.BaseRequest) -> RequestError:
    """The refusal of a body that cannot be read here, so that nobody can tell which model it asks for."""
    if is_json(request):
        encoding = request.headers.get("Content-Encoding", "")
        sent, right = f"Content-Encoding {encoding[:100]!r}", "gzip, deflate, or none"
    else:
        sent, right = f"Content-Type {request.headers['Content-Type'][:100]!r}", "application/json"
    return RequestError(
        f"A body with {sent} cannot be read here: send {right}.",
        status=415,
        code="unsupported_media_type",
    )


def placement(tier: object) -> Placement | None:
    """The class of a plain call that names its service tier (OpenAI's field, which is passed on); None: it waits."""
    if tier == "flex":
        return _FLEX
    return PLAIN if tier == "priority" else None
