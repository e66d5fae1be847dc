"""`/v1/runs`: steps that feed each other, taken at once; runs as they stand; and their end, asked for.

Another tenant's run, another end user's where they are apart, a forgotten one and one that never was are the same 404.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

from engines.errors import RequestError
from engines.off_loop import LARGE_BYTES, off_loop
from gateway.endpoints.handler import no_such_path, not_taken
from gateway.endpoints.steps import RunCallers
from gateway.errors import error_body
from gateway.keys import needs_credential
from gateway.own_response import json_in_pieces, json_response, own_response
from gateway.pipeline import Pipeline
from gateway.response_owners import Asker
from gateway.runs import shown
from gateway.runs.caller import Caller
from gateway.runs.events import IDLE_S, Events
from gateway.runs.follow import ended_event, followed
from gateway.runs.intake import (
    Intake,
    Taken,
    absent,
    idempotency,
    refusals,
    refuse_unstored,
    store_refusals,
)
from gateway.wire import read_body, read_json
from router.finished import Journey, Outcome
from store.workflows.records import Resolution, RunBudget
from workflows.called import CallLimits, read_inputs
from workflows.criteria import Criteria
from workflows.names import is_id, scoped
from workflows.running.catalogue import Catalogue, no_workflow
from workflows.running.chats import chat_of
from workflows.running.live import LiveRun, stored_value
from workflows.running.runs import LOST
from workflows.running.workflow import NewWorkflow
from workflows.submitted import RunAsked, WorkflowAsked, read_resolution, read_workflow_run


class RunsHandler:
    """Everything at and below `/runs`."""

    def __init__(
        self,
        intake: Intake,
        callers: RunCallers,
        pipeline: Pipeline,
        catalogue: Catalogue,
        limits: CallLimits,
        *,
        max_json_bytes: int,
    ) -> None:
        """`limits`: of the inputs of a workflow."""
        self._catalogue = catalogue
        self._limits = limits
        self._intake = intake
        self._runs = intake.runs
        self._callers = callers
        self._pipeline = pipeline
        self._max_json_bytes = max_json_bytes

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler. Raises RequestError."""
        needs_credential(journey.admitted.anonymous)
        with store_refusals():
            return await self._answer(request, target, journey)

    async def _answer(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        path = target.partition("?")[0]
        match request.method, path.split("/")[1:]:
            case "POST", ["runs"]:
                return await self._begin(request, target, journey)
            case "GET", ["runs", id]:
                content = await self._shown(self._asker(request, journey), id)
                journey.answered(200)
                return await _answer(request, content, 200)
            case "POST", ["runs", id, "cancel"]:
                return await self._cancel(request, journey, id)
            case "POST", ["runs", id, "steps", step]:
                return await self._resolve(request, journey, id, unquote(step))
            case "DELETE", ["runs", id]:
                return await self._forget(request, journey, id)
            case _, ["runs"] | ["runs", _] | ["runs", _, "cancel"] | ["runs", _, "steps", _]:
                raise not_taken(request.method, path)
            case _:
                raise no_such_path()

    # ---- all at once

    async def _begin(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        body = await read_body(request, self._max_json_bytes)
        fields = await read_json(request, body, self._max_json_bytes)
        if fields is None:
            raise RequestError(
                "This content encoding cannot be read here.", status=415, code="invalid_encoding"
            )
        if "workflow" in fields:
            return await self._begin_workflow(request, target, journey, body, fields)
        asked = await off_loop(len(body), self._intake.read_run, fields)
        caller = await off_loop(len(body), self._caller, request, target, asked, journey)
        if asked.app is not None and caller.end_user:
            asked = replace(asked, app=scoped(caller.end_user, asked.app))
        repeat = idempotency(request.headers.get("Idempotency-Key"), body, caller.end_user)
        taken = await self._intake.run(caller, asked, repeat, len(body))
        return await self._answered(request, journey, Asker(caller.tenant, caller.end_user), taken, asked)

    async def _begin_workflow(
        self, request: web.BaseRequest, target: str, journey: Journey, body: bytes, fields: dict[str, Any]
    ) -> web.StreamResponse:
        asker = self._asker(request, journey)
        repeat = idempotency(request.headers.get("Idempotency-Key"), body, asker.end_user)
        with refusals():
            asked = read_workflow_run(fields)
            journey.model = asked.name[:100]
            definition = await self._catalogue.find(asker.tenant, asked.name)
        if definition is None:
            raise no_workflow(asked.name)
        chat = chat_of({"model": asked.name, "messages": [{"role": "user", "content": ""}]})
        caller = self._callers.caller(request, target, {}, chat, journey.admitted)
        refuse_unstored(caller, background=asked.background)
        with refusals():
            inputs = await off_loop(len(body), read_inputs, definition, None, asked.inputs, self._limits)
            new = NewWorkflow(
                caller,
                definition,
                inputs,
                criteria=Criteria.TTFT if asked.stream else Criteria.LATENCY,
                budget=RunBudget(asked.budget.usd, asked.budget.tokens, asked.budget.seconds),
                background=asked.background,
                idempotency_key=repeat.key,
                idempotency_hash=repeat.hash,
                size_bytes=len(body),
            )
            begun = await self._runs.begin_workflow(new)
        taken = Taken.of(begun)
        return await self._answered(request, journey, asker, taken, asked)

    async def _answered(
        self,
        request: web.BaseRequest,
        journey: Journey,
        asker: Asker,
        taken: Taken,
        asked: RunAsked | WorkflowAsked,
    ) -> web.StreamResponse:
        if taken.live is None:
            return await self._repeated(request, journey, asker, taken)
        if asked.background and not asked.stream:
            journey.answered(202)
            return await _answer(request, await self._shown(asker, taken.run), 202)
        try:
            if asked.stream:
                return await self._stream(request, journey, asker, taken.live)
            await self._ended(taken.live)
        except BaseException:
            if not asked.background:
                self._runs.left(taken.live)
            raise
        return await _told(request, await self._shown(asker, taken.run, taken.live), journey)

    def _caller(self, request: web.BaseRequest, target: str, asked: RunAsked, journey: Journey) -> Caller:
        for index, step in enumerate(asked.steps):
            try:
                chat = chat_of(step.chat)
            except RequestError as error:
                error.param = f"steps[{index}].{error.param}" if error.param else f"steps[{index}]"
                raise
            model = self._pipeline.model(chat.model)
            if model is None or model.workflow:
                raise RequestError(
                    f"The model {chat.model[:100]!r} is not served here.",
                    status=404,
                    code="model_not_found",
                    param=f"steps[{index}].model",
                )
        first = asked.steps[0]
        fields = dict(first.chat)
        if any(step.chat.get("store") is False for step in asked.steps):
            # One run's rows are written, or none of them.
            fields["store"] = False
        return self._callers.caller(request, target, fields, chat_of(first.chat), journey.admitted)

    async def _ended(self, run: LiveRun) -> None:
        """Return when everything that was asked for has ended: then nobody waits for the rest."""
        wanted = [run.cells[id] for id in run.progress.gets if id in run.cells]
        for cell in wanted or tuple(run.cells.values()):
            await self._runs.until_ended(cell)

    async def _repeated(
        self, request: web.BaseRequest, journey: Journey, asker: Asker, taken: Taken
    ) -> web.StreamResponse:
        content = await self._shown(asker, taken.run)
        if content["status"] == "running":
            journey.answered(202)
            return await _answer(request, content, 202)
        return await _told(request, content, journey)

    async def _stream(
        self, request: web.BaseRequest, journey: Journey, asker: Asker, run: LiveRun
    ) -> web.StreamResponse:
        events = Events(request)
        journey.answered(200)
        await events.begin(x_understudy_run=run.id)
        number = 0
        async for event in self._events(asker, run):
            if event is not None:
                event["sequence_number"] = number
                number += 1
            await events.send(event)
        return await events.end()

    async def _events(self, asker: Asker, run: LiveRun) -> AsyncIterator[dict[str, Any] | None]:
        yield {"type": "run.created", "run": await self._shown(asker, run.id, run)}
        async for event in followed(run):
            yield event
        if run.lost:
            async for event in self._carried_on(run):
                yield event
        content = await self._shown(asker, run.id, run)
        yield {
            "type": f"run.{'completed' if content['status'] == 'done' else content['status']}",
            "run": content,
        }

    async def _carried_on(self, run: LiveRun) -> AsyncIterator[dict[str, Any] | None]:
        """The variables of a run that another process carries on by now, each once it has ended; None now and then."""
        for cell in run.cells.values():
            while cell.failure is not None and cell.failure.code == LOST:
                try:
                    async with asyncio.timeout(IDLE_S):
                        found = await self._runs.until_ended(cell)
                except TimeoutError:
                    yield None
                else:
                    yield ended_event(found)
                    break

    # ---- one run

    def _asker(self, request: web.BaseRequest, journey: Journey) -> Asker:
        """Of a request that names its end user in its headers, or not at all."""
        return Asker(
            journey.admitted.tenant, self._callers.behind(journey.admitted, request.headers).end_user
        )

    async def _shown(self, asker: Asker, id: str, live: LiveRun | None = None) -> dict[str, Any]:
        live = live or self._runs.live.get(id)
        with refusals():
            store = self._runs.store
            whole = await store.reads.large(store.run, id, asker.tenant) if is_id("run", id) else None
        if whole is None or whole.run.end_user != asker.end_user:
            raise absent("run")
        return shown.run(whole, live.cells if live is not None and not live.lost else {})

    async def _cancel(self, request: web.BaseRequest, journey: Journey, id: str) -> web.StreamResponse:
        asker = self._asker(request, journey)
        await self._shown(asker, id)
        with refusals():
            await self._runs.request_cancel(journey.admitted.tenant, id)
        content = await self._shown(asker, id)
        journey.answered(200)
        return json_response(content)

    async def _resolve(
        self, request: web.BaseRequest, journey: Journey, id: str, step: str
    ) -> web.StreamResponse:
        """What is to become of a step whose outcome nobody knows."""
        body = await read_body(request, self._max_json_bytes)
        fields = await read_json(request, body, self._max_json_bytes)
        with refusals():
            how, value = read_resolution(fields, self._runs.knobs.max_value_bytes)
        asker = self._asker(request, journey)
        known = [each["id"] for each in (await self._shown(asker, id))["steps"]]
        if step not in known:
            raise absent("step")
        with refusals():
            resolution = Resolution(how, None if value is None else stored_value(value))
            resolved = await self._runs.resolve(journey.admitted.tenant, id, step, resolution)
        if not resolved:
            raise RequestError(
                f"Step {step[:100]!r} does not wait to be told what became of it: only one that is `unknown` does.",
                status=409,
                code="step_not_unknown",
                param="step",
            )
        content = await self._shown(asker, id)
        journey.answered(200)
        return json_response(content)

    async def _forget(self, request: web.BaseRequest, journey: Journey, id: str) -> web.StreamResponse:
        await self._shown(self._asker(request, journey), id)
        with refusals():
            await self._runs.forget_run(journey.admitted.tenant, id)
        journey.answered(200)
        return json_response({"id": id, "object": "run.deleted", "deleted": True})


async def _told(request: web.BaseRequest, content: dict[str, Any], journey: Journey) -> web.StreamResponse:
    """The answer to who waited for a run: one that failed is the error of the step where that began, beside its values."""
    if content["status"] != "failed":
        journey.answered(200)
        return await _answer(request, content, 200)
    errors = [one["error"] for one in content["variables"].values() if one["error"] is not None]
    why = content["error"] or min(errors, key=lambda one: len(one["chain"]))
    status = why["status"] or 424
    journey.answered(status, Outcome.FAILED)
    journey.error = why["code"]
    told = orjson.loads(
        error_body(status, why["message"], code=why["code"], param=next(iter(why["chain"]), None))
    )
    return await _answer(request, content | {"error": {**why, **told["error"]}}, status)


async def _answer(request: web.BaseRequest, content: dict[str, Any], status: int) -> web.StreamResponse:
    headers = {"x-understudy-run": content["id"]}
    if status >= 400:
        # SDKs would have the steps that ended well asked again, too.
        headers["x-should-retry"] = "false"
    values = (one["value"] or "" for one in content["variables"].values())
    if (
        sum(len(each) for value in values for each in ([value] if isinstance(value, str) else value))
        <= LARGE_BYTES
    ):
        return own_response(orjson.dumps(content), status=status, headers=headers)
    return await json_in_pieces(request, content, "variables", status=status, headers=headers)
