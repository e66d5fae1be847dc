"""The named scalars by which the scorer knows a request and an example: one function, for serving and for training alike.

What is computed here is logged with the decision and trained on as it was logged, so that a model is fed at work what it was
fed in training. Whoever changes what a scalar means raises VERSION: models of another version are refused.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from router.plan import Candidate
from router.rarity import Rarity
from router.scorer_reading import Readings, Text, read
from store.accounting import decayed
from store.records import Vector

if TYPE_CHECKING:
    import numpy.typing as npt

VERSION = "2"

NAMES: tuple[str, ...] = (
    "similarity",  # cosine of the two questions
    "answer_similarity",  # cosine of the request and the example's answer; 0 where that vector is unknown
    "answer_known",  # 1 where it is known
    "request_covered",  # share of the request's words, weighted by rarity, that the example's question says
    "example_covered",  # and of the example's question that the request says
    "request_rare_covered",  # the same by excess rarity: names, numbers, identifiers; 1 where there are none
    "example_rare_covered",
    "turn_covered",  # the same of the request's last turn only, by the last turn of the example's question
    "turn_covers",  # and of the example's last turn, by the request
    "common_covered",  # share of the request's ordinary words that the example's question says; 1 where there are none
    "common_covers",
    "overlap_lost",  # request_rare_covered x example_rare_covered, below the candidate that has most of it
    "rare_shared",  # excess rarity both say, x / (1 + x)
    "rare_of_request_only",
    "rare_of_example_only",
    "rarest_of_request_only",  # the excess of the rarest word that only one says
    "rarest_of_example_only",
    "numbers_equal",  # both say numbers, and the same
    "numbers_conflict",  # both say numbers, and others
    "numbers_one_sided",
    "other_things",  # router.lexical_gates.about_other_things
    "names_disagree",  # each names what the other does not
    "asks_alike",  # the same kinds of question word
    "request_in_answer",  # share of the request's words, weighted by excess rarity, that the answer says
    "answer_spelled",  # how far a code in the answer is spelled from the example's question: it shows a rule
    "spelled_alike",  # the same, times request_covered: a rule that the request may be asking for
    "request_length",  # logarithms of characters
    "question_length",
    "answer_length",
    "quality",  # the mean of the answer's judgements, 1/2 without any
    "quality_known",
    "uses",  # a logarithm
    "gain",  # decayed to now, x / (1 + x)
    "age",  # a logarithm of days
    "demonstration",
    "flagged",
    "from_reference",  # the reference engine wrote the answer
    "merged",  # a logarithm of how many agreeing pairs it stands for
    "rank",  # 1 for the nearest, 1/2, 1/3 ...
    "margin",  # similarity lost against the nearest candidate
    "relative_price",  # of the engine to be helped, against the reference
)
"""One name per column."""

_OVERLAP = NAMES.index("overlap_lost")

PLACE = {name: i for i, name in enumerate(NAMES)}
"""Column by name."""


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request as the scorer sees it."""

    text: str
    """What was embedded: router.digest.question."""
    vector: Vector
    """Unit length, (dimensions,)."""
    reference_engine: str = ""
    """The served model's largest engine."""
    relative_price: float = 1.0
    """Price of the engine to be helped over the reference's, 0..1."""


