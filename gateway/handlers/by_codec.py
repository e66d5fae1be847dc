"""Endpoints whose wire format a codec knows: `/messages` and `/completions`. Read, find who serves the model, hand over.

What chat completions can do beyond that (variables, workflows) is gateway.handlers.chat's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web
from multidict import CIMultiDict

from engines.codecs.codec import Codec
from engines.engine import EngineRequest
from engines.errors import RequestError
from gateway.azure import for_deployment
from gateway.controls import read_controls, refuse_unsuited
from gateway.encodings import accept_only_readable
from gateway.handlers.by_model import unknown_model
from gateway.handlers.chat import Limits, unsupported
from gateway.journey import Journey
from gateway.keys import Authenticator, outgoing_headers
from gateway.off_loop import off_loop
from gateway.passthrough import Passthrough, reads_bodies
from gateway.pipeline import Pipeline
from gateway.relay import Relay
from gateway.wire import is_json, read_body, read_json
from router.asked import Asked

if TYPE_CHECKING:
    from learning.bank.contributor import EndUsers


class ByCodec:
    """One such endpoint. Without a pipeline, and for models that it does not serve, requests go to the default upstream as
    they came.

    `end_users`: None where nothing is remembered.
    """

    def __init__(
        self,
        codec: Codec,
        pipeline: Pipeline | None,
        passthrough: Passthrough | None,
        keys: Authenticator,
        limits: Limits,
        end_users: EndUsers | None = None,
    ) -> None:
        self._codec = codec
        self._pipeline = pipeline
        self._passthrough = passthrough
        self._keys = keys
        self._limits = limits
        self._end_users = end_users

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.handlers.handler.Handler. Raises RequestError for a body that is not one of this API."""
        headers = outgoing_headers(request.headers, self._keys)
        body = await read_body(request, self._limits.max_json_bytes)
        pipeline = self._pipeline
        serves = pipeline is not None and pipeline.serves_models
        needed = reads_bodies(self._passthrough, journey, serves_models=serves)
        fields = (
            await read_json(request, body, self._limits.max_json_bytes, needed=needed)
            if is_json(request)
            else None
        )
        if fields is None:
            if self._passthrough is None or serves:
                raise unsupported(request)
            return await self._forward(request, target, headers, body, journey)
        body, fields = for_deployment(journey.deployment, body, fields, headers)
        try:
            chat = await off_loop(len(body), self._codec.read, body, fields)
        except RequestError:
            if needed:
                raise
            return await self._forward(request, target, headers, body, journey)
        journey.model = chat.model
        if pipeline is None or pipeline.model(chat.model) is None:
            return await self._forward(request, target, headers, body, journey, choices=chat.choices)
        controls = read_controls(request.headers, fields)
        refuse_unsuited(controls, chat)
        if journey.admitted.anonymous:
            controls = replace(controls, no_store=True, no_cache=True)
        accept_only_readable(headers)
        contributor = end_user = user = ""
        if self._end_users is not None:
            contributor, end_user = self._end_users.behind(journey.admitted, request.headers, fields)
            user = self._end_users.user(request.headers, fields)
        _, separator, query = target.partition("?")
        asked = Asked(
            journey.admitted,
            self._codec.path + separator + query,
            headers,
            chat,
            controls,
            self._limits.max_kept_bytes,
            contributor,
            end_user,
            user=user,
        )
        send = Relay(request)
        journey.in_pipeline = True
        await pipeline.answer(asked, send)
        return send.response

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
        if self._passthrough is None:
            raise unknown_model(journey.model)
        outgoing = EngineRequest("POST", target, headers, body, model=journey.model)
        return await self._passthrough.forward(request, outgoing, journey, choices=choices, codec=self._codec)
