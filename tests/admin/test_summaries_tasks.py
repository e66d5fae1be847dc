"""The tasks pages: figures from what was answered, a review list, and switches that a running gateway follows."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from admin.pages.tasks import TASK, TASKS
from admin.roles import Role
from admin.summaries.tasks import task, task_id, tasks
from store.records import TaskAnswer
from store.tasks.answers import PERSONS_WEIGHT
from store.tasks.tasks import TaskRow
from tests.admin.site import ENGINES, Person, Site, site
from tests.store.rows import request_record

MODELS: dict[str, Any] = {
    "demo": {
        "engines": ["large"],
        "tasks": {"intent": {"labels": ["refund", "delivery"], "system": "^Classify", "max_loss": 0.2}},
    }
}
HOSTILE = "<script>alert(1)</script> where is my parcel"
CONFIGURED = TaskRow("t1", "demo", "intent", "configured", labels=("refund", "delivery"))
MET = TaskRow("t1", "demo", "open", "header")


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path, **{**ENGINES, "models": MODELS}) as made:
        yield made


def answered(pages: Site, number: int, row: TaskRow = CONFIGURED, **fields: Any) -> str:
    """A row of the log; the teacher's, and the student would have said the same, unless `fields` say otherwise."""
    id = f"{row.tenant}-{row.name}-{number}"
    said = {
        "at_s": time.time() - 600 + number,
        "answered_by": "teacher",
        "input": f"request {number}",
        "label": "refund",
        "student_label": "refund",
        "confidence": 0.9,
        "version": 1,
    }
    record = TaskAnswer(tenant=row.tenant, slot=row.slot, request_id=id, **(said | fields))
    pages.sources.store.tasks.answers.record(record).result(5)
    return id


def listed(pages: Site, *rows: TaskRow) -> None:
    for row in rows:
        pages.sources.store.tasks.known.add(row, most=100).result(5)


def published(pages: Site, row: TaskRow = CONFIGURED) -> int:
    return pages.sources.store.artifacts.publish("student", row.tenant, row.slot, b"x", metrics={}).id


async def shown(person: Person, row: TaskRow = CONFIGURED) -> Any:
    got = await person.get(f"/tasks/{task_id(row)}.json")
    assert got.status == 200, got.text
    return got.json


def test_who_may_only_look_may_look_and_nothing_else() -> None:
    for page in (TASKS, TASK):
        assert page.role is Role.VIEWER and page.summary in (tasks, task)
        assert page.actions and all(action.role is Role.OPERATOR for action in page.actions)


async def test_figures_are_those_of_the_log(pages: Site) -> None:
    listed(pages, CONFIGURED)
    published(pages)
    for number in range(60):
        answered(pages, number)
    for number in range(60, 63):
        answered(pages, number, label="delivery", checked=True)
    answered(pages, 63, label=None, unread="refused")
    for number in range(64, 80):
        id = answered(pages, number, answered_by="student", label=None)
        record = request_record(
            number, id=id, tenant="t1", model="demo", cost_usd=0.0, reference_cost_usd=0.01
        )
        pages.sources.store.decisions.requests.record(record)
    assert pages.sources.store.drain(10)
    operator = await pages.person("operator")
    (one,) = (await operator.get("/tasks.json")).json["tasks"]
    assert (one["requests"], one["by_student"], one["share"]) == (80, 16, 0.2)
    assert one["saved_usd"] == pytest.approx(0.16)
    assert one["compared"] > 0 and 0 < one["lower"] <= 1 and one["max_loss"] == 0.2
    page = await shown(operator)
    assert page["task"] == one
    assert page["unread"] == {"answers": 64, "share": 1 / 64, "why": {"refused": 1}}
    assert page["confusions"]["labels"] == ["refund", "delivery"]
    assert page["confusions"]["rows"] == [[60, 0], [3, 0]] and page["confusions"]["agreed"] == 60
    assert sum(each["compared"] for each in page["agreement"]["periods"]) == 64
    assert sum(each["agreed"] for each in page["agreement"]["periods"]) == 60


@pytest.mark.slow
async def test_a_drifting_task_says_so(pages: Site) -> None:
    listed(pages, CONFIGURED)
    published(pages)
    for number in range(60):
        answered(pages, number, confidence=0.99, label="delivery")
    (one,) = (await (await pages.person("viewer")).get("/tasks.json")).json["tasks"]
    assert one["drifting"]


async def test_what_people_wrote_is_withheld_and_never_comes_alive(pages: Site) -> None:
    listed(pages, MET)
    answered(pages, 1, MET, input=HOSTILE, label="<b>Rumpelstiltskin", student_label="<b>Rumpelstiltskin")
    viewer, reader = await pages.person("viewer"), await pages.person("viewer-content")
    path = f"/tasks/{task_id(MET)}"
    for asked in (path, path + ".json"):
        got = await viewer.get(asked)
        assert got.status == 200 and "parcel" not in got.text and "Rumpel" not in got.text
    page = (await reader.get(path)).text
    assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page and "<b>Rumpel" not in page
    assert "Label</button>" not in page and "/pause" not in page


