"""The named scalars by which the scorer knows a request and an example: one function, for serving and for training alike.

What is computed here is logged with the decision and trained on as it was logged, so that a model is fed at work what it was
fed in training. Whoever changes what a scalar means raises VERSION: models of another version are refused.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log1p
from typing import TYPE_CHECKING

import numpy as np

from router import unlisted_words
from router.plan import Candidate
from router.rarity import Rarity
from router.scorer_reading import ROWS, Pair, Readings, Text, read, word_keys
from store.accounting import decayed
from store.records import Vector

if TYPE_CHECKING:
    import numpy.typing as npt

VERSION = "4"

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
    *unlisted_words.NAMES,
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

PLACE = {name: i for i, name in enumerate(NAMES)}
"""Column by name."""

_OVERLAP = NAMES.index("overlap_lost")
_TURN = ROWS.index("turn_excess")
_MET = [PLACE[name] for name in ("request_rare_covered", "unlisted_covered", "unlisted_none")]
_RARE_MET, _UNLISTED_MET = 0.25, 0.5
"""What an example must cover of the request's rare, and of its unlisted words, to be about the same thing."""
_NEAR, _TEXTS = PLACE["request_covered"], PLACE["request_length"]
# A row in three parts: what is near, what the texts have in common, and the rest.
_PACK_NEAR = struct.Struct(f"{_NEAR}f").pack
_PACK_TEXTS = struct.Struct(f"{_TEXTS - _NEAR}f").pack
_PACK_REST = struct.Struct(f"{len(NAMES) - _TEXTS}f").pack


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
        """`cache_entries`: examples whose texts are kept read, some five kilobytes each."""
        self._readings = Readings(rarity, cache_entries)

    def rows(
        self,
        request: RequestView,
        candidates: Sequence[Candidate],
        now_s: float,
        answers: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Shape (candidates, len(NAMES)), all finite. `candidates` as the retriever gave them, nearest first.

        `answers`, where somebody has them: the candidates' answer vectors as `vector_rows` gives them.
        """
        if not candidates:
            return np.zeros((0, len(NAMES)), np.float32)
        if answers is None:
            answers = vector_rows([c.answer_vector for c in candidates], len(request.vector))
        asked = read(request.text, self._readings.rarity)
        pairs = self._readings.of([c.example for c in candidates])
        cosines = (answers @ request.vector).tolist()
        nearest = max([c.similarity for c in candidates])
        rare, request_length = tuple(asked.rare.items()), log1p(asked.length)
        unlisted, alike = unlisted_words.unlisted(rare), unlisted_words.Alike()
        reference, relative_price = request.reference_engine, request.relative_price
        packed: list[bytes] = []
        # Number by number: a loop runs faster than array operations of which each is called but once.
        for candidate, pair, sums, cosine in zip(
            candidates, pairs, _said_by_both(asked, pairs), cosines, strict=True
        ):
            example, similarity = candidate.example, candidate.similarity
            age_s, judged = now_s - example.created_at_s, example.quality_count
            gain = decayed(example.gain, example.gain_at_s, now_s) if example.gain else 0.0
            packed += (
                _PACK_NEAR(similarity, cosine, candidate.answer_vector is not None),
                _PACK_TEXTS(
                    *_compared(asked, rare, pair, sums),
                    *unlisted_words.compared(unlisted, unlisted_words.unlisted(pair.rare), alike),
                ),
                _PACK_REST(
                    request_length,
                    pair.question_length,
                    pair.answer_length,
                    example.quality_sum / judged if judged else 0.5,
                    judged > 0,
                    log1p(example.uses) if example.uses else 0.0,
                    gain / (1.0 + abs(gain)),
                    log1p(age_s / 86400.0) if age_s > 0.0 else 0.0,
                    example.kind == "demonstration",
                    example.flagged,
                    example.source_engine == reference,
                    log1p(example.merged) if example.merged else 0.0,
                    1.0 / (1 + len(packed) // 3),
                    nearest - similarity,
                    relative_price,
                ),
            )
        rows = np.frombuffer(bytearray().join(packed), np.float32).reshape(len(candidates), len(NAMES))
        overlap = rows[:, _OVERLAP]
        np.subtract(overlap.max(), overlap, out=overlap)
        # A vector or a clock gone wrong must not become a row of NaN that is logged and trained on.
        return rows if np.isfinite(rows).all() else np.nan_to_num(rows, posinf=0.0, neginf=0.0)


def names_met(rows: npt.NDArray[np.float32]) -> bool:
    """Whether any candidate mentions, up to a slip of the finger, what the request names; also where it names nothing.

    `rows` as `Features.rows` gives them.
    """
    for covered, unlisted, unlisted_none in rows[:, _MET].tolist():
        if covered >= _RARE_MET or (not unlisted_none and unlisted >= _UNLISTED_MET):
            return True
    return False


def vector_rows(vectors: Sequence[Vector | None], dimensions: int) -> npt.NDArray[np.float32]:
    """One below the other, as (vectors, dimensions); zeros for None. Raises ValueError for vectors of another size."""
    unknown = np.zeros(dimensions, np.float32)
    flat = np.concatenate([unknown if vector is None else vector for vector in vectors])
    return flat.astype(np.float32, copy=False).reshape(len(vectors), dimensions)


def _said_by_both(asked: Text, pairs: Sequence[Pair]) -> list[tuple[float, ...]]:
    """For each pair, summed over the words that the request says too: what ROWS names after the key, and then turn_excess
    of those that its last turn says."""
    packed = np.concatenate([pair.packed for pair in pairs], axis=1)
    starts = list(itertools.accumulate([pair.packed.shape[1] for pair in pairs[:-1]], initial=0))
    keys = packed[0].view(np.int64)
    summed = np.add.reduceat(packed[1:] * _among(keys, asked.words), starts, axis=1)
    sums: list[list[float]] = summed.tolist()
    if asked.turn is asked.rare:
        sums.append(sums[_TURN - 1])
    else:
        # What the request's last turn says; an example's turn, though, may be met by any turn of the request.
        turned = packed[_TURN] * _among(keys, asked.turn)
        sums.append(np.add.reduceat(turned, starts).tolist())
    return list(zip(*sums, strict=True))


def _among(keys: npt.NDArray[np.int64], words: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Which keys (router.scorer_reading.word_keys) are of one of `words`."""
    wanted = word_keys(words)
    if not len(wanted):
        return np.zeros(len(keys), bool)
    wanted.sort()
    found: npt.NDArray[np.bool_] = wanted.take(wanted.searchsorted(keys), mode="clip") == keys
    return found


def _compared(
    asked: Text, rare: Sequence[tuple[str, float]], pair: Pair, sums: Sequence[float]
) -> tuple[float, ...]:
    """From "request_covered" to "spelled_alike"; "overlap_lost" as the overlap itself."""
    shared, rare_shared, turn_met, common_shared, in_answer, turn_shared = sums
    other = pair.question
    rare_weight, other_rare_weight = asked.rare_weight, other.rare_weight
    mine_only, theirs_only = rare_weight - rare_shared, other_rare_weight - rare_shared
    # Sums of the same numbers in another order: a hair below nothing is nothing.
    mine_only = mine_only if mine_only > 0.0 else 0.0
    theirs_only = theirs_only if theirs_only > 0.0 else 0.0
    words, their_words = asked.words, other.words
    rarest_mine = rarest_theirs = 0.0
    for word, excess in rare:
        if word not in their_words:
            rarest_mine = excess
            break
    for word, excess in pair.rare:
        if word not in words:
            rarest_theirs = excess
            break
    covered_words = shared / asked.weight if asked.weight else 0.0
    covered = rare_shared / rare_weight if rare_weight else 1.0
    covers = rare_shared / other_rare_weight if other_rare_weight else 1.0
    numbers, their_numbers = asked.numbers, other.numbers
    same_numbers = numbers == their_numbers
    stranger = not asked.names <= other.every_word
    strange = not other.names <= asked.every_word
    return (
        covered_words,
        shared / other.weight if other.weight else 0.0,
        covered,
        covers,
        turn_shared / asked.turn_weight if asked.turn_weight else 1.0,
        turn_met / other.turn_weight if other.turn_weight else 1.0,
        common_shared / asked.common_weight if asked.common_weight else 1.0,
        common_shared / other.common_weight if other.common_weight else 1.0,
        covered * covers,
        rare_shared / (1.0 + rare_shared),
        mine_only / (1.0 + mine_only),
        theirs_only / (1.0 + theirs_only),
        rarest_mine,
        rarest_theirs,
        same_numbers and numbers != (),
        not same_numbers and numbers != () and their_numbers != (),
        not same_numbers and (numbers == () or their_numbers == ()),
        not same_numbers or asked.machine != other.machine or stranger or strange,
        stranger and strange,
        asked.asks == other.asks,
        in_answer / rare_weight if rare_weight else 0.0,
        pair.spelled,
        pair.spelled * covered_words,
    )
