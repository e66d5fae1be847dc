"""What a task's requests were answered is kept to learn from, of those who may be learnt from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines.prediction import Prediction
from gateway.keepers.exact import ExactKeeper
from gateway.keepers.task import TaskKeeper
from router.asked import Controls
from router.plan import Attempt, Plan
from router.tasks.soft import soft_labels
from router.tasks.task import Posed, Task
from store import Store
from store.records import TaskAnswer, Vector
from tests.finished import finished
from tests.flow.line import completion
from tests.store.rows import unit_vector
from understudy.settings.memory import MemorySettings
from understudy.setup.examples import admission

TASK = Task("intent", "a1", "m", ("refund", "order"))
PREDICTED = Prediction(7, ("refund", "order"), (math.log(0.9), math.log(0.1)), 0, "refund")


class Embedder:
    version = "v1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed_blocking(self, text: str) -> Vector:
        self.asked.append(text)
        return unit_vector(len(text))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def kept(
    store: Store,
    says: str | None = "Refund",
    *,
    input: str = "Where is my money?",
    embedder: Any = None,
    **changes: Any,
) -> TaskAnswer | str:
    """What became of an answer: its row, or why there is none."""
    posed = changes.pop("posed", Posed(TASK, input))
    plan = Plan(
        (Attempt("large"),),
        "fixed",
        "1",
        "fixed",
        embedded_text=input,
        vector=unit_vector(1),
        posed=posed,
        prediction=changes.pop("prediction", None),
        checked=changes.pop("checked", False),
    )
    message = changes.pop("message", {})
    body = json.dumps(completion(says or "", message=message, **changes.pop("said", {}))).encode()
    given = {"plan": plan, "attempt": Attempt("large"), "engine": "large", "from_reference": True} | changes
    keeper = TaskKeeper(
        store.tasks, embedder or Embedder(), admission(MemorySettings()), opted_out_keys=("k9",)
    )
    outcomes = [
        what if isinstance(what, str) else what.result(30)
        for _, what in keeper.keep(finished(body=body, **given))
    ]
    if not outcomes or isinstance(outcomes[0], str):
        return outcomes[0] if outcomes else ""
    return store.tasks.answers.after(0)[-1]


def test_the_teachers_label_is_kept_as_it_was_written(store: Store) -> None:
    row = kept(store, "Refund.", prediction=PREDICTED, checked=True, key_id="k1")
    assert isinstance(row, TaskAnswer)
    assert (row.slot, row.label, row.answer, row.unread) == ("m/intent", "Refund", "Refund.", "")
    assert (row.student_label, row.version, row.checked, row.answered_by) == ("refund", 7, True, "teacher")
    assert (row.input, row.contributor, row.vector is not None) == ("Where is my money?", "k1/", True)
    (listed,) = store.tasks.known.all()
    assert (listed.name, listed.source, listed.labels) == ("intent", "configured", ("refund", "order"))


@pytest.mark.parametrize(
    ("says", "changes", "unread"),
    [
        ("I think it is about a refund, since they ask for money.", {}, "no_label"),
        ("I'm sorry, I can't help with that.", {}, "no_label"),
        (None, {"message": {"content": None, "refusal": "No."}}, "refused"),
        ("ref", {"said": {"finish_reason": "length"}}, "cut_short"),
    ],
)
def test_what_is_no_label_is_counted_and_not_learnt(
    store: Store, says: str, changes: Any, unread: str
) -> None:
    row = kept(store, says, **changes)
    assert isinstance(row, TaskAnswer) and (row.label, row.answer, row.unread) == (None, "", unread)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"controls": Controls(no_store=True)}, "opted_out"),
        ({"key_id": "k9"}, "opted_out_key"),
        ({"remember": False}, "opted_out_model"),
        ({"status": 500}, "error"),
        ({"input": "My key is sk-proj-4f9aB7cD2eF6gH1iJ3kL5mN8oP0qR4sT6uV8wX0yZ2"}, "secrets"),
    ],
)
def test_nothing_is_kept_of_who_or_what_may_not_be(store: Store, changes: Any, reason: str) -> None:
    assert kept(store, **changes) == reason
    assert store.tasks.answers.after(0) == [] == store.tasks.known.all()


def test_another_engines_answer_is_kept_and_is_no_label(store: Store) -> None:
    row = kept(store, "Refund.", from_reference=False, engine="small", attempt=Attempt("small"))
    assert isinstance(row, TaskAnswer)
    assert (row.answered_by, row.label, row.answer, row.unread) == ("other", None, "Refund.", "")
    assert store.tasks.answers.labelled("a1", "m/intent") == 0
    unread = kept(store, "Who knows?", from_reference=False, engine="small", attempt=Attempt("small"))
    assert isinstance(unread, TaskAnswer) and (unread.label, unread.unread) == (None, "")


def test_a_request_of_no_task_is_none_of_its_business(store: Store) -> None:
    assert kept(store, posed=None) == ""


def test_what_is_private_is_replaced_and_the_vector_is_of_what_is_kept(store: Store) -> None:
    embedder = Embedder()
    row = kept(store, input="Write to jane.doe@gmx.net about my money", embedder=embedder)
    assert isinstance(row, TaskAnswer) and "jane" not in row.input and embedder.asked == [row.input]


def test_a_students_answer_is_kept_without_a_label_and_never_for_exact_repeats(store: Store) -> None:
    attempt = Attempt("student", prediction=PREDICTED)
    row = kept(store, attempt=attempt, engine="student", from_reference=False, prediction=PREDICTED)
    assert isinstance(row, TaskAnswer)
    assert (row.answered_by, row.label, row.student_label) == ("student", None, "refund")
    assert row.confidence == pytest.approx(0.9)
    answered = finished(
        body=json.dumps(completion("refund")).encode(), attempt=attempt, exact_key=b"k", engine="student"
    )
    assert list(ExactKeeper(store.answers.exact, tool_calls=False).keep(answered)) == [("exact", "student")]


def token(text: str, **top: float) -> dict[str, Any]:
    alternatives = [{"token": name, "logprob": math.log(p)} for name, p in top.items()]
    return {"token": text, "logprob": 0.0, "top_logprobs": alternatives}


def test_the_teachers_probabilities_are_those_of_the_token_that_begins_its_label() -> None:
    labels = ("refund", "order", "other")
    told = soft_labels({"logprobs": {"content": [token("ref", ref=0.6, order=0.2, The=0.2)]}}, "", labels)
    assert told == {"refund": pytest.approx(0.75), "order": pytest.approx(0.25)}
    in_json = [token('{"'), token("intent"), token('": "'), token("order", order=0.9, ref=0.1)]
    told = soft_labels({"logprobs": {"content": in_json}}, '{"intent": "', labels)
    assert told == {"order": pytest.approx(0.9), "refund": pytest.approx(0.1)}
    # "o" begins two labels: it does not say which.
    assert soft_labels({"logprobs": {"content": [token("o", o=0.9, ref=0.1)]}}, "", labels) is None
    assert soft_labels({"logprobs": {"content": [token("The", The=0.9, ref=0.1)]}}, "", labels) is None
    assert soft_labels({"logprobs": None}, "", labels) is None
