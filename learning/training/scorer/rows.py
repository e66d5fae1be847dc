"""The scorer's training rows: one per outcome, with the candidates there were, those that were sent and the quality.

The rows are plain values, so training can be fed from the store, a file or a benchmark. Built from the log, they hold
the features as they were when the request was served, never recomputed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from router.examples.features import NAMES, VERSION
from router.examples.set_quality import same_answer
from store.records import ChoiceRecord, OutcomeRecord

if TYPE_CHECKING:
    import numpy.typing as npt

SMALLEST_PROBABILITY = 0.05
"""Largest weight of an outcome, which is one over the probability with which it was judged."""


@dataclass(frozen=True, slots=True)
class Row:
    """One outcome."""

    request_id: str
    at_s: float
    features: npt.NDArray[np.float32]
    """The features of all candidates, (candidates, router.examples.features.NAMES)."""
    answers: tuple[str, ...]
    """The answers of all candidates, as router.examples.set_quality.same_answer gives them."""
    sent: tuple[int, ...]
    """Places of the candidates that were sent; none is the counterfactual without examples."""
    quality: float
    """0..1"""
    weight: float = 1.0
    """One over the probability with which this outcome was judged."""
    scope: str = ""


AnswersOf = Callable[[Sequence[int]], Mapping[int, str]]
"""From example ids to their answers; deleted ids are left out."""


def rows_from_log(
    choices: Iterable[tuple[ChoiceRecord, Sequence[OutcomeRecord]]],
    answers_of: AnswersOf,
    *,
    embedding_version: str = "",
) -> list[Row]:
    """Training rows of logged requests, oldest first.

    Left out: outcomes of the reference engine (nothing is to be learnt about helping it), of examples that were not
    scored, of requests without a vector, and what was logged with other features or, if `embedding_version` is given,
    other embeddings. Of several outcomes for the same answer the last one counts.
    """
    rows: list[Row] = []
    for choice, outcomes in choices:
        if choice.vector is None or (embedding_version and choice.embedding_version != embedding_version):
            continue
        features = _features(choice)
        if features is not None:
            rows += _rows(choice, features, outcomes, answers_of)
    return sorted(rows, key=lambda row: (row.at_s, row.request_id))


def _features(choice: ChoiceRecord) -> npt.NDArray[np.float32] | None:
    """Return the candidates' features as they were logged; None if they are of another version, or were not computed."""
    features = choice.candidate_features
    if features is None:
        # Nothing was found; what the engine can do alone is still learnt from it.
        return None if choice.candidates else np.zeros((0, len(NAMES)), np.float32)
    current = choice.scorer_features_version == VERSION and features.shape[1:] == (len(NAMES),)
    return features if current else None


def _rows(
    choice: ChoiceRecord,
    features: npt.NDArray[np.float32],
    outcomes: Sequence[OutcomeRecord],
    answers_of: AnswersOf,
) -> Iterator[Row]:
    """Yield a row for the last outcome of each way to answer but the reference's."""
    ids = [int(candidate["id"]) for candidate in choice.candidates]
    known = answers_of(ids)
    # An answer that is gone is taken for one of its own.
    answers = tuple(same_answer(known[id]) if id in known else f"\0{id}" for id in ids)
    in_order = sorted(outcomes, key=lambda o: (o.at_s, o.id))
    last = {(o.engine, o.example_ids): o for o in in_order if o.engine != _reference(choice)}
    place = {id: n for n, id in enumerate(ids)}
    for outcome in last.values():
        if all(id in place for id in outcome.example_ids):
            yield Row(
                choice.request_id,
                choice.at_s,
                features,
                answers,
                tuple(place[id] for id in outcome.example_ids),
                outcome.quality,
                1.0 / max(SMALLEST_PROBABILITY, outcome.probability),
                choice.scope,
            )


def _reference(choice: ChoiceRecord) -> str:
    """The last of the engines that could be chosen: they are listed from small to large."""
    return str(choice.actions[-1]["engine"]) if choice.actions else ""
