"""What one request of a task costs the gateway beside its embedding: CPU time of each step, of the product's own objects."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.neural_caching.streams import Stream
from engines.prediction import Prediction
from learning.tasks.training import train
from router.tasks.student import Student
from router.tasks.takeover import Takeover
from router.tasks.task import Task
from store.records import TaskAnswer

_ROWS, _CALLS = 800, 2000


def steps(stream: Stream) -> dict[str, float]:
    """Microseconds by step; and seconds of one training, by that name."""
    order = stream.ordered(0)[: _ROWS * 2]
    told = stream.told(order)
    began = time.process_time()
    made = train(stream.labelled([int(p) for p in order[:_ROWS]], told[:_ROWS]), seed=0, kinds=("logistic",))
    training_s = time.process_time() - began
    student = Student.open(made.data)
    asked = [int(place) for place in order[-200:]]
    takeover = Takeover(Task("task", "t", "m"), teacher_answers_rest=True)
    predictions: list[Prediction] = []

    def predict(n: int) -> None:
        place = asked[n % len(asked)]
        predictions.append(student.predict(stream.texts[place], stream.vectors[place], 1))

    def count(n: int) -> None:
        takeover.count(
            TaskAnswer(
                "t",
                "m/task",
                f"r{n}",
                0.0,
                "teacher",
                label="a",
                student_label="a",
                confidence=0.9,
                version=1,
            )
        )

    return {
        f"training on {len(order[:_ROWS])} labels, s": training_s,
        "predict, us": _each_us(predict),
        "decide, us": _each_us(lambda n: takeover.decide(predictions[n % len(predictions)])),
        "follow one row of the log, us": _each_us(count),
    }


def _each_us(work: Callable[[int], object]) -> float:
    taken = []
    for start in range(0, _CALLS, 100):
        began = time.process_time()
        for n in range(start, start + 100):
            work(n)
        taken.append((time.process_time() - began) / 100)
    return float(np.median(taken)) * 1e6
