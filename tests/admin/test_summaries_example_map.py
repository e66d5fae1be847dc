"""The map appears when it is drawn, by button or by command, and shows no word to who may not read."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from admin import computing
from admin.map_maker import maps
from admin.summaries.example_map import shared
from store import Store
from tests.admin.traffic import QUESTION, UNLIKE, house
from tests.patience import PATIENCE_S
from tests.store.contract.conftest import BACKENDS, opener
from tests.store.rows import new_example
from understudy.commands.map import draw_map


async def test_a_map_is_drawn_on_request_and_opens_examples(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        await here.ask(UNLIKE + " <b>")
        operator = await here.site.person("operator")
        empty = await operator.get("/examples-map")
        assert empty.status == 200 and "understudy learn map" in empty.text
        assert (await operator.post("/examples-map/draw", {"tenant": "default"})).status == 303
        async with asyncio.timeout(PATIENCE_S):
            while (told := (await operator.get("/examples-map.json")).json)["drawing"]:
                await asyncio.sleep(0.05)
        assert told["problem"] == ""
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


def test_the_command_draws_every_tenants_map(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    store = Store.open(tmp_path)
    for number in range(24):
        store.examples.add(new_example(number, "a1" if number % 2 else "b2")).result(30)
    store.close()
    done = CliRunner().invoke(draw_map, ["--data", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == ["a1: 12 examples on the map", "b2: 12 examples on the map"]


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_map_is_drawn_elsewhere_in_either_database_as_often_as_it_is_asked_for(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    open_store = opener(kind, request, tmp_path)
    with contextlib.closing(open_store()) as store, contextlib.closing(maps(open_store)) as drawing:
        for number in (1, 2):
            store.examples.add(new_example(number)).result(30)
            assert drawing.state("a1").computing
            assert drawing.wait_for("a1", PATIENCE_S).result == {"examples": number}
            assert {place.example_id for place in store.examples.places.of("a1", 9)} == set(
                range(1, number + 1)
            )


async def test_what_goes_wrong_while_drawing_is_told_and_ends_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        drawing = maps(partial(Store.open, tmp_path / "missing" / "\0"))
        here.site.sources.shared("map", lambda: drawing)
        assert shared(here.site.sources) is drawing
        operator = await here.site.person("operator")
        for _ in range(2):
            assert (await operator.post("/examples-map/draw", {"tenant": "default"})).status == 303
            await asyncio.to_thread(drawing.wait_for, "default", PATIENCE_S)
            told = (await operator.get("/examples-map.json")).json
            assert "embedded null" in told["problem"] and not told["drawing"]
        assert "embedded null" in (await operator.get("/examples-map")).text


async def test_more_maps_than_can_wait_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "_MOST_WAITING", 0)
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        operator = await here.site.person("operator")
        refused = await operator.post("/examples-map/draw", {"tenant": "default"})
        assert refused.status == 409 and "Other tenants" in refused.text
