"""An executor of runs over the store in memory, and an `answer` of which tests hold the strings in the pipeline's place."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
from multidict import CIMultiDict

from benchmarks.runs_store import OpenedRuns
from engines.errors import ConnectFailed
from gateway.runs.caller import Caller
from gateway.runs.step_door import StepDoor
from gateway.send import Send
from router.asked import Asked
from router.finished import Finished, Outcome
from store.workflows.records import Claim
from store.workflows.runs import WorkflowRuns
from tests.gateway.serving import open_admission
from workflows.running.knobs import RunKnobs
from workflows.running.live import LiveRun
from workflows.running.new_graph import NewGraph
from workflows.running.runs import Runs
from workflows.submitted import Built, Limits, build, read_run

KNOBS = RunKnobs(
    keep_values_s=3600.0,
    max_steps=1000,
    max_items=1000,
    max_value_bytes=20_000,
    max_list_bytes=20_000,
    max_runs=None,
    max_total_bytes=None,
    max_wait_s=3600.0,
    lease_s=0.4,
    poll_s=0.01,
    max_prompt_characters=40_000,
)
TENANT = "ann"


class Engine:
    """Answers `<prompt>` in two chunks. A prompt with `refuse` in it is a 400, one with `break` no answer at all."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self.pause_s = pause_s
        self.asked: list[Asked] = []
        self.under_way = 0

    @property
    def prompts(self) -> list[str]:
        """What was asked, in order."""
        return [str(asked.chat.messages[-1]["content"]) for asked in self.asked]

    @property
    def counts(self) -> Counter[str]:
        """How often each was asked."""
        return Counter(self.prompts)

    async def answer(self, asked: Asked, send: Send) -> Finished:
        """As Pipeline.answer."""
        self.asked.append(asked)
        prompt = self.prompts[-1]
        self.under_way += 1
        try:
            await asyncio.sleep(self.pause_s)
            if "break" in prompt:
                raise ConnectFailed("nobody answered", engine="e")
            if "refuse" in prompt:
                error = orjson.dumps({"error": {"message": "it is refused"}})
                send.whole(400, CIMultiDict({"Content-Type": "application/json"}), error)
                return _finished(asked, Outcome.UPSTREAM_ERROR, 400)
            write = await send.begin(200, CIMultiDict({"Content-Type": "text/event-stream"}))
            for piece in ("<", f"{prompt}>"):
                await write(_event({"choices": [{"index": 0, "delta": {"content": piece}}]}))
                await asyncio.sleep(self.pause_s)
            await write(_event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}))
            await write(b"data: [DONE]\n\n")
            await send.end()
            return _finished(asked, Outcome.ANSWERED, 200)
        finally:
            self.under_way -= 1


def _event(content: Mapping[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"


def _finished(asked: Asked, outcome: Outcome, status: int) -> Finished:
    return Finished(arrival=asked.arrival, outcome=outcome, status=status, engine="e", asked=asked)


async def taken_over(runs: Runs, dead: str) -> None:
    """Have an executor carry on what the worker `dead` had, as if that had not renewed its claims."""
    runs.store.renew(Claim(dead, -1.0)).result()
    await runs.claims.take()


@asynccontextmanager
async def runs_over(
    engine: Engine, store: WorkflowRuns | None = None, *, shared: bool = False, owner: str | None = None
) -> AsyncIterator[Runs]:
    """An executor that is closed afterwards."""
    made = Runs(
        StepDoor(engine.answer, open_admission()), store or OpenedRuns(), KNOBS, shared=shared, owner=owner
    )
    made.start()
    try:
        yield made
    finally:
        await made.aclose(grace_s=0)


def body(*steps: tuple[str, str], **more: Any) -> dict[str, Any]:
    """A run of (prompt, output's name)."""
    return {
        "steps": [
            {
                "model": "m",
                "messages": [{"role": "user", "content": text}],
                "understudy": {"output": {"name": name}},
            }
            for text, name in steps
        ],
        **more,
    }


async def begun(runs: Runs, asked: dict[str, Any], tenant: str = TENANT) -> tuple[LiveRun, Built]:
    """A run, and the ids of its variables."""
    built = build(read_run(asked, Limits(1000, 20_000)), {})
    caller = Caller(tenant, headers=CIMultiDict({"Content-Type": "application/json"}))
    run = await runs.begin(NewGraph(caller, tuple(built.graph.steps.values()), gets=built.gets))
    assert isinstance(run, LiveRun)
    return run, built


async def values(run: LiveRun) -> dict[str, Any]:
    """The run's values by name, once all of it has ended; None for one that failed."""
    for cell in run.cells.values():
        await cell.until_ended(kept=True)
    return {cell.name: cell.value for cell in run.cells.values()}
