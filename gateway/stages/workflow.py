"""The stage of models that are workflows: it says what a run is to do, in the place of who decides on an engine.

A workflow is not answered by another engine as a whole: there is nothing to decide. Its steps are requests, each of which is
decided on, limited and learnt from by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engines.chat import IN_BODY, ChatRequest
from engines.errors import RequestError
from engines.off_loop import off_loop
from engines.run_call import WORKFLOW, RunCall
from gateway.keys import needs_credential
from gateway.runs.caller import Caller
from gateway.runs.intake import refusals
from gateway.stages.stage import Next, UnderWay
from router.asked import Asked
from router.plan import Attempt, Plan
from workflows.called import CallLimits, read_inputs
from workflows.criteria import Criteria
from workflows.running.catalogue import Catalogue
from workflows.running.workflow import NewWorkflow
from workflows.submitted import read_workflow_call

_CALL_TOOLS = ("chat", "responses")
"""APIs in which a client's tools, and what came of them, are said as in a chat completion."""


class WorkflowStage:
    """See gateway.stages.stage.Stage."""

    def __init__(
        self,
        catalogue: Catalogue,
        limits: CallLimits,
        lend: Callable[[str], None],
        credential_headers: tuple[str, ...] = (),
    ) -> None:
        """`lend` gives back the place of a request, by its id: its steps take places themselves. `credential_headers`:
        `listen.tenant_headers`."""
        self._catalogue = catalogue
        self._limits = limits
        self._lend = lend
        self._credential_headers = credential_headers

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """See Stage. Raises RequestError: 401 without a credential, 404 where the tenant has no such workflow, 400 and 413
        for what is no call of it."""
        record = request.record
        asked = record.asked
        needs_credential(asked.arrival.anonymous)
        if asked.placement is not None and asked.placement.run:
            raise _unknown(record.model)
        with refusals():
            new = await self._new(asked)
        definition, reach = new.definition, asked.arrival.reach
        # What a key may not have made it is not given from memory either.
        repeatable = definition.repeatable and all(
            (not step.model or reach.allows_model(step.model))
            and (not step.component or reach.allows_component(step.component))
            for step in definition.steps.values()
        )
        digest = f"{request.model.digest}\n{definition.version}"
        request.model = replace(request.model, digest=digest, repeatable=repeatable)
        self._lend(asked.arrival.id)
        attempt = Attempt(WORKFLOW, call=RunCall(new, asked.arrival.id))
        record.plan = Plan((attempt,), WORKFLOW, definition.version, WORKFLOW)
        record.decided(WORKFLOW, definition.version, WORKFLOW)
        return next

    async def _new(self, asked: Asked) -> NewWorkflow:
        chat = asked.chat
        definition = await self._catalogue.find(asked.arrival.tenant, chat.model)
        if definition is None:
            raise _unknown(chat.model)
        if chat.state not in ("", IN_BODY):
            raise RequestError(
                f"A workflow reads its request and nothing else: `{chat.state}` names what is stored elsewhere.",
                code="unsupported_field",
                param=chat.state,
            )
        fields = _as_chat(chat)
        call = read_workflow_call(fields)
        if "tools" in call.sampling and not (definition.calls_tools and chat.api in _CALL_TOOLS):
            raise RequestError(
                "Tools reach the chat that answers a workflow, in chat completions and responses; the output of"
                f" {chat.model[:100]!r} has to be a chat's answer as it came.",
                code="unsupported_field",
                param="tools",
            )
        inputs = await off_loop(len(chat.body), read_inputs, definition, fields, call.inputs, self._limits)
        return NewWorkflow(
            Caller.behind(asked, self._credential_headers),
            definition,
            inputs,
            criteria=Criteria.TTFT if call.stream else Criteria.LATENCY,
            fields=call.sampling,
            size_bytes=len(chat.body),
        )


def _as_chat(chat: ChatRequest) -> dict[str, object]:
    """The body as a chat completion, with what it says to the gateway. A prompt of `/completions` is the user's."""
    fields = {**chat.fields, "model": chat.model, "stream": chat.stream}
    if chat.api == "completions":
        fields["messages"] = [{**message, "role": "user"} for message in chat.messages]
    choice = fields.get("tool_choice")
    if chat.api == "responses" and isinstance(choice, dict) and "name" in choice:
        fields["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
    if (said := chat.own_fields.get("understudy")) is not None:
        fields["understudy"] = said
    return fields


def _unknown(name: str) -> RequestError:
    return RequestError(
        f"There is no workflow {name[:100]!r} here.", status=404, code="model_not_found", param="model"
    )
