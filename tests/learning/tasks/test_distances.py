"""Inputs unlike those that a student was trained on show as a larger distance, and nothing else of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from learning.tasks.distances import DistanceReader
from learning.tasks.training import train
from store import Store
from store.records import TaskAnswer
from tests.learning.tasks.customers import labelled


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def asked(store: Store, count: int, *, unlike: bool = False, by: str = "teacher") -> None:
    for number, row in enumerate(labelled()[-count:]):
        assert row.vector is not None
        vector = np.roll(row.vector, 57) if unlike else row.vector
        answer = TaskAnswer(
            "a1", "m/intent", f"r{number}", 100.0 + number, "teacher", vector=vector, embedding_version="now"
        )
        store.tasks.answers.record(replace(answer, answered_by=by)).result(30)  # type: ignore[arg-type]


def test_a_task_whose_inputs_change_moves_away_from_what_its_student_was_trained_on(store: Store) -> None:
    made = train(labelled()[:100], seed=0, kinds=("centroid",), embedding_version="now")
    active = store.artifacts.publish("student", "a1", "m/intent", made.data, metrics=made.metrics)
    reader = DistanceReader(store.artifacts, store.tasks.answers)
    assert reader.of(active) is None
    asked(store, 60)
    usual = reader.of(active)
    assert usual is not None and usual.at_training is not None
    assert abs(usual.now - usual.at_training) < 0.2 and usual.beyond < 0.2 and len(usual.blocks) == 2
    asked(store, 50, unlike=True)
    far = reader.of(active)
    assert far is not None and far.now > max(far.farthest, usual.now) and far.beyond > 0.9
    assert far.blocks[0][1] < far.blocks[-1][1]
    # What a person says of an input is no other input.
    asked(store, 50, by="person")
    assert reader.of(active) == far


def test_a_version_that_is_none_has_no_distances(store: Store) -> None:
    active = store.artifacts.publish("student", "a1", "m/intent", b"x", metrics={})
    asked(store, 10)
    assert DistanceReader(store.artifacts, store.tasks.answers).of(active) is None