async def test_a_proposal_is_enabled_paused_and_audited(pages: Site) -> None:
    found = TaskRow(
        *("t1", "demo", "task-1", "proposal", "proposed", "abc", ("a", "b")),
        grounds={"answers": 240, "distinct": 2, "covered": 1.0},
    )
    listed(pages, found)
    operator, viewer = await pages.person("operator"), await pages.person("viewer")
    (one,) = (await viewer.get("/tasks.json")).json["tasks"]
    assert one["state"] == "proposed" and one["grounds"]["answers"] == 240
    path = f"/tasks/{task_id(found)}"
    assert (await viewer.post(path + "/enable", Accept="application/json")).status == 403
    for action, state in (("enable", "on"), ("pause", "paused"), ("enable", "on")):
        assert (await operator.post(f"{path}/{action}")).headers["Location"] == path
        (row,) = pages.sources.store.tasks.known.all()
        assert (row.state, row.by) == (state, "a-operator")
    audit = pages.sources.store.audit.page(user="a-operator")
    assert [(row.action, row.target) for row in audit][:2] == [
        ("tasks/enable", "t1/demo/task-1"),
        ("tasks/pause", "t1/demo/task-1"),
    ]


async def test_nothing_to_propose_is_said(pages: Site) -> None:
    operator = await pages.person("operator")
    assert "No task yet" in (await operator.get("/tasks")).text
    got = await operator.post("/tasks/propose", Accept="application/json")
    assert got.status == 200 and "None found" in got.json["message"]


async def test_the_least_certain_are_reviewed_first_and_a_label_takes_them_off(pages: Site) -> None:
    listed(pages, CONFIGURED)
    ids = [
        answered(pages, n, answered_by="student", label=None, confidence=confidence)
        for n, confidence in enumerate((0.9, 0.3, 0.6))
    ]
    operator = await pages.person("operator")
    review = (await shown(operator))["review"]
    assert [one["request_id"] for one in review] == [ids[1], ids[2], ids[0]]
    path = f"/tasks/{task_id(CONFIGURED)}/label"
    got = await operator.post(path, {"request_id": ids[1], "label": "delivery"})
    assert got.status == 303 and got.headers["Location"].endswith("#review")
    await operator.post(path, {"request_id": ids[2], "none": "yes"})
    assert [one["request_id"] for one in (await shown(operator))["review"]] == [ids[0]]
    answers = pages.sources.store.tasks.answers
    row, none = answers.of_request("t1", ids[1]), answers.of_request("t1", ids[2])
    assert row is not None and (row.label, row.answered_by, row.weight) == (
        "delivery",
        "person",
        PERSONS_WEIGHT,
    )
    assert none is not None and none.label is None
    assert (await shown(operator))["people"] == {"labels": 2, "compared": 1, "agreed": 0}


async def test_a_label_of_another_task_or_of_none_is_refused(pages: Site) -> None:
    others = TaskRow("t2", "demo", "intent", "configured", labels=("refund", "delivery"))
    listed(pages, CONFIGURED, MET, others)
    mine, met = answered(pages, 1), answered(pages, 1, MET)
    theirs = answered(pages, 1, others)
    operator = await pages.person("operator")
    path = f"/tasks/{task_id(CONFIGURED)}/label"
    for id, label, status in (
        (theirs, "refund", 409),
        (met, "refund", 409),
        ("no-such", "refund", 409),
        (mine, "nonsense", 400),
        (mine, "", 400),
    ):
        got = await operator.post(path, {"request_id": id, "label": label}, Accept="application/json")
        assert got.status == status, (id, label)
    assert not any(row.answered_by == "person" for row in pages.sources.store.tasks.answers.after(0))
    listed_of = (await operator.get("/tasks.json?tenant=t2")).json["tasks"]
    assert [one["tenant"] for one in listed_of] == ["t2"]


async def test_the_student_goes_back_a_version(pages: Site) -> None:
    listed(pages, CONFIGURED, MET)
    first, second, other = published(pages), published(pages), published(pages, MET)
    operator = await pages.person("operator")
    path = f"/tasks/{task_id(CONFIGURED)}"
    assert (await operator.post(path + "/roll-back")).headers["Location"] == path
    active = pages.sources.store.artifacts.active("student", "t1", CONFIGURED.slot)
    assert active is not None and active.id == first
    got = await operator.post(path + "/use", {"version": str(other)}, Accept="application/json")
    assert got.status == 409
    await operator.post(path + "/use", {"version": str(second)})
    assert (await shown(operator))["task"]["version"] == second


async def test_a_task_that_is_gone_is_not_there(pages: Site) -> None:
    operator = await pages.person("operator")
    assert (await operator.get("/tasks/0123456789abcdef.json")).status == 404
    removed = TaskRow("t1", "demo", "was-declared", "configured", labels=("a", "b"))
    listed(pages, removed)
    assert (await shown(operator, removed))["task"]["state"] == "not served"
