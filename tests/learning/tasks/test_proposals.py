"""Instructions under which nearly all answers are few labels are proposed as a task; anything else is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from learning.tasks.proposals import TaskFinder, proposals
from store import Store
from store.tasks.tasks import State
from tests.store.rows import new_example, request_record


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def answered(
    store: Store, answers: Callable[[int], str], count: int = 200, *, scope: str = "s1", tenant: str = "a1"
) -> None:
    for number in range(count):
        example = new_example(
            number, tenant, answer=answers(number), scope=scope, request_id=f"{scope}-{number}", vector=None
        )
        store.examples.add(example)
    store.decisions.requests.record(
        request_record(1, id=f"{scope}-{count - 1}", model="gpt", tenant=tenant)
    ).result(30)
    assert store.drain(30)


def test_few_labels_under_the_same_instructions_are_proposed(store: Store) -> None:
    answered(
        store,
        lambda n: ("Refund", "refund.", "order")[n % 3] if n % 25 else "I cannot tell, could you say more?",
    )
    (found,) = proposals(store, "a1")
    assert (found.model, found.scope, found.state, found.source) == ("gpt", "s1", "proposed", "proposal")
    assert set(map(str.casefold, found.labels)) == {"refund", "order"}
    assert found.grounds == {"answers": 200, "distinct": 2, "covered": 0.96}


@pytest.mark.parametrize(
    ("answers", "count"),
    [
        (lambda n: ("refund", "order")[n % 2], 199),
        (lambda n: f"label {n % 150}", 300),
        (lambda n: "refund" if n % 10 else "I cannot tell, could you say more?", 200),
        (lambda n: "refund", 200),
        (lambda n: f"It is about {n}, as far as I can tell. Ask again!", 200),
    ],
    ids=["too few answers", "too many labels", "a tenth is no label", "one label", "no labels"],
)
def test_what_is_no_task_is_not(store: Store, answers: Callable[[int], str], count: int) -> None:
    answered(store, answers, count)
    assert list(proposals(store, "a1")) == []


def test_answers_of_other_instructions_and_tenants_are_not_counted_together(store: Store) -> None:
    def labels(n: int) -> str:
        return ("refund", "order")[n % 2]

    answered(store, labels, 150, scope="s1")
    answered(store, labels, 150, scope="s2")
    answered(store, labels, 150, scope="s1", tenant="b2")
    assert list(proposals(store, "a1")) == [] == list(proposals(store, "b2"))


def test_end_users_of_the_same_instructions_count_together(store: Store) -> None:
    for user in ("ann", "ben"):
        answered(store, lambda n: ("refund", "order")[n % 2], 100, scope=f"s1/{user}")
    assert [found.scope for found in proposals(store, "a1")] == ["s1"]


def test_a_private_tenant_gets_no_proposal(store: Store) -> None:
    answered(store, lambda n: ("refund", "order")[n % 2])
    store.examples.make_private("a1").result(30)
    assert list(proposals(store, "a1")) == []


def labels(n: int) -> str:
    return ("refund", "order")[n % 2]


def test_what_is_found_is_a_task_at_once_where_the_model_has_its_tasks_found(store: Store) -> None:
    answered(store, labels)
    assert TaskFinder(store, lambda model: model == "another", most=10).step() == []
    finder = TaskFinder(store, lambda model: model == "gpt", most=10)
    (found,) = finder.step()
    (listed,) = store.tasks.known.all(tenant="a1")
    assert (listed.name, listed.state, listed.scope) == (found.name, "on", "s1") and not listed.by
    assert finder.step() == [] == TaskFinder(store, lambda model: True, most=10).step()


@pytest.mark.parametrize("state", ["proposed", "paused"])
def test_a_task_that_a_person_decides_about_stays_as_it_is(store: Store, state: State) -> None:
    answered(store, labels)
    (row,) = proposals(store, "a1")
    store.tasks.known.add(replace(row, state=state), most=10).result(30)
    assert TaskFinder(store, lambda model: True, most=10).step() == []
    assert [each.state for each in store.tasks.known.all()] == [state]


def test_what_is_remembered_later_is_looked_at_then(store: Store) -> None:
    answered(store, labels, 100)
    finder = TaskFinder(store, lambda model: True, most=10)
    assert finder.step() == []
    answered(store, labels, 100, scope="s1/ben")
    assert [found.scope for found in finder.step()] == ["s1"]
