"""`understudy learn tasks`: what a person sees of tasks, and switches on and off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from store.tasks.tasks import TaskRow
from tests.learning.tasks.test_proposals import answered as examples
from tests.store.contract.test_tasks import answered
from tests.understudy.commands.stores import opened
from understudy.commands.tasks import tasks


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A tenant with a declared task, answers to it, and a bank in which another one hides."""
    with opened(tmp_path) as store:
        tenant = store.keys.create("acme", "laptop")[0].tenant
        store.keys.create("umbrella", "laptop")
        store.tasks.known.add(
            TaskRow(tenant, "m", "intent", "configured", labels=("refund", "order")), most=9
        )
        for number, said in enumerate(("refund", "Order", "order"), 1):
            store.tasks.answers.record(answered(number, tenant=tenant, label=said, student_label="order"))
        student = {"label": None, "answered_by": "student"}
        store.tasks.answers.record(answered(4, tenant=tenant, **student))
        store.tasks.answers.record(
            answered(5, tenant=tenant, label=None, unread="no_label", student_label=None)
        )
        examples(store, lambda n: ("spam", "ham")[n % 2], tenant=tenant)
    return tmp_path


def ran(data: Path, *words: str) -> Result:
    return CliRunner().invoke(tasks, [*words, "--data", str(data)])


def told(data: Path, *words: str) -> Any:
    return json.loads(ran(data, *words, "--json").output)


def test_a_task_shows_who_answered_and_how_often_they_agreed(data: Path) -> None:
    (shown,) = told(data, "show", "intent", "--tenant", "acme")
    assert (shown["requests"], shown["student_share"]) == (5, 0.2)
    assert (shown["compared"], round(shown["agreement"], 3)) == (3, 0.667)
    assert shown["no_label"] == {"no_label": 1} and shown["labels"] == ["refund", "order"]
    assert "0.6667" in ran(data, "show", "intent").output


def test_a_proposal_is_listed_and_answers_nothing_until_it_is_enabled(data: Path) -> None:
    (proposed,) = told(data, "propose")["proposed"]
    (found,) = [each for each in told(data, "list") if each["name"] == proposed]
    assert found["state"] == "proposed" and set(found["labels"]) == {"spam", "ham"}
    assert "proposed" in ran(data, "list").output and "acme" in ran(data, "list").output
    assert ran(data, "enable", proposed).exit_code == 0
    states = {each["name"]: each["state"] for each in told(data, "list")}
    assert states == {"intent": "on", proposed: "on"}
    assert told(data, "propose") == {"proposed": []}


def test_a_task_is_paused_for_one_tenant_only(data: Path) -> None:
    refused = ran(data, "pause", "intent", "--tenant", "umbrella")
    assert refused.exit_code == 2 and "(intent)" in refused.output, "those that there are"
    assert ran(data, "pause", "intent", "--tenant", "acme").exit_code == 0
    assert told(data, "list", "--tenant", "acme")[0]["state"] == "paused"
    assert told(data, "list", "--tenant", "umbrella") == []
