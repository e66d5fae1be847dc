"""The scorer's training rows: one per outcome, with the candidates there were, those that were sent and the quality.

The rows are plain values, so training can be fed from the store, a file or a benchmark. Built from the log, they hold
the features as they were when the request was served, never recomputed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """Of all candidates, (candidates, router.examples.features.NAMES)."""
    answers: tuple[str, ...]
    """Of all candidates, as router.examples.set_quality.same_answer gives them."""
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
    scored, of requests without a vector, and what was logged with other features or, where `embedding_version` is given,
    other embeddings. Of several outcomes for the same answer the last one counts.
    """
    rows: list[Row] = []
    for choice, outcomes in choices:
        if choice.vector is None or (embedding_version and choice.embedding_version != embedding_version):
            continue
        features = choice.candidate_features
        if features is None and not choice.candidates:
            # Nothing was found; what the engine can do alone is still learnt from it.
            features = np.zeros((0, len(NAMES)), np.float32)
        elif (
            features is None
            or choice.scorer_features_version != VERSION
            or features.shape[1:] != (len(NAMES),)
        ):
            continue
        ids = [int(candidate["id"]) for candidate in choice.candidates]
        known = answers_of(ids)
        # An answer that is gone is taken for one of its own.
        answers = tuple(same_answer(known[id]) if id in known else f"\0{id}" for id in ids)
        last = {
            (o.engine, o.example_ids): o
            for o in sorted(outcomes, key=lambda o: (o.at_s, o.id))
            if o.engine != _reference(choice)
        }
        place = {id: n for n, id in enumerate(ids)}
        rows += [
            Row(
                choice.request_id,
                choice.at_s,
                features,
                answers,
                tuple(place[id] for id in outcome.example_ids),
                outcome.quality,
                1.0 / max(SMALLEST_PROBABILITY, outcome.probability),
                choice.scope,
            )
            for outcome in last.values()
            if all(id in place for id in outcome.example_ids)
        ]
    return sorted(rows, key=lambda row: (row.at_s, row.request_id))


def _reference(choice: ChoiceRecord) -> str:
    """The last of the engines that could be chosen: they are listed from small to large."""
    return str(choice.actions[-1]["engine"]) if choice.actions else ""
