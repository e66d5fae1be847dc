"""An endpoint that asks a model: chat completions, embeddings, speech, images and their kin.

Read the request, find who serves its model, have them answer; all else goes to the default upstream as it came. A codec
knows the wire format of an API; without one nothing of a body is read but its model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from aiohttp import web

from engines.codecs.codec import Codec
from engines.engine import EngineRequest
from engines.errors import RequestError
from engines.off_loop import off_loop
from gateway.azure import for_deployment
from gateway.endpoints.incoming import Incoming
from gateway.keys import Authenticator, outgoing_headers
from gateway.passthrough import Passthrough
from gateway.relay import relay_for
from gateway.send import Send
from gateway.wire import is_form, is_json, read_body, read_form_once, read_json
from router.asked import Arrival
from router.finished import Journey


class Serving(Protocol):
    """Answers an endpoint's requests for some models."""

    @property
    def serves(self) -> Callable[[str], object]:
        """Gives something true for the name of a model that it answers for."""
        ...

    @property
    def serves_models(self) -> bool:
        """Whether any models are served by name: then nothing passes that cannot be read."""
        ...

    @property
    def names(self) -> Collection[str]:
        """The models that are served by name, patterns apart."""
        ...

    def answer(self, asked: Incoming, send: Send) -> Awaitable[object]:
        """Answer it. Raises RequestError, EngineError where no answer began, and ClientGone."""
        ...


class Instead(Protocol):
    """Answers some requests of an endpoint instead of the model that they name."""

    def concerns(self, fields: Mapping[str, Any]) -> bool:
        """Whether a body is one of these requests. A look into a dict."""
        ...

    async def answer(
        self, request: web.BaseRequest, target: str, body: bytes, fields: dict[str, Any], journey: Journey
    ) -> web.StreamResponse:
        """The answer. Raises RequestError."""
        ...


class ModelEndpoint:
    """`serving`: None if no model is served here; `passthrough`: None if nobody else is there.

    `codec`: None for what is no text to us, which may be a form.
    """

    def __init__(
        self,
        codec: Codec | None,
        serving: Serving | None,
        passthrough: Passthrough | None,
        keys: Authenticator,
        *,
        max_json_bytes: int,
        instead: Instead | None = None,
    ) -> None:
        self._codec = codec
        # A stream of an API that a codec knows must come to its end.
        self._choices = 0 if codec is None else 1
        self._serving = serving
        self._passthrough = passthrough
        self._keys = keys
        self._max_json_bytes = max_json_bytes
        self._instead = instead
        self._serves_models = serving is not None and serving.serves_models

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler. Raises RequestError for a body that is not a request of this API."""
        form = self._codec is None and is_form(request)
        if not (form or is_json(request)):
            if self._passthrough is None or self._serves_models:
                raise unsupported(request)
            return await self._passthrough(request, target, journey, choices=self._choices, codec=self._codec)
        headers = outgoing_headers(request.headers, self._keys)
        raw = await read_body(request, self._max_json_bytes)
        asked = Incoming(request, target, headers, raw, journey)
        try:
            answer = await (self._read_form(asked) if form else self._read(asked))
        except RequestError as error:
            # The default upstream, which gets it as it came, is the one to judge it.
            if error.status != 400 or self._judged(journey):
                raise
            return await self._forward(asked)
        if answer is not None:
            return answer
        if self._serving is None or not self._serving.serves(asked.model):
            return await self._forward(asked)
        send = relay_for(request)
        await self._serving.answer(asked, send)
        return send.response

    async def _read(self, asked: Incoming) -> web.StreamResponse | None:
        """Read a JSON body; the answer, where somebody else gives it. Raises RequestError."""
        journey, limit_bytes = asked.journey, self._max_json_bytes
        fields = await read_json(asked.request, asked.raw, limit_bytes)
        if fields is None:
            if self._passthrough is None or self._serves_models:
                raise unsupported(asked.request)
            return await self._forward(asked)
        asked.fields = fields
        if journey.deployment:
            asked.raw, asked.fields = for_deployment(journey.deployment, asked.raw, fields, asked.headers)
        if self._instead is not None and self._instead.concerns(asked.fields):
            return await self._instead.answer(asked.request, asked.target, asked.raw, asked.fields, journey)
        if self._codec is None:
            asked.model = str(asked.fields.get("model", ""))
        else:
            asked.chat = await off_loop(len(asked.raw), self._codec.read, asked.raw, asked.fields)
            asked.model = asked.chat.model
        journey.model = asked.model
        return None

    async def _read_form(self, asked: Incoming) -> None:
        """Read a form. Raises RequestError."""
        form = await read_form_once(asked.request, asked.raw, self._max_json_bytes)
        if form is None:
            return
        deployment = asked.journey.deployment
        if deployment and form.fields.get("model") != deployment:
            form = await off_loop(len(form.raw), form.for_model, deployment)
            asked.raw = form.raw
            asked.headers.popall("Content-Length", None)
            asked.headers.popall("Content-Encoding", None)
        asked.form = form
        asked.model = asked.journey.model = form.fields.get("model", "")

    def _judged(self, journey: Journey) -> bool:
        """Whether somebody here needs what a body says: a served model, a key, a guardrail, or a path that names the
        model."""
        arrival = journey.admitted
        judged = arrival.key_id is not None or arrival.guarded is not None
        return judged or self._passthrough is None or self._serves_models or bool(journey.deployment)

    async def _forward(self, asked: Incoming) -> web.StreamResponse:
        """The default upstream's answer to it."""
        passthrough, journey = self._passthrough, asked.journey
        if passthrough is None:
            names = self._serving.names if self._serving is not None else ()
            raise unknown_model(asked.model, journey.admitted, names)
        outgoing = EngineRequest(
            "POST", asked.target, asked.headers, asked.raw, model=asked.model, below=journey.below
        )
        choices = self._choices if asked.chat is None else asked.chat.choices
        return await passthrough.forward(asked.request, outgoing, journey, choices=choices, codec=self._codec)


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


def unknown_model(model: str, arrival: Arrival | None = None, models: Iterable[str] = ()) -> RequestError:
    """The error for a model that nobody serves. With `arrival` it names which of `models` that one may use."""
    known = (name for name in models if arrival is not None and arrival.reach.allows_model(name))
    listed = ", ".join(sorted(known)[:20])
    return RequestError(
        f"The model '{model[:100]}' is not served here, and no default upstream is configured."
        + (f" Served: {listed}." if listed else ""),
        status=404,
        code="model_not_found",
        param="model",
    )
