"""Where the chats of a workflow stand in an engine's line."""

from __future__ import annotations

from typing import Any

import pytest

from engines.placement import Placement, Rank
from tests.workflows.definitions import Answers, chat_messages, definition
from tests.workflows.running.declared_world import World, begun, flows_over
from tests.workflows.running.test_flows import QUESTION, over
from workflows.criteria import Criteria
from workflows.definition import Definition, StepSpec


def mapped() -> Definition:
    """A chat, one for each document, and one for all of them."""
    return definition(
        StepSpec("first", "chat", messages=chat_messages("{{question}}"), reads=("question",), model="small"),
        StepSpec(
            "each",
            "map",
            ("documents",),
            chat_messages("{{item}} {{first}}"),
            reads=("first",),
            model="small",
        ),
        StepSpec("all", "chat", messages=chat_messages("{{each}}"), reads=("each",), model="small"),
    )


async def placed(**more: Any) -> dict[str, Placement]:
    world = World(Answers(1))
    async with flows_over(world) as runs:
        run = await begun(runs, mapped(), QUESTION, **more)
        await over(run)
        assert run.ended == "done"
    return {asked.placement.step: asked.placement for asked in world.chats}


async def test_items_of_a_map_are_a_group_and_the_others_are_waited_for() -> None:
    found = await placed()
    assert {step: (each.rank, each.group) for step, each in found.items()} == {
        "first": (Rank.LATENCY, ""),
        **{f"each[{n}]": (Rank.GROUP, "each") for n in range(3)},
        "all": (Rank.LATENCY, ""),
    }
    assert found["first"].depth < found["each[0]"].depth == found["each[2]"].depth < found["all"].depth
    assert len({each.run for each in found.values()}) == 1


async def test_what_is_left_of_a_run_gets_less() -> None:
    found = await placed()
    left = [found[step].work_left for step in ("first", "each[0]", "all")]
    assert left[0] > left[1] > left[2] > 0


@pytest.mark.parametrize(
    ("criteria", "rank"), [(Criteria.TTFT, Rank.LATENCY), (Criteria.THROUGHPUT, Rank.THROUGHPUT)]
)
async def test_what_nobody_waits_for_comes_last(criteria: Criteria, rank: Rank) -> None:
    assert (await placed(criteria=criteria))["all"].rank is rank
