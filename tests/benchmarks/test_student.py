"""The benchmark's figures are of the student that it trained, and its costs of whole answers."""

from __future__ import annotations

import numpy as np

from learning.tasks.training import train
from router.tasks.student import Student
from tests.learning.tasks.customers import labelled


def test_accuracy_is_the_share_of_the_tests_own_labels() -> None:
    from benchmarks.student.__main__ import Reviews, accuracy, cost

    rows = labelled()
    student = Student.open(train(rows, seed=0, kinds=("logistic",)).data)
    some = rows[::9]
    vectors = np.stack([row.vector for row in some])
    right = Reviews([r.input for r in some], [r.label for r in some], vectors)
    assert accuracy(student, right) > 0.9
    assert accuracy(student, Reviews(right.texts, ["none of them"] * len(some), vectors)) == 0.0
    figures = cost(train(rows, seed=0, kinds=("logistic",)).data, right)
    assert figures["predict_cpu_ms"] > 0
    assert figures["predict_and_answer_cpu_ms"] > 0
