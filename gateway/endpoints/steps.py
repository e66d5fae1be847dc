"""A chat completion with the object `understudy`: a call whose inputs are variables, and whose answer becomes some.

Submitted, it is answered at once and carried out by itself; otherwise it waits for its inputs, then answers as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from aiohttp import web
from multidict import MultiMapping

from engines.chat import ChatRequest
from engines.errors import RequestError
from engines.off_loop import off_loop
from gateway.admission import Admission
from gateway.controls import read_controls
from gateway.keys import Authenticator, needs_credential, outgoing_headers
from gateway.limits.headers import TICKET, lend_place
from gateway.own_response import json_response
from gateway.pipeline import Pipeline
from gateway.relay import relay_for
from gateway.runs.caller import Caller
from gateway.runs.intake import Intake, Taken, idempotency, no_value, refusals
from gateway.runs.shown import submitted
from gateway.runs.step_door import Client
from router.asked import Admitted, Arrival, Asked
from router.finished import Journey
from workflows.names import StepId, scoped
from workflows.progress import Failure
from workflows.running.chats import chat_of
from workflows.running.live import LiveRun

if TYPE_CHECKING:
    from learning.bank.contributor import Behind, EndUsers

KEY = "understudy"


class WithoutMemory:
    """Refuses chat completions that carry the object, where nothing is remembered: see ModelEndpoint."""

    def concerns(self, fields: Mapping[str, Any]) -> bool:
        """See Instead."""
        return KEY in fields

    async def answer(
        self, request: web.BaseRequest, target: str, body: bytes, fields: dict[str, Any], journey: Journey
    ) -> web.StreamResponse:
        """Raises RequestError."""
        raise RequestError(
            "Variables are kept in memory.data_dir, and this gateway has no `memory`.",
            code="no_memory",
            param=KEY,
        )


class RunCallers:
    """Who is behind a request about runs."""

    def __init__(
        self,
        keys: Authenticator,
        end_users: EndUsers,
        *,
        max_kept_bytes: int,
        credential_headers: tuple[str, ...] = (),
    ) -> None:
        """`credential_headers`: `listen.tenant_headers`."""
        self._credential_headers = credential_headers
        self._keys = keys
        self._end_users = end_users
        self._max_kept_bytes = max_kept_bytes

    def caller(
        self,
        request: web.BaseRequest,
        target: str,
        fields: dict[str, Any],
        chat: ChatRequest,
        arrival: Admitted,
    ) -> Caller:
        """Of a request whose steps are to be asked, and have its place from here on. `fields`: its body. Raises
        RequestError."""
        lend_place(request)
        headers = outgoing_headers(request.headers, self._keys)
        controls = read_controls(request.headers, fields)
        contributor, end_user = self._end_users.behind(arrival, request.headers, fields)
        asked = Asked(arrival, target, headers, chat, controls, self._max_kept_bytes, contributor, end_user)
        return Caller.behind(asked, self._credential_headers)

    def behind(self, arrival: Arrival, headers: MultiMapping[str]) -> Behind:
        """Who is behind a request that names its end user in its headers, or not at all."""
        return self._end_users.behind(arrival, headers, {})


class Steps:
    """Answers chat completions that carry the object, but for those of a workflow: there it holds its inputs."""

    def __init__(self, intake: Intake, callers: RunCallers, pipeline: Pipeline, admission: Admission) -> None:
        self._intake = intake
        self._callers = callers
        self._pipeline = pipeline
        self._admission = admission

    def concerns(self, fields: Mapping[str, Any]) -> bool:
        """See gateway.endpoints.model_endpoint.Instead."""
        if KEY not in fields:
            return False
        name = fields.get("model")
        model = self._pipeline.model(name) if isinstance(name, str) else None
        return model is None or not model.workflow

    async def answer(
        self,
        request: web.BaseRequest,
        target: str,
        body: bytes,
        fields: dict[str, Any],
        journey: Journey,
    ) -> web.StreamResponse:
        """The answer to such a request. Raises RequestError, and what Pipeline.answer does."""
        needs_credential(journey.admitted.anonymous)
        asked = await off_loop(len(body), self._intake.read_step, fields)
        chat = await off_loop(len(body), chat_of, asked.chat)
        journey.model = chat.model
        if self._pipeline.model(chat.model) is None:
            raise RequestError(
                f"The model {chat.model[:100]!r} is not served here.",
                status=404,
                code="model_not_found",
                param="model",
            )
        caller = self._callers.caller(request, target, fields, chat, journey.admitted)
        if asked.app is not None and caller.end_user:
            asked = replace(asked, app=scoped(caller.end_user, asked.app))
        repeat = idempotency(request.headers.get("Idempotency-Key"), body, caller.end_user)
        taken = await self._intake.call(caller, asked, repeat, len(body))
        if asked.submit:
            journey.answered(202)
            response = json_response(submitted(taken, chat, self._intake.runs.now()), status=202)
            response.headers["x-understudy-run"] = taken.run
            return response
        return await self._called(request, taken, journey)

    async def _called(self, request: web.BaseRequest, taken: Taken, journey: Journey) -> web.StreamResponse:
        run = taken.live
        assert run is not None

        async def let_in(fields: Mapping[str, Any]) -> Admitted:
            if (ticket := request.get(TICKET)) is not None:
                await ticket.back()
            came = replace(journey.admitted, began=perf_counter())
            admitted = await self._admission.carried_out(came, fields)
            journey.in_pipeline = True
            return admitted

        send = relay_for(request)
        with refusals():
            answered = await self._intake.runs.call(run, taken.step, Client(send, let_in))
        if not answered:
            raise _failed(run, taken.step)
        return send.response


def _failed(run: LiveRun, step: StepId) -> RequestError:
    """Why a call that waited for its inputs was not asked."""
    failures: list[Failure] = [
        failure
        for id in run.graph.steps[step].reads.values()
        if (failure := run.progress.failures.get(id)) is not None
    ]
    if failures:
        first = failures[0]
        return no_value(first.chain[0] if first.chain else "", first)
    return RequestError("The run of this call was cancelled.", status=424, code="cancelled")
