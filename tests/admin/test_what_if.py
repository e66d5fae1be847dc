"""What other settings would have brought: computed in the background, shown when it is there, and held back from nobody."""

from __future__ import annotations

import asyncio
import functools
import random
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from admin.computing import Computations, ReportProgress
from admin.sources import Sources
from admin.summaries.what_if import shared
from admin.what_if import Question, Settings, by_count, compute
from store import Store
from tests.admin.site import Got, Person, site
from tests.store.rows import choice_record, outcome_record

MODEL = {"demo": {"engines": ["small", "large"], "policy": "in_context"}}
ASKED = "/router/simulate.json?preference=0.3&m=2&max_examples=1"


SETTINGS = {
    "theta": 0.8,
    "m": 3.0,
    "max_examples": 8.0,
    "preference": 0.5,
    "own_preference": 0.0,
    "may_explore": 1.0,
    "offload_cap": 1.0,
    "learned": 300.0,
    "picked": -1.0,
    "by_proof": 0.0,
}
AS_SET = Settings()


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
                settings=SETTINGS,
            )
        ).result(30)
        store.outcomes.note(
            outcome_record(number, engine=engine, example_ids=ids, quality=quality, probability=1.0)
        ).result(30)


_NICE_S = 240
"""A simulation's process comes after all others, however many."""


async def ready(person: Person, path: str) -> Any:
    """The twin once it is computed."""
    async with asyncio.timeout(_NICE_S):
        while (got := await person.get(path)).json["state"] == "computing":
            await asyncio.sleep(0.02)
    return got.json


def held(sources: Sources) -> threading.Event:
    """The real computation, but it waits in the middle until the event is set."""
    goes_on = threading.Event()
    models = {each.name: each for each in sources.gateway.models}

    def waiting(question: Question, told: ReportProgress) -> dict[str, Any]:
        told("reading the log", 0.25)
        while not goes_on.wait(0.01):
            told("reading the log", 0.25)
        return compute(sources.store, models, question, told)

    sources.shared("what_if", lambda: Computations(waiting, "what-if"))
    return goes_on


@pytest.mark.slow
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
            assert 'href="/router/simulate?preference=0.3&amp;m=2&amp;max_examples=1">Refresh' in page.text
            assert [got.status for got in others] == [200, 200, 200]
        finally:
            goes_on.set()
        told = await ready(operator, ASKED)
        assert told["state"] == "ready" and told["progress"] is None and told["chart"]["traces"]


