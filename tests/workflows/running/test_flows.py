"""Runs of workflows over the executor: whatever the passes, values, errors and effects are the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workflows.definitions import (
    Answers,
    answers,
    chat_messages,
    definition,
    definitions,
    doc_qa,
    inputs,
)
from tests.workflows.running.declared_world import World, begun, flows_over
from workflows.definition import PASSES, Definition, Splits, StepSpec
from workflows.running.live import LiveRun
from workflows.transform import Value

QUESTION = {"question": "what?", "documents": ["abcd", "bcda", "cdab"]}


@dataclass(frozen=True)
class Ended:
    """What came of a run, as its client and the world outside see it."""

    state: str
    values: dict[str, Value | None]
    failed: dict[str, str]
    effects: Counter[str]


async def ended(world: World, declared: Definition, given: dict[str, Any], **more: Any) -> Ended:
    world.splits = {name: spec.splits for name, spec in declared.steps.items() if spec.splits is not None}
    async with flows_over(world) as runs:
        run = await begun(runs, declared, given, **more)
        await over(run)
        assert not world.under_way.total(), "what nobody waits for is not asked"
        cells = {name: run.cells[run.flow.unfolding.variable(name)] for name in declared.steps}
        assert all(cell.ended and cell.kept for cell in cells.values())
        failed = {name: cell.failure.code for name, cell in cells.items() if cell.failure is not None}
        return Ended(
            str(run.ended),
            {name: cell.value for name, cell in cells.items()},
            failed,
            Counter({key.partition(":")[2]: count for key, count in world.effects.items()}),
        )


async def over(run: LiveRun) -> None:
    """Return when all of it has ended and is committed."""
    async with asyncio.timeout(60):
        while run.ended is None or not all(cell.kept for cell in run.cells.values()):
            await asyncio.sleep(0)


async def test_questions_about_documents_are_answered() -> None:
    found = await ended(World(Answers(4)), doc_qa(passes=frozenset()), QUESTION)
    assert found.state == "done"
    assert found.values["answer"]
    assert found.values["index"] is None, "an index is no text"
    assert not found.failed


@pytest.mark.parametrize("passes", [frozenset(), frozenset(PASSES)])
async def test_a_failed_step_fails_what_depends_on_it_and_nothing_else(passes: frozenset[Any]) -> None:
    declared = definition(
        StepSpec("broken", "chat", messages=chat_messages("x"), model="large", splits=Splits("json")),
        StepSpec("each", "map", ("broken",), chat_messages("{{item}}"), model="small"),
        StepSpec("other", "chat", messages=chat_messages("{{question}}"), reads=("question",), model="small"),
        output="other",
        passes=passes,
    )
    seed = next(s for s in range(99) if not Answers(s).chat(chat_messages("x"), Splits("json")).endswith("]"))
    found = await ended(World(Answers(seed)), declared, QUESTION)
    assert found.state == "done"
    assert found.failed == {"broken": "transform_failed", "each": "transform_failed"}


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(definitions(), inputs(), answers(), st.integers(0, 1 << 16))
def test_all_sets_of_passes_give_equal_values_errors_and_effects(
    declared: Definition, given: dict[str, Value], said: Answers, seed: int
) -> None:
    async def all_ended() -> list[Ended]:
        found = []
        for passes in (
            frozenset(),
            frozenset(PASSES),
            frozenset({"prune"}),
            frozenset({"decoding", "stages"}),
        ):
            from dataclasses import replace

            changed = replace(declared, passes=passes)
            found.append(await ended(World(said, seed + len(passes)), changed, given))
        return found

    first, *others = asyncio.run(all_ended())
    for other in others:
        assert other == first
