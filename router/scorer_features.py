"""The named scalars by which the scorer knows a request and an example: one function, for serving and for training alike.

What is computed here is logged with the decision and trained on as it was logged, so that a model is fed at work what it was
fed in training. Whoever changes what a scalar means raises VERSION: models of another version are refused.
"""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log1p
from typing import TYPE_CHECKING

import numpy as np

from router import unlisted_words
from router.plan import Candidate
from router.rarity import Rarity
from router.scorer_reading import ANSWER, QUESTION, Pair, Readings, Text, read, spelled_by
from store.accounting import decayed
from store.records import Example, Vector

if TYPE_CHECKING:
    import numpy.typing as npt

VERSION = "7"

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
    "other_things",  # router.lexical_things.about_other_things
    "names_disagree",  # each names what the other does not
    "asks_alike",  # the same kinds of question word
    "request_in_answer",  # share of the request's words, weighted by excess rarity, that the answer says
    "answer_spelled",  # how far a code in the answer is spelled from the example's question: it shows a rule
    "spelled_alike",  # the same, times request_covered: a rule that the request may be asking for
    "spelled_again",  # how far it is spelled from the request as well: only then can it be what the request asks for
    "slips",  # words of either question that were read as others for being a slip of the finger, x / (1 + x)
    "slips_met",  # share of them whose word the other question says; 1 where there are none
    "telling_covered",  # share of the request's names and identifiers that the example's question says; 1 without any
    "telling_covers",  # and of the example's question, by the request
    "telling_lost",  # telling_covered, below the candidate that has most of it
    "joins_more",  # the request joins several things ("and", "both", "also") and the example's question does not
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
_MET = [
    PLACE[name] for name in ("telling_covered", "request_rare_covered", "unlisted_covered", "unlisted_none")
]
_TELLING_MET, _RARE_MET, _SPELLED_MET = 0.5, 0.25, 0.65
"""What an example must cover of the request's telling words, exactly or by spelling, to be about the same thing; or where
the request has none, of its rare words."""
_TEXTS, _UNLISTED, _REST = PLACE["request_covered"], PLACE[unlisted_words.NAMES[0]], PLACE["request_length"]
# A row in four parts: what is near, what the texts have in common, how alike they spell the rest, and all else.
_PACK_NEAR = struct.Struct(f"{_TEXTS}f").pack
_PACK_TEXTS = struct.Struct(f"{_UNLISTED - _TEXTS}f").pack
_PACK_UNLISTED = struct.Struct(f"{_REST - _UNLISTED}f").pack
_PACK_REST = struct.Struct(f"{len(NAMES) - _REST}f").pack


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

    def __init__(self, rarity: Rarity, cache_entries: int = 5_000) -> None:
        """`cache_entries`: so many examples' texts are kept read, at most twice as many, of some three kilobytes each."""
        self._readings = Readings(rarity, cache_entries)

    def read(self, text: str) -> Text:
        """A text as the scalars see it."""
        return read(text, self._readings.rarity)

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
        asked = self.read(request.text)
        pairs = self._readings.of([c.example for c in candidates])
        if asked.slips or any(pair.slips for pair in pairs):
            asked, pairs = self._mended(request.text, asked, [c.example for c in candidates], pairs)
        cosines = (answers @ request.vector).tolist()
        nearest = max([c.similarity for c in candidates])
        request_length = log1p(asked.length)
        reference, relative_price = request.reference_engine, request.relative_price
        packed: list[bytes] = []
        # Number by number: a loop runs faster than array operations of which each is called but once.
        for candidate, pair, in_common, cosine in zip(
            candidates, pairs, _in_common(asked, pairs), cosines, strict=True
        ):
            example, similarity = candidate.example, candidate.similarity
            age_s, judged = now_s - example.created_at_s, example.quality_count
            gain = decayed(example.gain, example.gain_at_s, now_s) if example.gain else 0.0
            packed += (
                _PACK_NEAR(similarity, cosine, candidate.answer_vector is not None),
                in_common,
                _PACK_REST(
                    request_length,
                    pair.question_length,
                    pair.answer_length,
                    example.quality_sum / judged if judged else 0.5,
                    judged > 0,
                    log1p(example.uses) if example.uses else 0.0,
                    gain / (1.0 + abs(gain)) if gain else 0.0,
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
        rows = np.frombuffer(bytearray(b"".join(packed)), np.float32).reshape(len(candidates), len(NAMES))
        overlap = rows[:, _OVERLAP]
        np.subtract(max(overlap.tolist()), overlap, out=overlap)
        # A vector or a clock gone wrong must not become a row of NaN that is logged and trained on.
        flat = rows.ravel()
        return rows if isfinite(flat.dot(flat)) else np.nan_to_num(rows, posinf=0.0, neginf=0.0)

    def _mended(
        self, text: str, asked: Text, examples: Sequence[Example], pairs: list[Pair]
    ) -> tuple[Text, list[Pair]]:
        """The readings with the words that were meant. What more than one of the texts says is a name and no slip."""
        by = Counter(itertools.chain(asked.slips, *[pair.slips for pair in pairs]))

        def slipped(slips: Mapping[str, str]) -> dict[str, str]:
            return {word: meant for word, meant in slips.items() if by[word] == 1}

        if mine := slipped(asked.slips):
            asked = read(text, self._readings.rarity, mine)
        mended = [
            self._readings.mended(example, theirs) if pair.slips and (theirs := slipped(pair.slips)) else pair
            for example, pair in zip(examples, pairs, strict=True)
        ]
        return asked, mended


def names_met(rows: npt.NDArray[np.float32]) -> bool:
    """Whether any candidate mentions, up to a slip of the finger, what the request names; also where it names nothing.

    `rows` as `Features.rows` gives them.
    """
    met = rows[:, _MET].tolist()
    if all(telling == 1.0 for telling, _, _, _ in met):
        # All are covered, which is also what it says where there are none.
        return any(rare >= _RARE_MET for _, rare, _, _ in met)
    return any(
        telling >= _TELLING_MET or (spelled >= _SPELLED_MET and not none) for telling, _, spelled, none in met
    )


def vector_rows(vectors: Sequence[Vector | None], dimensions: int) -> npt.NDArray[np.float32]:
    """One below the other, as (vectors, dimensions); zeros for None. Raises ValueError for vectors of another size."""
    unknown = np.zeros(dimensions, np.float32)
    flat = np.concatenate([unknown if vector is None else vector for vector in vectors])
    return flat.astype(np.float32, copy=False).reshape(len(vectors), dimensions)


def _telling_covered(telling: Sequence[str], pairs: Sequence[Pair]) -> list[float]:
    count = len(telling)
    if not count:
        return [1.0] * len(pairs)
    return [sum([pair.said.get(word, 0) & QUESTION for word in telling]) / count for pair in pairs]


def _in_common(asked: Text, pairs: Sequence[Pair]) -> list[bytes]:
    """From "request_covered" to "unlisted_none", packed, for each pair; "overlap_lost" as the overlap itself.

    Long, for what is looked up in here is looked up once, not for every candidate.
    """
    weights, words, turn = asked.weights, asked.words, dict(asked.turn)
    weight_of_all, rare_weight, turn_weight = asked.weight, asked.rare_weight, asked.turn_weight
    common_weight, one_turn = asked.common_weight, asked.turn is asked.rare
    numbers, machine, names, asks = asked.numbers, asked.machine, asked.names, asked.asks
    rare = [(word, excess, weights[word]) for word, excess in asked.rare.items()]
    common = [pair for pair in weights.items() if pair[0] not in asked.rare]
    unlisted, compared = unlisted_words.unlisted(asked.rare.items()), unlisted_words.compared
    my_meant, joins = asked.meant, asked.joins
    by_telling = _telling_covered(asked.telling, pairs)
    most_telling = max(by_telling)
    packed = []
    for pair, telling_covered in zip(pairs, by_telling, strict=True):
        said, their_numbers = pair.said, pair.numbers
        shared = rare_shared = common_shared = answered = rarest_mine = rarest_theirs = 0.0
        for word, excess, weight in rare:
            by = said.get(word, 0)
            if by & QUESTION:
                shared += weight
                rare_shared += excess
            elif not rarest_mine:
                rarest_mine = excess
            if by & ANSWER:
                answered += excess
        # Of an answer only rare words are kept: these can only be the question's.
        for word, weight in common:
            if word in said:
                common_shared += weight
        for word, excess in pair.rare:
            if word not in words:
                rarest_theirs = excess
                break
        shared += common_shared
        turn_shared = turn_met = rare_shared
        if not one_turn or pair.turn is not None:
            # What the request's last turn says; an example's turn, though, may be met by any turn of the request.
            their_turn = pair.rare if pair.turn is None else pair.turn
            turn_shared = sum([excess for word, excess in their_turn if word in turn])
            turn_met = sum([excess for word, excess in their_turn if word in words])
        weight, other_rare_weight, other_turn_weight = pair.weight, pair.rare_weight, pair.turn_weight
        other_common_weight = pair.common_weight
        mine_only, theirs_only = rare_weight - rare_shared, other_rare_weight - rare_shared
        covered_words = shared / weight_of_all if weight_of_all else 0.0
        covered = rare_shared / rare_weight if rare_weight else 1.0
        covers = rare_shared / other_rare_weight if other_rare_weight else 1.0
        same_numbers = numbers == their_numbers
        # A name is never a function word, and so one of the words if it is said at all.
        stranger, strange = False, not pair.names <= words
        for name in names:
            if name not in said or said[name] == ANSWER:
                stranger = True
                break
        slips, slips_met = len(my_meant) + len(pair.meant), 1.0
        if slips:
            met = sum([bool(said.get(word, 0) & QUESTION) for word in my_meant])
            slips_met = (met + sum([word in words for word in pair.meant])) / slips
        packed.append(
            _PACK_TEXTS(
                covered_words,
                shared / weight if weight else 0.0,
                covered,
                covers,
                turn_shared / turn_weight if turn_weight else 1.0,
                turn_met / other_turn_weight if other_turn_weight else 1.0,
                common_shared / common_weight if common_weight else 1.0,
                common_shared / other_common_weight if other_common_weight else 1.0,
                covered * covers,
                rare_shared / (1.0 + rare_shared),
                # Sums of the same numbers in another order: a hair below nothing is nothing.
                mine_only / (1.0 + mine_only) if mine_only > 0.0 else 0.0,
                theirs_only / (1.0 + theirs_only) if theirs_only > 0.0 else 0.0,
                rarest_mine,
                rarest_theirs,
                same_numbers and numbers != (),
                not same_numbers and numbers != () and their_numbers != (),
                not same_numbers and (numbers == () or their_numbers == ()),
                not same_numbers or machine != pair.machine or stranger or strange,
                stranger and strange,
                asks == pair.asks,
                answered / rare_weight if rare_weight else 0.0,
                pair.spelled,
                pair.spelled * covered_words,
                spelled_by(asked.words, pair.codes) if pair.codes else 0.0,
                slips / (1.0 + slips),
                slips_met,
                telling_covered,
                sum([word in words for word in pair.telling]) / len(pair.telling) if pair.telling else 1.0,
                most_telling - telling_covered,
                joins and not pair.joins,
            )
            + _PACK_UNLISTED(*compared(unlisted, pair.unlisted))
        )
    return packed
