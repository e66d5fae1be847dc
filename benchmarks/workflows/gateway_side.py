"""The gateway's own executor, passes, component lines, pipeline and placement before the same engines.

Real are gateway.runs with its growing and its store, workflows.plan, engines.components with its line,
engines.servers. Not there: sockets, processes, and what costs the gateway itself a millisecond.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from multidict import CIMultiDict

from benchmarks.batching.batch import Rules
from benchmarks.runs_store import OpenedRuns
from benchmarks.workflows.applications import EMBEDDER, RERANKER, WEB
from benchmarks.workflows.constants import Calibration
from benchmarks.workflows.engines import Paced, PacedIndex, World, batches, world_of
from engines.components.component import Ability, ComponentLimits, Work
from engines.components.registry import ComponentRegistry, Member
from engines.engine import Engine
from engines.placement import PLAIN, Placement
from engines.servers.breaker import Breaker
from engines.servers.line import Line
from engines.servers.server import Limits, Server
from engines.servers.servers import Servers
from gateway.admission import Admission
from gateway.pipeline import Pipeline
from gateway.runs.caller import Caller
from gateway.runs.step_door import StepDoor
from gateway.send import Send
from gateway.served_model import ServedModel
from gateway.stages.features import Features
from router.asked import Asked
from router.finished import Finished
from router.policies.fixed import Fixed
from workflows.definition import Definition
from workflows.plan import Profile
from workflows.running.knobs import RunKnobs
from workflows.running.live import LiveRun
from workflows.running.means import Means
from workflows.running.runs import Runs
from workflows.running.workflow import NewWorkflow
from workflows.transform import Value, as_text

_ANY = 100_000
_ABILITIES: Mapping[str, Ability] = {EMBEDDER: "embed", RERANKER: "rerank", WEB: "search"}
_MAX_IN_FLIGHT = 256
_KNOBS = RunKnobs(
    keep_values_s=3_600.0,
    max_steps=1_000,
    max_items=1_000,
    max_value_bytes=2**22,
    max_list_bytes=2**24,
    max_runs=None,
    max_total_bytes=None,
    max_wait_s=3600.0,
    lease_s=1e6,
    poll_s=1e5,
    max_prompt_characters=2**24,
)


@dataclass(frozen=True, slots=True)
class Way:
    """How the gateway is run: by depth, or blindly."""

    by_depth: bool = True
    tokens: int | None = None
    """Most tokens in flight at a model's instance (`tokens_in_flight`); None: as many as it takes."""
    batch: int | None = None
    """Most texts in a request to a component (`batch`); None: as many as its throughput gains from. The passes go by the
    latter in any case."""


class GatewaySide:
    """Carries definitions out. For one event loop, inside `gateway_side`."""

    def __init__(self, world: World, way: Way) -> None:
        self.world = world
        loop = asyncio.get_running_loop()
        self._lines: list[Line] = []
        engines = {name: self._engine(name, way.tokens) for name in world.models}
        models = {name: ServedModel(name, (name,), Fixed((name,)), remember=False) for name in engines}
        pipeline = Pipeline(engines, models, stages=Features(engines).stages, ended=lambda finished: None)
        self.components = ComponentRegistry(
            self._member(name, component, way.batch) for name, component in world.components.items()
        )
        admission = Admission(
            None, None, priced=lambda model, path: True, max_json_bytes=2**20, max_wait_s=60.0
        )
        known = batches(world.calibration)
        profile = Profile(known)
        components = self.components if way.by_depth else Blind(self.components)
        means = Means(components, self, lambda: profile)
        answer = pipeline.answer

        async def blindly(asked: Asked, send: Send) -> Finished:
            known = asked.placement or PLAIN
            placement = Placement(
                run=known.run,
                expected_tokens=known.expected_tokens,
                boundaries=known.boundaries,
                step=known.step,
            )
            return await answer(replace(asked, placement=placement), send)

        self._runs = Runs(
            StepDoor(answer if way.by_depth else blindly, admission),
            OpenedRuns(),
            _KNOBS,
            now=time.time,
            shared=False,
            means=means,
            move=self._move if way.by_depth else lambda placed: None,
        )
        self._caller = Caller(headers=CIMultiDict({"Content-Type": "application/json"}))
        self.loop = loop

    def _move(self, placed: Any) -> None:
        for line in self._lines:
            if line.waiting:
                line.move(placed)

    def _engine(self, name: str, tokens: int | None) -> Engine:
        clock = asyncio.get_running_loop().time
        limits = Limits(_MAX_IN_FLIGHT, _ANY, tokens, None, None)
        servers = [
            Server(one, limits, Breaker(failures=5, open_s=30.0, clock=clock))
            for one in self.world.models[name]
        ]
        engine = Servers(servers, clock)
        self._lines.append(engine.line)
        return engine

    def _member(self, name: str, component: Paced, batch: int | None) -> Member:
        calibration, web = self.world.calibration, name == WEB
        limits = ComponentLimits(
            max_in_flight=calibration.web_at_once if web else 1,
            max_queued=_ANY,
            batch=1 if web else batch or batches(calibration)[name],
            attempts=1,
            connect_s=1e6,
            answer_s=1e6,
            max_answer_bytes=2**24,
            breaker_failures=5,
            breaker_open_s=30.0,
        )
        ability = _ABILITIES[name]
        return Member(name, limits, {ability: getattr(component, ability)})

    # ---- workflows.running.indexes.Indexes

    def of_run(self, run: str) -> PacedIndex:
        """A table of the database."""
        return PacedIndex(self.world.database)

    def collection(
        self, tenant: str, name: str, *, embedder: str, contributor: str, source: str
    ) -> PacedIndex:
        """None of the applications keeps one."""
        raise NotImplementedError

    # ---- runs

    async def run(self, definition: Definition, inputs: Mapping[str, Value]) -> str:
        """The answer. Raises RuntimeError where there is none."""
        run = await self._runs.begin_workflow(NewWorkflow(self._caller, definition, inputs))
        assert isinstance(run, LiveRun) and run.output is not None
        cell = run.cells[run.output]
        await cell.until_ended()
        if cell.value is None:
            raise RuntimeError(str(cell.failure))
        return as_text(cell.value)

    def start(self) -> None:
        """Begin."""
        self._runs.start()

    async def aclose(self) -> None:
        """End the executor."""
        await self._runs.aclose(grace_s=0)
        await self.components.aclose()


class Blind:
    """Components whose line knows neither runs nor depths: first come, first served."""

    def __init__(self, components: ComponentRegistry) -> None:
        self._components = components

    def __getattr__(self, name: str) -> Any:
        return getattr(self._components, name)

    async def embed(self, name: str, texts: Sequence[str], work: Work) -> Any:
        """See Components."""
        return await self._components.embed(name, texts, _blind(work))

    async def rerank(self, name: str, query: str, texts: Sequence[str], work: Work) -> list[float]:
        """See Components."""
        return await self._components.rerank(name, query, texts, _blind(work))


def _blind(work: Work) -> Work:
    return Work("", work.tenant, work.step, 0, work.arrived_s, work.shared)


@asynccontextmanager
async def gateway_side(calibration: Calibration, way: Way) -> AsyncIterator[GatewaySide]:
    """The gateway before idle engines of today's kind, which have a prefix cache."""
    side = GatewaySide(world_of(calibration, Rules()), way)
    side.start()
    try:
        yield side
    finally:
        await side.aclose()
