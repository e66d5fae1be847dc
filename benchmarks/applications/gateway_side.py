"""How it is with us: the gateway's own executor, pipeline, placement and line, before the same simulated engines.

Real are gateway.runs (the executor), gateway.pipeline, engines.servers, and the store of runs in
memory. Not there: sockets, processes, JSON over the wire, and what costs the gateway itself a millisecond a step.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from multidict import CIMultiDict

from benchmarks.applications.client_side import MODEL, RoundTrips, engines_of
from benchmarks.applications.service import Log, Service, Site
from benchmarks.batching.engine import BatchingEngine
from benchmarks.runs_store import OpenedRuns
from engines.engine import Engine
from engines.placement import PLAIN
from engines.servers.breaker import Breaker
from engines.servers.server import Limits, Server
from engines.servers.servers import Servers
from gateway.admission import Admission
from gateway.pipeline import Pipeline
from gateway.runs.caller import Caller
from gateway.runs.step_door import StepDoor
from gateway.runs.step_send import StepSend
from gateway.served_model import ServedModel
from gateway.stages.features import Features
from loadtest.applications.shapes import Application, Call
from router.policies.fixed import Fixed
from workflows.running.chats import chat_of
from workflows.running.knobs import RunKnobs
from workflows.running.live import LiveRun
from workflows.running.new_graph import NewGraph
from workflows.running.runs import Runs
from workflows.submitted import Limits as AskedLimits
from workflows.submitted import build, read_run

_ANY = 10_000
_MAX_IN_FLIGHT = 256
_KNOBS = RunKnobs(
    keep_values_s=3_600.0,
    max_steps=1_000,
    max_items=1_000,
    max_value_bytes=2**20,
    max_list_bytes=2**25,
    max_runs=None,
    max_total_bytes=None,
    max_wait_s=3600.0,
    lease_s=60.0,
    poll_s=0.1,
    max_prompt_characters=2**24,
)


class GatewaySide:
    """Clients hand over whole applications; a plain call is a plain call."""

    def __init__(self, site: Site, log: Log, engines: list[BatchingEngine], engine: Engine) -> None:
        self.log = log
        self.engines = engines
        self._trips = RoundTrips(site.seed)
        model = ServedModel("m", ("sim",), Fixed(("sim",)), remember=False)
        named = {"sim": engine}
        self._pipeline = Pipeline(
            named, {"m": model}, stages=Features(named).stages, ended=lambda finished: None
        )
        self._admission = Admission(
            None, None, priced=lambda model, path: True, max_json_bytes=2**20, max_wait_s=60.0
        )
        self._runs = Runs(
            StepDoor(self._pipeline.answer, self._admission),
            OpenedRuns(),
            _KNOBS,
            now=time.time,
            shared=False,
        )
        self._caller = Caller(headers=CIMultiDict({"Content-Type": "application/json"}))

    async def call(self, call: Call, kind: str) -> None:
        """See Service."""
        await self._trips.call(lambda: self._plain({**call.fields(MODEL), "user": kind}))

    async def application(self, application: Application) -> None:
        """See Service: one round trip for all of it."""
        await self._trips.call(lambda: self._run(application))

    async def _plain(self, fields: dict[str, Any]) -> str:
        send = StepSend(lambda piece: None, max_text_bytes=2**20)
        admitted = await self._admission.carried_out(self._caller.arrival(), fields)
        await self._pipeline.answer(self._caller.asked(admitted, chat_of(fields), PLAIN), send)
        if send.status != 200 or not send.text:
            raise RuntimeError(send.refusal or send.broken)
        return send.text

    async def _run(self, application: Application) -> str:
        asked = read_run(
            application.run_body(MODEL, user=application.kind),
            AskedLimits(_KNOBS.max_steps, _KNOBS.max_value_bytes),
        )
        built = build(asked, {})
        run = await self._runs.begin(
            NewGraph(self._caller, tuple(built.graph.steps.values()), gets=built.gets)
        )
        assert isinstance(run, LiveRun)
        values = [await self._value(built.variables[name]) for name in application.wanted]
        return "\n".join(values)

    async def _value(self, id: str) -> str:
        cell = await self._runs.find(self._caller.tenant, id)
        assert cell is not None
        await cell.until_ended()
        if cell.value is None:
            raise RuntimeError(str(cell.failure))
        return str(cell.value)

    async def aclose(self) -> None:
        """End the executor."""
        await self._runs.aclose()


@asynccontextmanager
async def gateway_side(site: Site) -> AsyncIterator[Service]:
    """A service with us."""
    log = Log()
    engines = engines_of(site.count, site.speed, site.rules, log.note)
    service = GatewaySide(site, log, engines, before(site, engines))
    try:
        yield service
    finally:
        await service.aclose()


def before(site: Site, engines: list[BatchingEngine]) -> Engine:
    """What the gateway builds of an engine's settings."""
    clock = asyncio.get_running_loop().time
    limits = Limits(_MAX_IN_FLIGHT, _ANY, site.tokens, site.latency_tokens, None)
    return Servers(
        [Server(one, limits, Breaker(failures=5, open_s=30.0, clock=clock)) for one in engines], clock
    )
