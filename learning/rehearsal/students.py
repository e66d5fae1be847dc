"""Predicts the answers of a task's student to past requests: it costs no engine's answer.

Where nearly all answers under the same instructions are few labels, as of learning.tasks.proposals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from learning.rehearsal.arms import Answer, Past, Question, Rehearsed, tried
from learning.tasks.proposals import labels_of
from learning.tasks.training import Labelled, TooFew, train
from router.tasks.form import normalised, read
from router.tasks.student import Student

STUDENT = "the student"
_FOLDS = 5
_FEWEST = 50
"""Answers under the same instructions."""
_MOST_ROWS = 2000
"""Latest labels that a student is trained on: five times, so it must not take minutes."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A student's answer to one request."""

    answer: str
    confidence: float
    agreed: bool
    version: int


def with_student(found: Rehearsed, past: Sequence[Past]) -> Rehearsed:
    """Also the student's answers, each by one that was trained on the other folds. Blocks for seconds."""
    said: list[Predicted | None] = [None] * len(found.questions)
    for scope in {one.past.scope for one in found.questions}:
        rows = labelled([one for one in past if one.scope == scope])[-_MOST_ROWS:]
        places = [place for place, one in enumerate(found.questions) if one.past.scope == scope]
        if rows:
            _predict_in_folds(said, found.questions, places, rows)
    if not any(said):
        return found
    answered = [
        None if each is None else tried(Answer(each.answer, 0.0, 0.0), one.past, [a for _, a in one.shown])
        for each, one in zip(said, found.questions, strict=True)
    ]
    sure = [0.0 if each is None else each.confidence for each in said]
    return Rehearsed({**found.ways, STUDENT: answered}, found.questions, {**found.sure, STUDENT: sure})


def _predict_in_folds(
    said: list[Predicted | None],
    questions: Sequence[Question],
    places: Sequence[int],
    rows: Sequence[Labelled],
) -> None:
    """Fill `said` at the places of one scope, each by a student that was trained without its fold's questions."""
    for fold in range(_FOLDS):
        held = places[fold::_FOLDS]
        asked = {questions[place].past.question for place in held}
        student = _trained([row for row in rows if row.input not in asked])
        if student is not None:
            for place in held:
                said[place] = _predicted(student, questions[place].past)


def in_order(past: Sequence[Past], every: int) -> list[Predicted | None]:
    """Predict each request of one scope in the log's order, by a student that is trained anew after `every` ones.

    None before it can be trained, and everywhere if the answers are no labels. Blocks for seconds.
    """
    rows = labelled(past)
    if not rows:
        return [None] * len(past)
    found: list[Predicted | None] = []
    student: Student | None = None
    for place, one in enumerate(past):
        if place % every == 0:
            before = {each.question for each in past[:place]}
            student = _trained([row for row in rows if row.input in before])
        found.append(None if student is None else _predicted(student, one, place // every))
    return found


def labelled(past: Sequence[Past]) -> list[Labelled]:
    """The requests whose answer is one of the task's labels; empty if it is no task."""
    labels = labels_of([(one.answer, 1) for one in past], least=_FEWEST)
    if labels is None:
        return []
    rows = ((one, read(one.answer, labels[0])) for one in past)
    return [Labelled(one.question, one.vector, label[0]) for one, label in rows if label is not None]


def _trained(rows: Sequence[Labelled]) -> Student | None:
    try:
        return Student.open(train(rows, seed=0, kinds=("logistic", "centroid")).data)
    except TooFew:
        return None


def _predicted(student: Student, one: Past, version: int = 0) -> Predicted:
    told = student.predict(one.question, one.vector, version)
    confidence = told.confidence if told.in_domain else 0.0
    found = read(one.answer, student.labels)
    agreed = found is not None and normalised(found[0]) == normalised(told.label)
    return Predicted(told.answer, confidence, agreed, version)
