"""The learning page: versions, rolling back, freezing, all of which a running gateway follows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin.formats import percent
from learning.rehearsal.kept import REPORT, VERSION
from store.learned.artifacts import Artifacts
from tests.admin.site import ENGINES, Site, site
from tests.store.rows import choice_record, outcome_record

SLOT = {"kind": "bandit", "tenant": "t1", "model": "demo"}


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


def published(pages: Site) -> tuple[Artifacts, list[int]]:
    artifacts = pages.sources.store.artifacts
    versions = [
        artifacts.publish(
            "bandit", "t1", "demo", bytes([n]), metrics={"reward": 0.5 + n / 10}, note=f"<i>{n}</i>"
        ).id
        for n in range(3)
    ]
    return artifacts, versions


async def test_versions_are_shown_and_one_may_go_back_or_choose(pages: Site) -> None:
    artifacts, versions = published(pages)
    operator = await pages.person("operator")
    (slot,) = (await operator.get("/learning.json")).json["slots"]
    assert slot["in_use"] == versions[2] and [v["id"] for v in slot["versions"]] == versions[::-1]
    page = (await operator.get("/learning")).text
    assert "<i>2" not in page and "&lt;i&gt;2" in page
    await operator.post("/learning/roll-back", SLOT)
    active = artifacts.active("bandit", "t1", "demo")
    assert active is not None and active.id == versions[1]
    await operator.post("/learning/use", {"version": str(versions[2])})
    active = artifacts.active("bandit", "t1", "demo")
    assert active is not None and active.id == versions[2]


async def test_a_frozen_slot_keeps_what_is_in_use(pages: Site) -> None:
    artifacts, versions = published(pages)
    operator = await pages.person("operator")
    assert (await operator.post("/learning/freeze", SLOT)).status == 303
    assert artifacts.publish("bandit", "t1", "demo", b"new", metrics={}).state == "retired"
    (slot,) = (await operator.get("/learning.json")).json["slots"]
    assert slot["frozen_since_s"] is not None and slot["in_use"] == versions[2]
    assert (await operator.post("/learning/unfreeze", SLOT)).status == 303
    got = await operator.post("/learning/unfreeze", SLOT, Accept="application/json")
    assert got.status == 409


async def test_a_broken_version_is_not_taken_into_use(pages: Site) -> None:
    artifacts, versions = published(pages)
    record = artifacts.get(versions[0])
    assert record is not None
    artifacts.path(record).write_bytes(b"damaged")
    operator = await pages.person("operator")
    got = await operator.post("/learning/use", {"version": str(versions[0])}, Accept="application/json")
    assert got.status == 409 and "checksum" in got.json["error"]["message"]
    active = artifacts.active("bandit", "t1", "demo")
    assert active is not None and active.id == versions[2]


async def test_nothing_to_go_back_from_is_said(pages: Site) -> None:
    operator = await pages.person("operator")
    assert "Nothing was learnt yet" in (await operator.get("/learning")).text
    got = await operator.post("/learning/roll-back", SLOT, Accept="application/json")
    assert got.status == 409


async def test_filters_leave_out_the_rest(pages: Site) -> None:
    artifacts, _ = published(pages)
    artifacts.publish("counts", "", "demo", b"x", metrics={})
    operator = await pages.person("operator")
    for query, expected in (
        ("kind=counts", ["counts"]),
        ("tenant=t1", ["bandit"]),
        ("tenant=operator", ["counts"]),
    ):
        slots = (await operator.get(f"/learning.json?{query}")).json["slots"]
        assert [slot["kind"] for slot in slots] == expected, query


async def test_what_is_proven_is_shown_per_scope_with_its_bounds(pages: Site) -> None:
    store = pages.sources.store
    noted = {"small/with": 0.5}
    for number in range(12):
        choice = choice_record(number, model="demo", tenant="t1", scope="5c09e", noted=noted)
        store.decisions.choices.record(choice).result(5)
        store.outcomes.note(outcome_record(number, tenant="t1", source="judge", quality=1.0)).result(5)
    viewer = await pages.person("viewer")
    (proof,) = (await viewer.get("/learning.json")).json["proof"]
    (region,) = proof["regions"]
    assert (proof["model"], proof["scope"], proof["requests"], region["compared"]) == (
        "demo",
        "5c09e",
        12,
        12,
    )
    assert not region["open"] and region["expected_more"] > 0 and "more comparisons" in region["state"]
    page = (await viewer.get("/learning")).text
    assert "What is proven of small engines" in page and "5c09e" in page
    assert "second answer worse in" not in page, "nobody compared one yet"
    for number in range(40):
        detail = f'{{"reference": true, "again": {int(number % 4 > 0)}}}'
        again = {"engine": "large", "key": f"again {number}", "source": "judge", "detail": detail}
        store.outcomes.note(outcome_record(number % 12, tenant="t1", **again)).result(5)
    got = (await viewer.get("/learning.json")).json
    assert got["proof"][0]["judge_error"]["mean"] == pytest.approx(0.25)
    (ledger,) = got["ledgers"]
    assert (ledger["model"], ledger["account"]["given"], ledger["length_bias"]) == ("demo", 0, None)
    page = (await viewer.get("/learning")).text
    assert f"second answer worse in {percent(0.25)} of 40" in page and "Room left" in page


def compared(before: float, after: float, n: int, half: float = 0.02, **more: object) -> dict[str, object]:
    """As learning.training.comparison tells it."""

    def around(mean: float) -> dict[str, float]:
        return {"mean": mean, "low": mean - half, "high": mean + half}

    told = {"measure": "squared_error", "outcomes": n, "built_in_before": False, **more}
    return {
        "comparison": told
        | {"before": around(before), "after": around(after), "change": around(after - before)}
    }


async def test_versions_are_charted_before_and_after_on_the_same_outcomes(pages: Site) -> None:
    artifacts = pages.sources.store.artifacts
    for metrics in (
        compared(0.25, 0.15, 80, built_in_before=True),
        compared(0.15, 0.145, 90),
        compared(0.145, 0.3, 95),
        {},
    ):
        artifacts.publish("bandit", "t1", "demo", b"x", metrics=metrics)
    viewer = await pages.person("viewer")
    (slot,) = (await viewer.get("/learning.json")).json["slots"]
    assert slot["title"] == "Router for demo (t1)" and slot["serves_name"] == "version 4"
    told = [version["comparison"] for version in slot["versions"]]
    assert [one and (one["verdict"], one["outcomes"]) for one in told] == [
        None,
        ("worse", 95),
        ("no clear difference", 90),
        ("better", 80),
    ]
    before, after = slot["chart"]["drawn"]["traces"]
    assert before["x"] == ["version 1", "version 2", "version 3"] and before["y"] == [0.25, 0.15, 0.145]
    assert after["y"] == [0.15, 0.145, 0.3] and after["error_y"]["array"] == pytest.approx([0.02] * 3)
    page = (await viewer.get("/learning")).text
    assert "bandit" not in page.replace('value="bandit"', "") and "not compared: too few outcomes" in page


async def test_what_is_in_use_is_said_the_built_in_included(tmp_path: Path) -> None:
    models = {"demo": {"engines": ["small", "large"], "policy": "in_context"}}
    async with site(tmp_path, **{**ENGINES, "models": models}) as pages:
        operator = await pages.person("operator")

        async def serving() -> dict[str, str]:
            slots = (await operator.get("/learning.json?kind=bandit")).json["slots"]
            return {slot["title"]: slot["serves_name"] for slot in slots}

        assert await serving() == {"Router for demo (all tenants)": "built-in"}
        artifacts = pages.sources.store.artifacts
        own = artifacts.publish("bandit", "t1", "demo", b"x", metrics={}).id
        general = artifacts.publish("bandit", "", "demo", b"y", metrics={}).id
        assert await serving() == {
            "Router for demo (all tenants)": f"version {general}",
            "Router for demo (t1)": f"version {own}",
        }
        assert (await operator.post("/learning/built-in", SLOT)).status == 303
        assert f"In use now: version {general} for all tenants." in (await operator.get("/learning")).text
        assert (await serving())["Router for demo (t1)"] == f"version {general} for all tenants"
        again = await operator.post("/learning/built-in", SLOT, Accept="application/json")
        assert again.status == 409


async def test_who_goes_back_while_it_is_frozen_is_not_told_to_freeze(pages: Site) -> None:
    published(pages)
    operator = await pages.person("operator")
    await operator.post("/learning/roll-back", SLOT)
    assert "freeze to keep it from that" in (await operator.get("/learning")).text
    await operator.post("/learning/freeze", SLOT)
    await operator.post("/learning/roll-back", SLOT)
    page = (await operator.get("/learning")).text
    assert "freeze to keep it" not in page and "It stays frozen" in page


@pytest.mark.parametrize("whose", ["tenant", "user"])
async def test_what_was_learnt_and_forgotten_is_not_said_never_to_have_been(pages: Site, whose: str) -> None:
    """Neither after a tenant was forgotten, nor after one user of its, whose requests it was learnt from."""
    published(pages)
    store = pages.sources.store
    if whose == "tenant":
        store.forget_tenant("t1", 60)
    else:
        store.decisions.choices.record(choice_record(1, tenant="t1")).result(30)
        assert store.forget_contributors("t1", ["key_1/ann"]).choices == 1
    viewer = await pages.person("viewer")
    page = (await viewer.get("/learning")).text
    assert "Nothing was learnt yet" not in page
    assert "3 versions were deleted with data that they were learnt from" in page
    assert (await viewer.get("/learning.json")).json["deleted"]["versions"] == 3


async def test_the_latest_rehearsal_is_shown_with_its_date(pages: Site) -> None:
    viewer = await pages.person("viewer")
    assert "The latest rehearsal" not in (await viewer.get("/learning")).text
    way = {"way": "small alone", "questions": 100, "quality": 0.5, "within": [0.4, 0.6], "more": 0.0}
    way |= {"more_within": [0.0, 0.0], "usd_per_1000": 0.12, "median_s": 1.5}
    told = {"version": VERSION, "made_at_s": 1.7e9, "said": "With max_loss 5% nothing would be offloaded."}
    told |= {"proven": "", "ways": [way], "small": "tiny", "model": "demo", "source": "a log"}
    (pages.sources.store.folder / REPORT).write_text(json.dumps(told))
    page = (await viewer.get("/learning")).text
    assert (
        "nothing would be offloaded" in page and "tiny for demo, from a log" in page and "2023-11-14" in page
    )
