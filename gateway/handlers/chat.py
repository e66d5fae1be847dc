"""`POST /v1/chat/completions`: read the request, find who serves its model, hand it to the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web
from multidict import CIMultiDict

from engines.chat import ChatRequest
from engines.chat_json import read_chat_request
from engines.engine import EngineRequest
from engines.errors import RequestError
from gateway.answer import Answer, Kept
from gateway.controls import Controls, read_controls
from gateway.journey import Journey
from gateway.keys import Gatekeeper, outgoing_headers
from gateway.passthrough import Passthrough
from gateway.pipeline import Pipeline, ServedModel
from gateway.wire import is_json, read_body, read_json
from store.answers.exact_key import exact_key

_READABLE = frozenset({"gzip", "deflate", "identity", "x-gzip", "*"})


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes, in bytes."""

    max_json_bytes: int
    max_kept_bytes: int


class ChatCompletions:
    """`otherwise` serves models that `models` does not name; None refuses them."""

    def __init__(
        self,
        pipeline: Pipeline | None,
        models: Mapping[str, ServedModel],
        otherwise: ServedModel | None,
        passthrough: Passthrough | None,
        keys: Gatekeeper,
        limits: Limits,
        *,
        exact: bool,
    ) -> None:
        self._pipeline = pipeline
        self._models = models
        self._otherwise = otherwise
        self._passthrough = passthrough
        self._keys = keys
        self._limits = limits
        self._exact = exact

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.door.Handler. Raises RequestError for a body that is not a chat request."""
        headers = outgoing_headers(request, self._keys)
        body = await read_body(request, self._limits.max_json_bytes)
        fields = await read_json(request, body, self._limits.max_json_bytes) if is_json(request) else None
        if fields is None:
            return await self._forward(request, target, headers, body, journey)
        chat = read_chat_request(body, fields)
        journey.model = chat.model
        model = self._models.get(chat.model) or self._otherwise
        if self._pipeline is None or model is None:
            if self._passthrough is None:
                raise _unknown_model(chat.model, self._models)
            return await self._forward(request, target, headers, body, journey)
        controls = read_controls(request.headers, fields)
        answer = Answer(chat, controls, None, Kept(self._limits.max_kept_bytes), target)
        if self._exact and not controls.steers:
            answer.exact_key = _key(chat, controls, model, target, request, journey)
        _accept_only_readable(headers)
        return await self._pipeline.answer(request, target, headers, answer, model, journey)

    async def _forward(
        self, request: web.BaseRequest, target: str, headers: CIMultiDict[str], body: bytes, journey: Journey
    ) -> web.StreamResponse:
        if self._passthrough is None:
            raise RequestError(
                "This body cannot be read here, and no default upstream is configured.", status=415
            )
        outgoing = EngineRequest("POST", target, headers, body)
        return await self._passthrough.forward(request, outgoing, journey, ends_with_terminal=True)


def _key(
    chat: ChatRequest,
    controls: Controls,
    model: ServedModel,
    target: str,
    request: web.BaseRequest,
    journey: Journey,
) -> bytes:
    # What else can change the answer: the query (an API version, say), a beta switched on, and who serves the model.
    endpoint = f"{target}\n{request.headers.get('OpenAI-Beta', '')}"
    policy = f"{model.policy.name}\n{','.join(model.engines)}"
    return exact_key(journey.tenant, endpoint, policy, chat.fields)


def _accept_only_readable(headers: CIMultiDict[str]) -> None:
    """Ask upstreams for no content encoding that the recorder cannot read."""
    accepted = headers.get("Accept-Encoding")
    if accepted is None:
        return
    kept = [
        part for part in accepted.split(",") if part.partition(";")[0].strip().lower() in _READABLE - {"*"}
    ]
    headers["Accept-Encoding"] = ",".join(kept) or "identity"


def _unknown_model(name: str, models: Mapping[str, ServedModel]) -> RequestError:
    known = ", ".join(sorted(models)[:20]) or "none"
    return RequestError(
        f"The model '{name[:100]}' is not served here, and no default upstream is configured. Served: {known}.",
        status=404,
        code="model_not_found",
        param="model",
    )