@pytest.mark.slow
async def test_the_router_page_has_the_settings_in_force_computed_beforehand(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        await asyncio.to_thread(learnt_from, here.sources.store)
        viewer = await here.person("viewer")
        refreshing = await viewer.get("/router", **{"X-Live": "1"})
        assert refreshing.status == 200 and not shared(here.sources).busy, "nobody may be looking"
        await viewer.get("/router")
        question = Question("a1", "demo", AS_SET, AS_SET)
        await asyncio.to_thread(shared(here.sources).wait_for, question, _NICE_S)
        told = (await viewer.get("/router/simulate.json")).json
        assert told["state"] == "ready" and not told["changed"]


@pytest.mark.slow
async def test_what_if_shows_the_frontier_with_intervals_and_offers_to_apply(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        await asyncio.to_thread(learnt_from, here.sources.store)
        operator = await here.person("operator")
        told = await ready(operator, ASKED)
        points = {(p["policy"], p["preference"]): p for p in told["result"]["points"]}
        large, small = points["always:large", None], points["always:small", None]
        assert large["cost_usd"]["value"] > 5 * small["cost_usd"]["value"]
        assert large["quality"]["low"] > small["quality"]["high"]
        assert points["expected", 0.3]["asked"] and points["few_shot:0.8,2", None]["asked"]
        assert told["changed"] == {"preference": 0.3, "m": 2, "max_examples": 1} and told["chart"]["traces"]
        assert [row["examples"] for row in told["result"]["by_count"]] == [1, 2]
        assert len(told["result"]["over_time"]) == 12
        page = await operator.get(ASKED.replace(".json", ""))
        assert page.status == 200 and "Change the settings…" in page.text
        viewer = await here.person("viewer")
        assert "Change the settings…" not in (await viewer.get(ASKED.replace(".json", ""))).text
        for query in ("preference=3", "m=0", "theta=x", "model=unknown"):
            assert (await viewer.get(f"/router/simulate?{query}")).status == 400


@pytest.mark.slow
async def test_the_number_of_examples_moves_the_frontier_where_its_cap_was_drawn(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        await asyncio.to_thread(learnt_from, here.sources.store)
        operator = await here.person("operator")
        caps = {cap["most"]: cap for cap in (await ready(operator, ASKED))["result"]["caps"]}
        assert set(caps) == {1, 2} and caps[1]["asked"] and not caps[2]["asked"]
        assert caps[1]["quality"]["value"] < caps[2]["quality"]["value"] - 0.02
        assert caps[1]["quality"]["low"] < caps[1]["quality"]["value"] < caps[1]["quality"]["high"]
        fewer = await ready(operator, "/router/simulate.json?max_examples=1")
        number, within = r"\d+(\.\d+)?", r"\(\d+(\.\d+)? to \d+(\.\d+)?\)"
        assert re.fullmatch(
            rf"most examples 1 instead of 8, with engines chosen as they were: quality {number} → {number} % {within},"
            rf" \${number} → \${number} per 1,000 requests {within}\.",
            fewer["sentence"],
        ), fewer["sentence"]
        page = (await operator.get("/router/simulate?max_examples=1")).text
        assert "Counted in the log" in page and "These settings</th>" not in page, (
            "nothing else was decided anew"
        )
        page = (await operator.get("/router/settings?model=demo&tenant=a1&max_examples=1")).text
        assert "with engines chosen as they were" in page, "said where it is confirmed, too"
        told = await ready(operator, ASKED.replace("max_examples=1", "max_examples=0"))
        assert "always the small engine" in told["result"]["caps_unknown"][-1]
        assert "at most k examples" in str(told["chart"])


async def test_a_log_that_tells_too_little_says_so_and_of_what(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        viewer = await here.person("viewer")
        empty = await viewer.get("/router/simulate")
        assert empty.status == 200 and "Too little is known" in empty.text
        await asyncio.to_thread(learnt_from, here.sources.store, 10)
        told = await ready(viewer, "/router/simulate.json")
        assert told["state"] == "nothing" and "at least 20" in told["nothing"]


def test_the_same_log_gives_the_same_figures(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    learnt_from(store, 60)
    question, heard = Question("a1", "demo", AS_SET, AS_SET), []
    asked = Computations(functools.partial(compute, store, {}), "what-if")
    asked.state(question)
    first = asked.wait_for(question, 60.0).result
    asked.close()
    again = compute(store, {}, question, lambda doing, done: heard.append(done))
    assert first is not None and first["points"] == again["points"] and first["caps"] == again["caps"]
    assert heard == sorted(heard) and len(heard) > 5
    assert by_count([]) == []
    store.close()


@pytest.mark.slow
async def test_the_difference_is_said_in_one_sentence_with_intervals(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        await asyncio.to_thread(learnt_from, here.sources.store)
        viewer = await here.person("viewer")
        told = await ready(viewer, "/router/simulate.json?preference=0.7")
        number, within = r"\d+(\.\d+)?", r"\(\d+(\.\d+)? to \d+(\.\d+)?\)"
        assert re.fullmatch(
            rf"preference 0\.70 instead of 0\.50: {number} → {number} % offloaded {within}, quality {number} → {number} %"
            rf" {within}, \${number} → \${number} per 1,000 requests {within}\.",
            told["sentence"],
        ), told["sentence"]
        effect = told["result"]["effect"]
        assert effect["then"]["offloaded"]["value"] < effect["now"]["offloaded"]["value"]
        assert effect["requests"] == 240 and effect["differences"]["offloaded"]["high"] < 0
        as_set = await ready(viewer, "/router/simulate.json")
        assert as_set["sentence"].startswith("As it is set now: ") and "→" not in as_set["sentence"]


async def test_rows_of_an_earlier_release_are_left_out_and_the_page_says_so(tmp_path: Path) -> None:
    async with site(tmp_path, models=MODEL) as here:
        store = here.sources.store
        await asyncio.to_thread(learnt_from, store, 40)
        for number in range(100, 130):
            store.decisions.choices.record(choice_record(number, model="demo", settings={})).result(30)
        viewer = await here.person("viewer")
        effect = (await ready(viewer, "/router/simulate.json"))["result"]["effect"]
        assert (effect["requests"], effect["left_out"]) == (40, 30)


async def test_a_rule_is_replayed_on_the_similarities_and_what_was_never_offloaded_is_not_known(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as here:
        await asyncio.to_thread(ruled, here.sources.store)
        viewer = await here.person("viewer")
        told = await ready(viewer, "/router/simulate.json?theta=0.9&m=1")
        assert told["policy"] == "few_shot" and "preference" not in told["now"]
        assert told["sentence"].startswith(
            "least similarity 0.90 instead of 0.80 and similar requests needed 1 instead of 3: 50 → 25 % offloaded"
        )
        assert "quality" in told["sentence"] and "not known" not in told["sentence"]
        looser = await ready(viewer, "/router/simulate.json?m=1")
        assert "→ not known (25 % of requests were never offloaded)" in looser["sentence"]
        below = await ready(viewer, "/router/simulate.json?theta=0.5")
        assert "nothing so near was looked for" in below["sentence"]
        page = await viewer.get("/router/simulate?m=1")
        assert page.status == 200 and "not known" in page.text and "frontier" not in page.text


def ruled(store: Store, count: int = 80) -> None:
    """Decisions of the rule at theta 0.8 and m 3: three near past answers for half of the requests, one for a quarter."""
    near = ((0.95, 0.9, 0.85), (0.85, 0.84, 0.83), (0.82,), ())
    for number in range(count):
        similarities = near[number % 4]
        small = len(similarities) == 3
        ways = (("small", False), ("small", True), ("large", False))
        actions = tuple(
            {
                "engine": engine,
                "with_examples": examples,
                "probability": float((engine == "small") == small and (examples or not small)),
                "quality": None,
                "cost_usd": None,
                "latency_s": None,
                "reward": None,
                "features": {},
            }
            for engine, examples in ways
        )
        engine = "small" if small else "large"
        store.decisions.choices.record(
            choice_record(
                number,
                model="demo",
                policy="few_shot",
                engine=engine,
                actions=actions,
                chosen=-1,
                candidates=tuple(
                    {"id": n, "similarity": s, "gain": None, "sent": small, "counts": 1}
                    for n, s in enumerate(similarities)
                ),
                candidate_features=None,
                example_ids=(1, 2, 3) if small else (),
                cost_usd=0.001 if small else 0.02,
                settings={"theta": 0.8, "m": 3.0, "max_examples": 5.0, "by_proof": 0.0},
            )
        ).result(30)
        if small:
            quality = float(number % 16 != 0)
            store.outcomes.note(
                outcome_record(number, engine=engine, source="judge", quality=quality)
            ).result(30)


def test_a_single_judged_answer_has_a_wide_interval(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.decisions.choices.record(choice_record(1, model="demo", example_ids=(1,))).result(30)
    store.outcomes.note(outcome_record(1, example_ids=(1,), quality=0.167, probability=1.0)).result(30)
    (row,) = by_count(store.outcomes.experiences("a1", "demo"))
    assert (row["requests"], row["quality"]) == (1, 0.167)
    assert row["low"] < 0.05 and row["high"] > 0.6, "0.167 to 0.167 would claim to know"
    store.close()
