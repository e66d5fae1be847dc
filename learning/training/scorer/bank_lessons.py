"""Makes lessons from a bank alone, without outcomes: which of its examples say what which of its requests needed.

Every remembered request is known with a right answer, so its neighbours can be sorted into those that say the same, those
that show the rule it follows, and the rest (learning.training.scorer.agreement). Outcomes are few and of whole sets;
these are many and of single examples, and teach the scorer to tell the same thing from a similar one. Some requests
are also shown what is left of the bank without everything near: what does not help when nothing is there.

Agreement by chance ("USB-C" for two devices) would be wrong in about a tenth of the labels. Mostly it shows: one answer
names what the other request and its answer do not (learning.training.scorer.agreement.contradicted). And a plain line
over the scalars, fitted on the other requests, says where an agreement is very unlikely. Either is passed over
(Brodley, Friedl 1999, "Identifying Mislabeled Training Data", section 3: filtering by a learner of another kind,
across folds). Needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from learning.training.scorer.agreement import SAME_FROM, WHOLE_FROM, Agreement, contradicted, subjects
from router.examples.features import NAMES, Features, RequestView
from router.examples.spelled_codes import forms
from router.plan import Candidate
from store.records import Vector

if TYPE_CHECKING:
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float32]

CANDIDATES = 20
MOST_REQUESTS, MOST_STRANGERS = 2000, 1000
"""Of the latest in the bank; how many are taught with their neighbours, and with strangers."""
MOST_EXAMPLES = 6000
NEAR_SHARE = 0.15
"""Of the bank, what counts as near and is kept from a request that meets strangers."""
FOLDS, UNLIKELY, RIDGE = 4, 0.01, 1.0
# An agreement that only looks unlikely is often a slip of the finger in a name: those few teach what it is worth to try.


@dataclass(frozen=True, slots=True)
class Lesson:
    """One stored request with examples it might have been given."""

    at_s: float
    """When it was asked, Unix seconds."""
    request: Vector
    """(dimensions,)"""
    questions: Floats
    """(examples, dimensions)"""
    answers: Floats
    """(examples, dimensions); zeros where unknown."""
    scalars: Floats
    """(examples, router.examples.features.NAMES)"""
    same: Bools
    """(examples,): says what the right answer says."""
    whole: Bools
    """(examples,): and all of it."""
    rule: Bools
    """(examples,): shows the rule that the right answer follows; never where `same`."""
    counts: Bools
    """(examples,): False where the label is not to be trusted."""


def lessons(
    bank: Sequence[Candidate],
    features: Features,
    asked: Callable[[Candidate], RequestView],
    *,
    seed: int = 0,
) -> list[Lesson]:
    """Lessons from a tenant's examples with their vectors, oldest first; those without a vector are passed over.

    `asked` gives an example's question as a request. Takes some milliseconds per request. Whose examples `bank` holds is the
    caller's to see to: what is learnt from them is for whoever may use them.
    """
    known = sorted((c for c in bank if c.vector is not None), key=lambda c: c.example.id)[-MOST_EXAMPLES:]
    if len(known) < 2:
        return []
    vectors = np.stack([c.vector for c in known if c.vector is not None])
    reader = _Reader(known, features, asked)
    scopes = np.array([c.example.scope for c in known])
    found = []
    for i in range(max(0, len(known) - MOST_REQUESTS), len(known)):
        here = np.flatnonzero(scopes == scopes[i])
        found.append(reader.lesson(i, _nearest(vectors, i, here, 0)))
    taught = [lesson for lesson in found if lesson is not None]
    if taught:
        taught = trusted(taught, seed)
    everyone = np.arange(len(known))
    drawn = np.random.default_rng(seed).permutation(len(known))[:MOST_STRANGERS]
    for i in sorted(drawn.tolist()):
        lesson = reader.lesson(i, _nearest(vectors, i, everyone, int(NEAR_SHARE * len(known))))
        if lesson is not None:
            taught.append(replace(lesson, counts=~(lesson.same | lesson.rule)))
    return taught


def trusted(found: Sequence[Lesson], seed: int) -> list[Lesson]:
    """The lessons without agreements that a line fitted on the other requests finds unlikely."""
    fold = np.random.default_rng(seed).integers(0, FOLDS, len(found))
    mean, spread = _normal(found)
    rows = [_with_one(np.clip((lesson.scalars - mean) / spread, -4, 4)) for lesson in found]
    checked: list[Lesson] = list(found)
    for k in range(FOLDS):
        rest = [i for i in range(len(found)) if fold[i] != k]
        if not rest:
            continue
        line = _line(
            np.concatenate([rows[i] for i in rest]),
            np.concatenate([found[i].same & found[i].counts for i in rest]),
        )
        for i in np.flatnonzero(fold == k).tolist():
            likely = 1 / (1 + np.exp(-rows[i] @ line))
            checked[i] = replace(found[i], counts=found[i].counts & ~(found[i].same & (likely < UNLIKELY)))
    return checked


class _Reader:
    """Makes the lessons of one bank; caches what was read of an answer."""

    def __init__(
        self, bank: list[Candidate], features: Features, asked: Callable[[Candidate], RequestView]
    ) -> None:
        self._bank, self._features, self._asked = bank, features, asked
        read = [features.read(c.example.question) for c in bank]
        agreement = Agreement(zip(subjects(read), [c.example.answer for c in bank], strict=True))
        texts = [(c.example.question, c.example.answer) for c in bank]
        self._matter = [agreement.matter(*pair) for pair in texts]
        self._names = [
            agreement.echoes(question, c.example.answer) for question, c in zip(read, bank, strict=True)
        ]
        self._texts = ["\n".join(pair) for pair in texts]
        self._forms = [forms(*pair) for pair in texts]
        self._now_s = max(c.example.created_at_s for c in bank)
        self._blank = np.zeros_like(bank[0].vector)

    def lesson(self, i: int, near: Iterable[tuple[int, float]]) -> Lesson | None:
        shown = [(j, replace(self._bank[j], similarity=similarity)) for j, similarity in near]
        request = self._bank[i]
        if not shown or request.vector is None:
            return None
        places = [j for j, _ in shown]
        candidates = [c for _, c in shown]
        same = np.array([self._share(i, j) >= SAME_FROM for j in places])
        whole = np.array([Agreement.covered(self._matter[i], self._matter[j]) >= WHOLE_FROM for j in places])
        rule = np.array([bool(self._forms[i] & self._forms[j]) for j in places]) & ~same
        return Lesson(
            request.example.created_at_s,
            request.vector,
            self._stacked([c.vector for c in candidates]),
            self._stacked([c.answer_vector for c in candidates]),
            self._features.rows(self._asked(request), candidates, self._now_s),
            same,
            same & whole,
            rule,
            ~np.array([s and self._contradicted(i, j) for s, j in zip(same.tolist(), places, strict=True)]),
        )

    def _contradicted(self, i: int, j: int) -> bool:
        return contradicted(self._names[i], self._texts[j]) or contradicted(self._names[j], self._texts[i])

    def _share(self, i: int, j: int) -> float:
        return Agreement.share(self._matter[i], self._matter[j])

    def _stacked(self, vectors: list[Vector | None]) -> Floats:
        return np.stack([self._blank if v is None else v for v in vectors]).astype(np.float32, copy=False)


def _nearest(vectors: Floats, i: int, among: npt.NDArray[np.int64], skip: int) -> list[tuple[int, float]]:
    similarity = vectors[among] @ vectors[i]
    order = np.argsort(-similarity, kind="stable")
    found = [(int(among[k]), float(similarity[k])) for k in order[: skip + CANDIDATES + 1] if among[k] != i]
    return found[skip : skip + CANDIDATES]


def _normal(found: Sequence[Lesson]) -> tuple[Floats, Floats]:
    scalars = np.concatenate([lesson.scalars for lesson in found])
    spread = scalars.std(0)
    return scalars.mean(0), np.where(spread < 1e-3, 1e3, spread).astype(np.float32)


def _with_one(rows: Floats) -> npt.NDArray[np.float64]:
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1)


def _line(rows: npt.NDArray[np.float64], same: Bools) -> npt.NDArray[np.float64]:
    """Logistic regression with a ridge, by Newton's method; (scalars + 1,)."""
    line = np.zeros(len(NAMES) + 1)
    for _ in range(12):
        p = 1 / (1 + np.exp(-np.clip(rows @ line, -30, 30)))
        curve = (rows * (p * (1 - p) + 1e-6)[:, None]).T @ rows + RIDGE * np.eye(len(line))
        step = np.linalg.solve(curve, rows.T @ (same - p) - RIDGE * line)
        line += step
        if float(np.abs(step).max()) < 1e-4:
            break
    return line
