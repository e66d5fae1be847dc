"""What other dials would have brought: computed in the background, shown when it is there, and held back from nobody."""

from __future__ import annotations

import asyncio
import functools
import random
import threading
from pathlib import Path
from typing import Any

from admin.computing import Computations, ReportProgress
from admin.sources import Sources
from admin.summaries.what_if import shared
from admin.what_if import Question, by_count, compute
from store import Store
from tests.admin.site import Got, Person, site
from tests.store.rows import choice_record, outcome_record

MODEL = {"demo": {"engines": ["small", "large"], "policy": "in_context"}}
ASKED = "/router/what-if.json?preference=0.3&m=2&max_examples=1"


def learnt_from(store: Store, count: int = 240) -> None:
    """Decisions drawn at random, of which with examples is nearly as good as the large engine and far cheaper."""
    draw = random.Random(7)
    for number in range(count):
        chosen = draw.randrange(3)
        two = number % 2
        quality = (0.3, 0.6 + 0.3 * two, 0.95)[chosen] if draw.random() < 0.9 else 0.5
        engine, ids = (("small", ()), ("small", (1, 2)[: 1 + two]), ("large", ()))[chosen]
        store.decisions.choices.record(
            choice_record(
                number,
                model="demo",
                chosen=chosen,
                engine=engine,
                example_ids=ids,
                cost_usd=(0.001, 0.002, 0.02)[chosen],
                most_examples=1 + two,
                examples_explored="count" if two else "",
                examples_probability=0.5,
            )
        ).result(30)
        store.outcomes.note(
            outcome_record(number, engine=engine, example_ids=ids, quality=quality, probability=1.0)
        ).result(30)


async def ready(person: Person, path: str) -> Any:
    """The twin once it is computed."""
    async with asyncio.timeout(60):
        while (got := await person.get(path)).json["state"] == "computing":
            await asyncio.sleep(0.02)
    return got.json


def held(sources: Sources) -> threading.Event:
    """The real computation, but it waits in the middle until the event is set."""
    goes_on = threading.Event()

    def waiting(question: Question, told: ReportProgress) -> dict[str, Any]:
        told("reading the log", 0.25)
        while not goes_on.wait(0.01):
            told("reading the log", 0.25)
        return compute(sources.store, question, told)

    sources.shared("what_if", lambda: Computations(waiting, "what-if"))
    return goes_on


async def test_a_page_answers_while_its_figures_are_computed_and_says_how_far_that_is(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        await asyncio.to_thread(learnt_from, here.sources.store)
        goes_on = held(here.sources)
        operator = await here.person("operator")
        try:
            async with asyncio.timeout(20):
                first = (await operator.get(ASKED)).json
                while (told := (await operator.get(ASKED)).json)["progress"]["done"] == 0.0:
                    await asyncio.sleep(0.01)
                page = await operator.get(ASKED.replace(".json", ""))
                others: list[Got] = [
                    await operator.get(path) for path in ("/router", "/overview", "/requests")
                ]
            assert first["state"] == told["state"] == "computing" and first["result"] is None
            assert told["progress"] == {"doing": "reading the log", "done": 0.25}
            assert page.status == 200 and "Being computed" in page.text and "data-unfinished" in page.text
            # Without a script: the same address again.
            assert 'href="/router/what-if?preference=0.3&amp;m=2&amp;max_examples=1">Look again' in page.text
            assert [got.status for got in others] == [200, 200, 200]
        finally:
            goes_on.set()
        told = await ready(operator, ASKED)
        assert told["state"] == "ready" and told["progress"] is None and told["chart"]["traces"]


async def test_the_router_page_has_the_dials_in_force_computed_beforehand(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        await asyncio.to_thread(learnt_from, here.sources.store)
        viewer = await here.person("viewer")
        refreshing = await viewer.get("/router", **{"X-Live": "1"})
        assert refreshing.status == 200 and not shared(here.sources).busy, "nobody may be looking"
        await viewer.get("/router")
        question = Question("a1", "demo", 0.5, 0.8, 3, 8)
        await asyncio.to_thread(shared(here.sources).wait_for, question, 60)
        told = (await viewer.get("/router/what-if.json")).json
        assert told["state"] == "ready" and not told["changed"]


async def test_what_if_shows_the_frontier_with_intervals_and_offers_to_apply(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        await asyncio.to_thread(learnt_from, here.sources.store)
        operator = await here.person("operator")
        told = await ready(operator, ASKED)
        points = {(p["policy"], p["dial"]): p for p in told["result"]["points"]}
        large, small = points["always:large", None], points["always:small", None]
        assert large["cost_usd"]["value"] > 5 * small["cost_usd"]["value"]
        assert large["quality"]["low"] > small["quality"]["high"]
        assert points["expected", 0.3]["asked"] and points["few_shot:0.8,2", None]["asked"]
        assert told["changed"] == {"preference": 0.3, "m": 2, "max_examples": 1} and told["chart"]["traces"]
        assert [row["examples"] for row in told["result"]["by_count"]] == [1, 2]
        assert len(told["result"]["over_time"]) == 12
        page = await operator.get(ASKED.replace(".json", ""))
        assert page.status == 200 and "Apply these dials" in page.text
        viewer = await here.person("viewer")
        assert "Apply these dials" not in (await viewer.get(ASKED.replace(".json", ""))).text
        for query in ("preference=3", "m=0", "theta=x", "model=unknown"):
            assert (await viewer.get(f"/router/what-if?{query}")).status == 400


async def test_the_number_of_examples_moves_the_frontier_where_its_cap_was_drawn(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        await asyncio.to_thread(learnt_from, here.sources.store)
        operator = await here.person("operator")
        caps = {cap["most"]: cap for cap in (await ready(operator, ASKED))["result"]["caps"]}
        assert set(caps) == {1, 2} and caps[1]["asked"] and not caps[2]["asked"]
        assert caps[1]["quality"]["value"] < caps[2]["quality"]["value"] - 0.02
        assert caps[1]["quality"]["low"] < caps[1]["quality"]["value"] < caps[1]["quality"]["high"]
        told = await ready(operator, ASKED.replace("max_examples=1", "max_examples=0"))
        assert "always the small engine" in told["result"]["caps_unknown"][-1]
        assert "at most k examples" in str(told["chart"])


async def test_a_log_that_tells_too_little_says_so_and_of_what(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        viewer = await here.person("viewer")
        empty = await viewer.get("/router/what-if")
        assert empty.status == 200 and "Too little is known" in empty.text
        await asyncio.to_thread(learnt_from, here.sources.store, 10)
        told = await ready(viewer, "/router/what-if.json")
        assert told["state"] == "nothing" and "at least 20" in told["nothing"]


def test_the_same_log_gives_the_same_figures(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    learnt_from(store, 60)
    question, heard = Question("a1", "demo", 0.5, 0.8, 3, 8), []
    asked = Computations(functools.partial(compute, store), "what-if")
    asked.state(question)
    first = asked.wait_for(question, 60.0).result
    asked.close()
    again = compute(store, question, lambda doing, done: heard.append(done))
    assert first is not None and first["points"] == again["points"] and first["caps"] == again["caps"]
    assert heard == sorted(heard) and len(heard) > 5
    assert by_count([]) == []
    store.close()