class Features:
    """Computes the scalars. Any thread may ask; what it keeps of examples' texts never changes a result."""

    version = VERSION
    names = NAMES

    def __init__(self, rarity: Rarity, cache_entries: int = 10_000) -> None:
        """`cache_entries`: examples whose texts are kept read, some two kilobytes each."""
        self._readings = Readings(rarity, cache_entries)

    def rows(
        self, request: RequestView, candidates: Sequence[Candidate], now_s: float
    ) -> npt.NDArray[np.float32]:
        """Shape (candidates, len(NAMES)), all finite. `candidates` as the retriever gave them, nearest first."""
        if not candidates:
            return np.zeros((0, len(NAMES)), np.float32)
        asked = read(request.text, self._readings.rarity)
        pairs = self._readings.of([c.example for c in candidates])
        nearest = max(c.similarity for c in candidates)
        answers = [c.answer_vector for c in candidates if c.answer_vector is not None]
        cosines = iter(_cosines(request.vector, answers))
        request_length = math.log1p(asked.length)
        flat = array("f")
        for place, (candidate, pair) in enumerate(zip(candidates, pairs, strict=True)):
            example, known = candidate.example, candidate.answer_vector is not None
            compared = _compared(asked, pair.question)
            gain = decayed(example.gain, example.gain_at_s, now_s) if example.gain else 0.0
            judged = example.quality_count
            flat.extend(
                (
                    candidate.similarity,
                    next(cosines) if known else 0.0,
                    known,
                    *compared,
                    _share(asked.rare, pair.answer_words, asked.rare_weight) if asked.rare else 0.0,
                    pair.spelled,
                    pair.spelled * compared[0],
                    request_length,
                    pair.question_length,
                    pair.answer_length,
                    example.quality_sum / judged if judged else 0.5,
                    judged > 0,
                    math.log1p(example.uses) if example.uses else 0.0,
                    gain / (1.0 + abs(gain)),
                    math.log1p(max(0.0, now_s - example.created_at_s) / 86400.0),
                    example.kind == "demonstration",
                    example.flagged,
                    example.source_engine == request.reference_engine,
                    math.log1p(example.merged) if example.merged else 0.0,
                    1.0 / (1 + place),
                    nearest - candidate.similarity,
                    request.relative_price,
                )
            )
        rows = np.frombuffer(flat, np.float32).reshape(len(candidates), len(NAMES))
        overlap = rows[:, _OVERLAP]
        np.subtract(overlap.max(), overlap, out=overlap)
        # A vector or a clock gone wrong must not become a row of NaN that is logged and trained on.
        return rows if np.isfinite(rows).all() else np.nan_to_num(rows, posinf=0.0, neginf=0.0)


def _cosines(vector: Vector, others: list[Vector]) -> list[float]:
    if not others:
        return []
    found: list[float] = (np.concatenate(others).reshape(len(others), -1) @ vector).tolist()
    return found


def _compared(asked: Text, other: Text) -> tuple[float, ...]:
    """From "request_covered" to "asks_alike"; "overlap_lost" as the overlap itself."""
    mine, theirs, weights = asked.rare, other.rare, asked.weights
    words, their_words = asked.words, other.words
    shared = rare_shared = common_shared = 0.0
    for word in words & their_words:
        weight = weights[word]
        shared += weight
        if word in mine:
            rare_shared += mine[word]
        else:
            common_shared += weight
    mine_only = max(0.0, asked.rare_weight - rare_shared)
    theirs_only = max(0.0, other.rare_weight - rare_shared)
    rarest_mine = rarest_theirs = 0.0
    for word, excess in mine.items():
        if word not in their_words:
            rarest_mine = excess
            break
    for word, excess in theirs.items():
        if word not in words:
            rarest_theirs = excess
            break
    covered = rare_shared / asked.rare_weight if asked.rare_weight else 1.0
    covers = rare_shared / other.rare_weight if other.rare_weight else 1.0
    turn_covered, turn_covers = covered, covers
    if asked.turn is not mine or other.turn is not theirs:
        turn_covered = _share(asked.turn, other.turn_words, asked.turn_weight)
        turn_covers = _share(other.turn, words, other.turn_weight)
    numbers = bool(asked.numbers) + bool(other.numbers)
    same_numbers = asked.numbers == other.numbers
    stranger = not asked.names <= other.every_word
    strange = not other.names <= asked.every_word
    return (
        shared / asked.weight if asked.weight else 0.0,
        shared / other.weight if other.weight else 0.0,
        covered,
        covers,
        turn_covered,
        turn_covers,
        common_shared / asked.common_weight if asked.common_weight else 1.0,
        common_shared / other.common_weight if other.common_weight else 1.0,
        covered * covers,
        rare_shared / (1.0 + rare_shared),
        mine_only / (1.0 + mine_only),
        theirs_only / (1.0 + theirs_only),
        rarest_mine,
        rarest_theirs,
        numbers == 2 and same_numbers,
        numbers == 2 and not same_numbers,
        numbers == 1,
        not same_numbers or asked.machine != other.machine or stranger or strange,
        stranger and strange,
        asked.asks == other.asks,
    )


def _share(rare: dict[str, float], words: frozenset[str], weight: float) -> float:
    return sum([excess for word, excess in rare.items() if word in words]) / weight if weight else 1.0
