"""The scorer's training rows: one per outcome, with the examples that were sent and the observed quality.

The rows are plain values, so training can be fed from the store, a file or a benchmark. Built from the log, they hold
the scalars as they were when the request was served, never recomputed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from router.examples.features import NAMES, VERSION
from store.records import ChoiceRecord, OutcomeRecord, Vector

if TYPE_CHECKING:
    import numpy.typing as npt

SMALLEST_PROBABILITY = 0.05
"""Largest weight of an outcome, which is one over the probability with which it was judged."""


@dataclass(frozen=True, slots=True)
class Row:
    """One outcome: `examples` may be 0, which is the counterfactual without examples."""

    request_id: str
    at_s: float
    request: Vector
    """(dimensions,)"""
    questions: npt.NDArray[np.float32]
    """(examples, dimensions)"""
    answers: npt.NDArray[np.float32]
    """(examples, dimensions); zeros where unknown."""
    scalars: npt.NDArray[np.float32]
    """(examples, router.examples.features.NAMES)"""
    quality: float
    """0..1"""
    weight: float = 1.0
    """One over the probability with which this outcome was judged."""


VectorsOf = Callable[[Sequence[int]], Mapping[int, tuple[Vector, Vector | None]]]
"""From example ids to the embeddings of their questions and, where known, answers; deleted ids are left out."""


def rows_from_log(
    choices: Iterable[tuple[ChoiceRecord, Sequence[OutcomeRecord]]],
    vectors_of: VectorsOf,
    *,
    embedding_version: str = "",
) -> list[Row]:
    """Training rows of logged requests, oldest first.

    Left out: outcomes of the reference engine (nothing is to be learnt about helping it), of examples that are gone or
    were not scored, of requests without a vector, and what was logged with other features or, where `embedding_version`
    is given, other embeddings. Of several outcomes for the same answer the last one counts.
    """
    rows: list[Row] = []
    for choice, outcomes in choices:
        if choice.vector is None or (embedding_version and choice.embedding_version != embedding_version):
            continue
        last = {
            (o.engine, o.example_ids): o
            for o in sorted(outcomes, key=lambda o: (o.at_s, o.id))
            if o.engine != _reference(choice)
        }
        wanted = sorted({id for o in last.values() for id in o.example_ids})
        vectors = vectors_of(wanted) if wanted else {}
        made = (_row(choice, choice.vector, outcome, vectors) for outcome in last.values())
        rows.extend(row for row in made if row is not None)
    return sorted(rows, key=lambda row: (row.at_s, row.request_id))


def _reference(choice: ChoiceRecord) -> str:
    """The last of the engines that could be chosen: they are listed from small to large."""
    return str(choice.actions[-1]["engine"]) if choice.actions else ""


def _row(
    choice: ChoiceRecord,
    request: Vector,
    outcome: OutcomeRecord,
    vectors: Mapping[int, tuple[Vector, Vector | None]],
) -> Row | None:
    ids = outcome.example_ids
    scalars = np.zeros((0, len(NAMES)), np.float32)
    if ids:
        logged = choice.candidate_features
        if choice.scorer_features_version != VERSION or logged is None or logged.shape[1:] != (len(NAMES),):
            return None
        place = {int(candidate["id"]): i for i, candidate in enumerate(choice.candidates)}
        if any(id not in vectors or id not in place for id in ids):
            return None
        scalars = np.asarray(logged[[place[id] for id in ids]], np.float32)
    unknown = np.zeros_like(request)
    answers = [vectors[id][1] for id in ids]
    return Row(
        request_id=choice.request_id,
        at_s=choice.at_s,
        request=request,
        questions=_stacked([vectors[id][0] for id in ids], request),
        answers=_stacked([unknown if answer is None else answer for answer in answers], request),
        scalars=scalars,
        quality=outcome.quality,
        weight=1.0 / max(SMALLEST_PROBABILITY, outcome.probability),
    )


def _stacked(vectors: list[Vector], like: Vector) -> npt.NDArray[np.float32]:
    if not vectors:
        return np.zeros((0, len(like)), np.float32)
    return np.stack(vectors).astype(np.float32, copy=False)
