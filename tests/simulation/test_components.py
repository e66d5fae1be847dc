"""Simulated components: the pace that was modelled, in virtual time, and texts that mean something."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from benchmarks.batching import virtual_time
from engines.components.registry import ComponentRegistry
from simulation.components import SimulatedComponent
from tests.engines.components.asking import limits, spec, work
from tests.simulation.simulated import PACE


def registry(**changed: Any) -> ComponentRegistry:
    made = spec("simulated", pace=PACE, limits=limits(**changed))
    return ComponentRegistry([SimulatedComponent("c", PACE).member(made)])


def test_it_takes_the_time_that_was_modelled() -> None:
    async def main() -> tuple[float, float]:
        components, loop = registry(max_in_flight=1, batch=4), asyncio.get_running_loop()
        await components.embed("c", ["a"] * 10, work())
        embedded_s = loop.time()
        await asyncio.gather(*(components.search("c", "q", 2, work()) for _ in range(3)))
        await components.aclose()
        return embedded_s, loop.time() - embedded_s

    embedded_s, searched_s = virtual_time.run(main)
    assert abs(embedded_s - (3 * 0.010 + 10 * 0.001)) < 1e-9
    assert abs(searched_s - 3 * 0.011) < 1e-9


async def test_texts_with_the_same_words_are_near_and_scored_high() -> None:
    components = registry(max_in_flight=4, batch=8)
    near, far = "The museum opens at nine.", "Bread needs flour and water."
    question = "When does the museum open, at nine?"
    rows = await components.embed("c", [question, near, far], work())
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2
    again = await components.embed("c", [question], work())
    assert (again[0] == rows[0]).all() and abs(float(rows[0] @ rows[0]) - 1) < 1e-5
    scores = await components.rerank("c", question, [far, near], work())
    assert scores[0] == 0 < scores[1]
    await components.aclose()


async def test_hits_and_tools_say_that_they_are_simulated() -> None:
    components = registry()
    hits = await components.search("c", "why?", 3, work())
    assert len(set(hits)) == 3 and all("imulated" in hit and "why?" in hit for hit in hits)
    said = json.loads(await components.call("c", {"b": 1}, work(), "k", True))
    assert said == {"simulated": "c", "args": {"b": 1}}
    assert components.identity("c") == "simulated 64"
    await components.aclose()
