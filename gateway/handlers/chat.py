"""`POST /v1/chat/completions`: read the request, find who serves its model, hand it to the pipeline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aiohttp import web
from multidict import CIMultiDict

from engines.chat_json import read_chat_request
from engines.engine import EngineRequest
from engines.errors import RequestError
from engines.placement import PLAIN, Placement, Rank
from gateway.azure import for_deployment
from gateway.controls import read_controls, refuse_unsuited
from gateway.encodings import accept_only_readable
from gateway.handlers.by_model import unknown_model
from gateway.journey import Journey
from gateway.keys import Authenticator, outgoing_headers
from gateway.off_loop import off_loop
from gateway.passthrough import Passthrough, reads_bodies
from gateway.pipeline import Pipeline
from gateway.relay import Relay
from gateway.wire import is_json, read_body, read_json
from router.asked import Asked

if TYPE_CHECKING:
    from gateway.handlers.steps import Steps
    from gateway.handlers.workflow_calls import WorkflowCalls
    from learning.bank.contributor import EndUsers

PATH = "/chat/completions"
_FLEX = Placement(Rank.THROUGHPUT)


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes, in bytes."""

    max_json_bytes: int
    max_kept_bytes: int


class ChatCompletions:
    """Without a pipeline, and for models that it does not serve, requests go to the default upstream as they came."""

    def __init__(
        self,
        pipeline: Pipeline | None,
        passthrough: Passthrough | None,
        keys: Authenticator,
        limits: Limits,
        end_users: EndUsers | None = None,
        steps: Steps | None = None,
        workflows: WorkflowCalls | None = None,
    ) -> None:
        """`end_users`, `steps` and `workflows`: None where nothing is remembered."""
        self._steps = steps
        self._workflows = workflows
        self._end_users = end_users
        self._pipeline = pipeline
        self._passthrough = passthrough
        self._keys = keys
        self._limits = limits

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.handlers.handler.Handler. Raises RequestError for a body that is not a chat request."""
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
            if serves:
                raise unsupported(request)
            return await self._forward(request, target, headers, body, journey)
        body, fields = for_deployment(journey.deployment, body, fields, headers)
        workflows = self._workflows
        if workflows is not None:
            workflow = await workflows.find(journey.admitted.tenant, fields.get("model"))
            if workflow is not None:
                return await workflows.answer(request, target, body, fields, workflow, journey)
        if "understudy" in fields:
            if self._steps is None:
                raise _no_memory()
            return await self._steps.answer(request, target, body, fields, journey)
        try:
            chat = await off_loop(len(body), read_chat_request, body, fields)
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
        controls = read_controls(request.headers, fields)
        refuse_unsuited(controls, chat)
        if journey.admitted.anonymous:
            controls = replace(controls, no_store=True, no_cache=True)
        accept_only_readable(headers)
        contributor = end_user = user = ""
        if self._end_users is not None:
            contributor, end_user = self._end_users.behind(journey.admitted, request.headers, fields)
            user = self._end_users.user(request.headers, fields)
        asked = Asked(
            journey.admitted,
            _as_asked(target),
            headers,
            chat,
            controls,
            self._limits.max_kept_bytes,
            contributor,
            end_user,
            placement(fields.get("service_tier")),
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
            raise unsupported(request)
        outgoing = EngineRequest("POST", target, headers, body)
        return await self._passthrough.forward(request, outgoing, journey, choices=choices)


def _as_asked(target: str) -> str:
    """The target as engines get it: the one spelling of the path, and the query as it came."""
    _, separator, query = target.partition("?")
    return PATH + separator + query


def unsupported(request: web.BaseRequest, what: str = "A chat completion") -> RequestError:
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


def _no_memory() -> RequestError:
    return RequestError(
        "Variables are kept in memory.data_dir, and this gateway has no `memory`.",
        code="no_memory",
        param="understudy",
    )
