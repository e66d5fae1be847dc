"""A pair that was nearly reused is judged in the background; one that passes shares an entry, one that fails does not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from store.answers.semantic_aliases import SemanticAliases
from tests.flow.line import Asked, Line, Upstream, completion, line, upstream

QUESTION = "How do I list all files in a directory, including the hidden ones?"
ALIKE = "How can I list all files in a directory, including the hidden ones?"


@asynccontextmanager
async def stage(data: Path, score: int, *, near_misses: bool = True) -> AsyncIterator[tuple[Line, Upstream]]:
    """A gateway whose engine words every answer anew, and a judge that always gives the remembered answer this score."""
    async with upstream() as behind, upstream() as judge:
        said = 0

        async def anew(request: web.Request, asked: Asked) -> web.StreamResponse:
            nonlocal said
            said += 1
            return web.json_response(completion(f"Use ls -a ({said})."))

        async def judged(request: web.Request, asked: Asked) -> web.StreamResponse:
            code = re.search(r"SCORE ([0-9a-f]{16}): n", asked.json["messages"][0]["content"])
            assert code is not None
            shown = asked.json["messages"][1]["content"]
            remembered_first = shown.index("(1)") < max(shown.find(f"({n})") for n in range(2, 10))
            return web.json_response(completion(f"SCORE {code[1]}: {score if remembered_first else -score}"))

        behind.script, judge.script = anew, judged
        config: dict[str, Any] = {
            "engines": {"large": {"base_url": behind.url}, "judge": {"base_url": judge.url}},
            "models": {"gpt-4o": {"engines": ["large"]}},
            "memory": {
                "data_dir": str(data),
                "exact": {"enabled": False},
                "semantic_reuse": {"deltas": {"default": 0.2}},
                "advanced": {"reuse_deadline_ms": 10_000},
            },
            "replay": {"judge": "judge", "advanced": {"near_misses": near_misses}},
        }
        async with line(config) as gate:
            yield gate, judge


async def promoted(gate: Line, wanted: str) -> bool:
    """Whether the judge's result came to be counted."""
    series = f'understudy_near_misses_total{{result="{wanted}"}}'
    for _ in range(1200):
        if series in gate.gateway.metrics.exposition().decode():
            return True
        await asyncio.sleep(0.05)
    print(
        *(
            each
            for each in gate.gateway.metrics.exposition().decode().splitlines()
            if "_near" in each or "semantic" in each
        ),
        sep="\n",
    )
    return False


def aliases(gate: Line) -> int:
    memory = gate.gateway.memory
    assert memory is not None
    (count,) = memory.store.db.read().execute("SELECT count(*) FROM semantic_aliases").fetchone()
    return int(count)


async def test_a_pair_that_the_judge_passes_becomes_an_alias_and_goes_with_its_entry(tmp_path: Path) -> None:
    async with stage(tmp_path, 0) as (gate, judge):
        await gate.chat(QUESTION)
        await gate.chat(ALIKE)
        assert await promoted(gate, "promoted")
        assert len(judge.asked) == 4, "both orders, twice"
        assert aliases(gate) == 1
        memory = gate.gateway.memory
        assert memory is not None
        store = memory.store
        (paid,) = store.replay.spend()
        assert (paid.purpose, paid.asks) == ("near_miss", 4), "each vote has its line in the report of costs"
        first, second = store.examples.page(next(iter(store.examples.tenants())))
        row = store.db.read().execute("SELECT same_otherwise, example_id FROM semantic_entries").fetchall()
        assert [id for _, id in row] == [first.id], "its own entry gave way"
        shared = SemanticAliases(store.db).of(second.tenant, row[0][0], [second.id])
        assert shared == {second.id: (first.id, ALIKE)}
        assert SemanticAliases(store.db).of("other", row[0][0], [second.id]) == {}
        store.examples.remove(first.tenant, [first.id]).result()
        assert aliases(gate) == 0


async def test_a_pair_that_the_judge_refuses_stays_as_it_is(tmp_path: Path) -> None:
    async with stage(tmp_path, -3) as (gate, _):
        await gate.chat(QUESTION)
        await gate.chat(ALIKE)
        assert await promoted(gate, "refused")
        assert aliases(gate) == 0


async def test_by_default_no_near_miss_is_judged(tmp_path: Path) -> None:
    async with stage(tmp_path, 0, near_misses=False) as (gate, judge):
        await gate.chat(QUESTION)
        await gate.chat(ALIKE)
        assert "understudy_near_misses" not in gate.gateway.metrics.exposition().decode()
        assert judge.asked == []
