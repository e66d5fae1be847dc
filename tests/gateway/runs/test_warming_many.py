"""Prefixes of long lists: what thinking about them costs does not grow with the square of their number."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.runs_store import OpenedRuns
from engines.engine import EngineInfo, EngineLoad
from gateway.runs.caller import Caller
from gateway.runs.means import Means
from gateway.runs.runs import Runs
from gateway.runs.warming import Certain, Warmer
from gateway.send import Send
from router.asked import Asked
from router.finished import Finished
from tests.gateway.runs.carried_out import KNOBS
from tests.gateway.runs.declared_world import World, begun
from tests.gateway.runs.test_flows import over
from tests.gateway.serving import open_admission
from tests.workflows.definitions import Answers, chat_messages, definition
from workflows.definition import StepSpec
from workflows.plan import Profile

_ITEMS = 300


class Held(World):
    """Answers nothing before `let` is set."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers)
        self.let = asyncio.Event()

    async def answer(self, asked: Asked, send: Send) -> Finished:
        await self.let.wait()
        return await super().answer(asked, send)


@pytest.mark.parametrize("full", [True, False])
async def test_a_full_engine_is_looked_at_once_for_all_items(full: bool) -> None:
    """A prefix is known for each item of a map; its engine is full, or the prefixes are too short."""
    declared = definition(
        StepSpec("draft", "chat", messages=chat_messages("{{question}}"), reads=("question",), model="m"),
        StepSpec(
            "said",
            "map",
            ("documents",),
            messages=chat_messages("{{item}}\n{{draft}}"),
            reads=("draft",),
            model="m",
        ),
    )
    looked: list[str] = []

    def certain(model: str, caller: Caller) -> Certain:
        looked.append(model)
        return Certain(engine, hosted=False)

    load = EngineLoad(in_flight=9, capacity=1)
    engine: Any = SimpleNamespace(info=EngineInfo("e"), load=lambda: load)
    world, admission = Held(Answers(4)), open_admission()
    warmer = Warmer(certain, {}, world.answer, admission, min_tokens=16 if full else 100_000)
    profile = Profile({}, lambda model: True, warm_min_tokens=16)
    means = Means(world, world, lambda: profile, warmer)
    runs = Runs(world.answer, admission, OpenedRuns(), KNOBS, shared=False, means=means)
    runs.start()
    try:
        documents = [f"{number} " + "word " * 12 for number in range(_ITEMS)]
        run = await begun(runs, declared, {"question": "what?", "documents": documents})
        for _ in range(40):
            await asyncio.sleep(0)
        planned = len(looked)
        # Each once; or, at each of the few events so far, one for all of them.
        assert 1 <= planned <= 5 if full else planned == _ITEMS
        world.let.set()
        await over(run)
    finally:
        await runs.aclose(grace_s=0)
        await warmer.aclose()
    assert len(looked) <= 3 * _ITEMS
