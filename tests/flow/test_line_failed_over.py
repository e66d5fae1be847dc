"""An outage is told as one: who answered instead saved nothing, was offloaded nothing, and teaches the router nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from store.sums import DAY_S
from tests.flow.line import Asked
from tests.flow.test_line_examples import ALIKE, QUESTION, Stage, stage
from tests.flow.test_line_in_context import stage as learning_stage

PRICE = {"price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 10.0}}
KEY = "sk-proj-" + "Qm7vT2xLr9ZkB4nWc8JdY1hG"


async def refuses(request: web.Request, asked: Asked) -> web.StreamResponse:
    error = {"error": {"message": f"Key {KEY} is overloaded. " + "x" * 1000, "type": "server_error"}}
    return web.json_response(error, status=503)


def figures(here: Stage) -> tuple[float, float]:
    """(share that was offloaded of what the decided engines answered, US dollars saved), as pages reckon them."""
    memory = here.gate.gateway.memory
    assert memory is not None
    rollups = memory.store.decisions.rollups(["gpt-4o"])
    rollups.catch_up()
    answered = [row for row in rollups.requests(DAY_S, 0) if row.outcome == "answered"]
    rows = rollups.requests(DAY_S, 0)
    offloaded = sum(row.requests for row in answered if row.engine != "large")
    saved = sum(row.reference_cost_usd - row.cost_usd + row.unreckoned_usd for row in rows)
    return offloaded / sum(row.requests for row in answered), saved


async def test_an_outage_of_the_reference_is_neither_offload_nor_saving_nor_a_lesson(tmp_path: Path) -> None:
    async with stage(tmp_path, large=PRICE) as here:
        await here.gate.chat(QUESTION)
        assert (await here.gate.chat(ALIKE)).headers["x-understudy-engine"] == "small"
        before = figures(here)
        assert before[0] == 0.5 and before[1] > 0
        here.large.script = refuses
        for number in range(12):
            got = await here.gate.chat(f"Who wrote the opera number {number} about the barber?")
            assert got.text == "From the small one."
            assert got.headers["x-understudy-failed-over"] in ("large; server", "large; open")
        assert figures(here) == before
        memory = here.gate.gateway.memory
        assert memory is not None
        rows = memory.store.decisions.requests.recent(12)
        for row in rows:
            assert (row.outcome, row.engine) == ("answered", "small") and row.failed_over.startswith(
                "large; "
            )
            trail = json.loads(row.trail)
            assert [one["engine"] for one in trail["tried"]] == ["large", "small"]
            assert trail["tried"][-1]["kind"] is None
            assert KEY not in row.trail and "is overloaded" not in row.trail
            choice = memory.store.decisions.choices.get(row.tenant, row.id)
            assert choice is None or (choice.chosen, choice.vector) == (-1, None)
        details = memory.store.decisions.details.get(rows[-1].tenant, rows[-1].id)
        assert details is not None and "is overloaded" in details.attempts[0].error
        assert KEY not in details.attempts[0].error
        counted = _counted(here)
        assert sum(counted.values()) == 12 and set(counted) <= {"server", "open"}


def _counted(here: Stage) -> dict[str, Any]:
    told = here.gate.gateway.metrics.exposition().decode()
    return {
        sample.labels["kind"]: sample.value
        for family in text_string_to_metric_families(told)
        for sample in family.samples
        if sample.name == "understudy_failed_over_total"
        and (sample.labels["from"], sample.labels["to"]) == ("large", "small")
    }


async def test_a_router_that_knows_of_the_outage_and_decides_on_another_engine_offloads_nothing_by_it(
    tmp_path: Path,
) -> None:
    async with learning_stage(tmp_path / "data") as here:
        await here.ready()
        here.large.script = refuses
        for number in range(10):
            got = await here.gate.chat(f"Who wrote the opera number {number} about the barber?")
            assert got.text == "From the small one."
        store = here.store
        rows = store.decisions.requests.recent(10)
        trails = [json.loads(row.trail)["tried"] if row.trail else [] for row in rows]
        known = [row for row, trail in zip(rows, trails, strict=True) if not trail]
        assert known, "the router never heard of the outage"
        for row in rows:
            assert row.failed_over.startswith("large; ") and row.reference_cost_usd is None
            assert row.reason.endswith("+failover")
        # Their draw was among the engines that could be asked: for the router they are lessons like any other.
        assert all(store.decisions.choices.get(row.tenant, row.id).vector is not None for row in known)  # type: ignore[union-attr]
