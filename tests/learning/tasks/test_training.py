"""A student learns what its teacher says, says how sure it is, and gives way to no worse one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from learning.tasks.network import Layers
from learning.tasks.training import Labelled, TooFew, calibration_error, faded, train
from router.tasks.form import Form
from router.tasks.student import Student
from tests.learning.tasks.customers import labelled


def shuffled(seed: int = 0) -> list[Labelled]:
    rows = labelled()
    random.Random(seed).shuffle(rows)
    return [replace(row, at_s=float(n)) for n, row in enumerate(rows, start=1)]


def share_right(student: Student, rows: list[Labelled]) -> float:
    return sum(student.predict(r.input, r.vector, 1).label == r.label for r in rows) / len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["logistic", "centroid", "mlp"])
def test_it_learns_and_is_as_sure_as_it_is_right(kind: str) -> None:
    rows = shuffled()
    trained = train(rows[:120], seed=0, kinds=(kind,), form=Form("Intent: "))  # type: ignore[arg-type]
    student = Student.open(trained.data)
    assert share_right(student, rows[120:]) > 0.9 and trained.metrics["accuracy"] > 0.9
    assert trained.metrics["calibration_error"] < 0.1 and trained.metrics["kind"] == kind
    said = student.predict(rows[0].input, rows[0].vector, 7)
    assert (said.version, said.answer) == (7, f"Intent: {said.label}")


def test_centroids_of_many_labels_are_as_sure_as_they_are_right() -> None:
    drawn = np.random.default_rng(0)
    vectors = np.repeat(drawn.normal(size=(40, 384)), 6, axis=0) + 3 * drawn.normal(size=(240, 384))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    rows = [Labelled(f"text {n}", vector, f"label {n // 6}") for n, vector in enumerate(vectors)]
    metrics = train(rows, seed=0, kinds=("centroid",)).metrics
    assert metrics["calibration_error"] < 0.1 < metrics["accuracy"] < 0.99


def test_the_kind_with_the_smallest_loss_on_what_was_held_out_is_taken() -> None:
    metrics = train(shuffled(), seed=0, kinds=("logistic", "centroid")).metrics
    tried = metrics["tried"]
    assert "centroid/1" in tried and metrics["kind"] == min(tried, key=tried.__getitem__).split("/")[0]


def test_the_same_rows_and_seed_make_the_same_bytes() -> None:
    rows = shuffled()[:60]
    assert train(rows, seed=3, kinds=("logistic",)).data == train(rows, seed=3, kinds=("logistic",)).data


def test_a_persons_labels_outweigh_as_many_of_the_teachers() -> None:
    rows = shuffled()[:90]
    wrong = [replace(row, label="delivery") for row in rows if row.label == "refund"]
    corrected = [replace(row, weight=10.0) for row in rows if row.label == "refund"]
    others = [row for row in rows if row.label != "refund"]
    student = Student.open(train([*others, *wrong, *corrected], seed=0, kinds=("logistic",)).data)
    assert share_right(student, corrected) > 0.9


def test_what_was_said_lately_counts_more() -> None:
    rows = shuffled()[:90]
    old = [replace(row, label="account") if row.label == "refund" else row for row in rows]
    both = [*old, *rows]
    weights = faded(both, half_life_labels=30.0)
    assert weights[0] < 0.02 and weights[-1] == 1.0
    kept = [replace(row, weight=weight) for row, weight in zip(both, weights, strict=True)]
    student = Student.open(train(kept, seed=0, kinds=("logistic",)).data)
    assert share_right(student, [row for row in rows if row.label == "refund"]) > 0.9


def test_labels_fade_by_how_much_older_they_are_than_the_newest_however_old_that_is() -> None:
    rows = [replace(row, at_s=at_s) for row, at_s in zip(shuffled()[:3], (0.0, 60.0, 120.0), strict=True)]
    assert faded(rows, half_life_s=60.0) == [0.25, 0.5, 1.0]
    assert faded([], half_life_s=60.0) == []
    # Stamps of 1970, as a log without times gives them, train like any other.
    assert (
        len(Student.open(train(weighted(shuffled()[:60], 3600.0), seed=0, kinds=("logistic",)).data).labels)
        == 3
    )


def weighted(rows: list[Labelled], half_life_s: float) -> list[Labelled]:
    weights = faded(rows, half_life_s=half_life_s)
    return [replace(row, weight=weight) for row, weight in zip(rows, weights, strict=True)]


def test_soft_labels_are_learnt_as_the_teacher_doubted() -> None:
    doubtful = {"refund": 0.6, "delivery": 0.4}
    rows = [replace(row, soft=doubtful) if row.label == "refund" else row for row in shuffled()]
    student = Student.open(train(rows[:150], seed=0, kinds=("logistic",)).data)
    asked = [student.predict(row.input, row.vector, 1) for row in rows[150:] if row.label == "refund"]
    assert asked and sum(p.confidence for p in asked) / len(asked) < 0.75


def test_a_label_is_written_as_the_teacher_writes_it_most_and_a_slip_is_none() -> None:
    rows = shuffled()[:60]
    some = [replace(row, label=row.label.title()) if n % 4 else row for n, row in enumerate(rows)]
    student = Student.open(train([*some, replace(rows[0], label="other")], seed=0, kinds=("logistic",)).data)
    assert student.labels == ("Account", "Delivery", "Refund")


def test_one_label_alone_is_too_few() -> None:
    with pytest.raises(TooFew, match="two are needed"):
        train([row for row in shuffled() if row.label == "refund"], seed=0)


def test_one_that_is_worse_on_the_newest_labels_is_not_accepted() -> None:
    rows = shuffled()
    good = train(rows[:120], seed=0, kinds=("logistic",))
    nonsense = random.Random(1)
    # What came before was noted wrongly since; what is new is right.
    spoilt = [replace(row, label=nonsense.choice(["refund", "delivery", "account"])) for row in rows[:120]]
    worse = train(
        [*spoilt, *rows[120:]],
        seed=0,
        kinds=("logistic",),
        incumbent=good.data,
        incumbent_until_s=rows[119].at_s,
    )
    assert not worse.accepted and worse.metrics["newest_accuracy"] < worse.metrics["newest_accuracy_before"]
    same = train(rows, seed=0, kinds=("logistic",), incumbent=good.data, incumbent_until_s=rows[119].at_s)
    assert same.accepted and same.metrics["newest"] == 60
    assert train(
        rows, seed=0, kinds=("logistic",), incumbent=b"broken", incumbent_until_s=rows[119].at_s
    ).accepted


@pytest.mark.slow
def test_a_network_goes_on_from_a_former_one_with_a_label_that_it_did_not_know() -> None:
    rows = shuffled()
    two = [row for row in rows if row.label != "account"]
    before = train(two[:80], seed=0, kinds=("mlp",))
    warm = train(rows[:150], seed=0, kinds=("mlp",), warm=before.data)
    assert share_right(Student.open(warm.data), rows[150:]) > 0.8
    # What is read of a version is what was trained, but for the rounding of its columns.
    layers = Layers.read(before.data)
    assert layers.last is not None and layers.last.shape[1] == 2 == len(Student.open(before.data).labels)


def test_an_error_of_calibration_is_the_gap_between_sureness_and_truth() -> None:
    assert calibration_error(np.array([0.95] * 20), np.array([True] * 19 + [False])) == pytest.approx(0.0)
    assert calibration_error(np.array([0.95] * 20), np.array([False] * 20)) == pytest.approx(0.95)


def test_rare_labels_are_all_trained_on() -> None:
    rows = [row for row in shuffled() if row.label != "account"][:60]
    rare = [row for row in shuffled() if row.label == "account"][:2]
    student = Student.open(train([*rows, *rare], seed=0, kinds=("logistic",)).data)
    assert Counter(student.labels)["account"] == 1
