"""The map appears when it is drawn, by button or by command, and shows no word to who may not read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from admin.map_maker import MapMaker, draw
from admin.summaries.example_map import SHOWN, shared
from store import Store
from tests.admin.traffic import QUESTION, UNLIKE, house
from tests.patience import eventually
from tests.store.rows import new_example
from understudy.commands.map import draw_map


async def test_a_map_is_drawn_on_request_and_opens_examples(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        await here.ask(UNLIKE + " <b>")
        operator = await here.site.person("operator")
        empty = await operator.get("/examples-map")
        assert empty.status == 200 and "understudy map" in empty.text
        assert (await operator.post("/examples-map/draw", {"tenant": "default"})).status == 303
        async with asyncio.timeout(30):
            while (await operator.get("/examples-map.json")).json["chart"] is None:
                await asyncio.sleep(0.05)
        for colour in ("engine", "gain", "age"):
            told = (await operator.get(f"/examples-map.json?colour={colour}")).json
            (trace,) = told["chart"]["traces"]
            assert sorted(trace["customdata"]) == [1, 2] and told["on_it"] == 2
            assert QUESTION[:90] in trace["text"] and "<b>" not in str(trace["text"])
            assert (await operator.get(f"/examples-map?colour={colour}")).status == 200
        viewer = await here.site.person("viewer")
        for path in ("/examples-map", "/examples-map.json"):
            assert "Linux" not in (await viewer.get(path)).text
        assert (await viewer.post("/examples-map/draw", {"tenant": "default"})).status == 403
        assert (await operator.post("/examples-map/draw", {"tenant": "nobody"})).status == 400
        assert (await operator.get("/examples-map?colour=red")).status == 400
        shared(here.site.sources).close()


def test_the_command_draws_every_tenants_map(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    store = Store.open(tmp_path)
    for number in range(24):
        store.examples.add(new_example(number, "a1" if number % 2 else "b2")).result(30)
    store.close()
    done = CliRunner().invoke(draw_map, ["--data", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == ["a1: 12 examples on the map", "b2: 12 examples on the map"]


def test_what_goes_wrong_while_drawing_is_told_and_ends_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    maker = MapMaker(store)
    assert not maker.drawing("a1") and maker.problem("a1") == ""
    store.examples.add(new_example(1)).result(30)
    assert draw(store, "a1") == 1 and SHOWN > 1
    store.close()
    maker.begin("a1")
    assert eventually(lambda: not maker.drawing("a1"))
    assert maker.problem("a1")
    maker.close()
