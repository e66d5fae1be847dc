"""Hard against soft labels, of a teacher that tells its probabilities: a logistic regression over TF-IDF, since no recorded
large model told them.

The teacher is trained on people's labels of half the texts. Students are trained on the same further texts twice: on its
likeliest label, and on the probabilities of its likeliest labels, as many as a chat completion tells. Both are tested
against people's labels of a fifth of all texts, that neither teacher nor student saw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks.neural_caching.streams import TEST_SHARE, Stream
from benchmarks.neural_caching.student import trained
from learning.tasks.training import Labelled

SIZES = (250, 500, 1000, 2000)
_TEACHER_SHARE = 0.5
_TOLD = 20
"""Most labels that a chat completion tells probabilities of (`top_logprobs`)."""


@dataclass(frozen=True, slots=True)
class SoftRun:
    """Accuracies against people's labels, shares of 1."""

    stream: str
    seed: int
    size: int
    """Labels that the students were trained on."""
    teacher: float
    hard: float
    soft: float


def compared(stream: Stream, seed: int) -> list[SoftRun]:
    """A row per size for which there are texts enough."""
    order = np.random.default_rng(seed).permutation(len(stream.texts))
    cut, end = int(_TEACHER_SHARE * len(order)), int((1 - TEST_SHARE) * len(order))
    for_teacher, for_student, test = order[:cut], order[cut:end], order[end:]
    teacher = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=5.0, max_iter=1000)
    )
    teacher.fit([stream.texts[p] for p in for_teacher], [stream.gold[p] for p in for_teacher])
    told = teacher.predict_proba([stream.texts[p] for p in for_student])
    labels = [str(label) for label in teacher.classes_]
    hard = stream.labelled([int(p) for p in for_student], [labels[top] for top in told.argmax(axis=1)])
    soft = [
        replace(row, soft={labels[n]: float(shares[n]) for n in np.argsort(-shares)[:_TOLD]})
        for row, shares in zip(hard, told, strict=True)
    ]
    gold = [stream.gold[p] for p in test]

    def right(rows: list[Labelled]) -> float:
        student = trained(rows, 0, seed)
        assert student is not None, "two labels occur twice"
        return float(np.mean([a == b for a, b in zip(student.labels_of(stream, test), gold, strict=True)]))

    accuracy = float(teacher.score([stream.texts[p] for p in test], gold))
    return [
        SoftRun(stream.name, seed, size, accuracy, right(hard[:size]), right(soft[:size]))
        for size in SIZES
        if size <= len(hard)
    ]
