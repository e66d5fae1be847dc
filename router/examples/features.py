"""Computes the named features of a request and an example that the scorer uses, the same for serving and for training.

The computed features are logged with the decision and trained on as logged, so a model sees in serving what it saw in
training. A change of what a feature means must raise VERSION: models of another version are refused.
"""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log1p
from typing import TYPE_CHECKING

import numpy as np

from router.examples import comparison as scorer_comparison
from router.examples.comparison import in_common
from router.examples.rarity import Rarity
from router.examples.reading import QUESTION, Pair, Readings, Text, read
from router.examples.slips import kind_of_slip, swapped_or_doubled
from router.plan import Candidate
from store.examples.accounting import decayed
from store.records import Example, Vector

if TYPE_CHECKING:
    import numpy.typing as npt

VERSION = "9"

NAMES: tuple[str, ...] = (
    "similarity",  # cosine of the two questions
    "answer_similarity",  # cosine of the request and the example's answer; 0 where that vector is unknown
    "answer_known",  # 1 where it is known
    *scorer_comparison.NAMES,
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

_OVERLAP, _ASKING, _FORM = PLACE["overlap_lost"], PLACE["asking_covered"], PLACE["form_asked"]
_KINDS = PLACE["name_shorter"]
_MET = [
    PLACE[name] for name in ("telling_covered", "request_rare_covered", "unlisted_covered", "unlisted_none")
]
_SPELLED, _TELLING, _JOINS_MORE = PLACE["answer_spelled"], PLACE["telling_covered"], PLACE["joins_more"]
RULE_HELPS_MOST, HALF_HELPS_MOST = 0.6, 0.5
"""Largest share of errors that an example may mend which spells a code of another name, or answers one of two questions."""
_TELLING_MET, _RARE_MET, _SPELLED_MET = 0.5, 0.25, 0.65
"""Share of the request's telling words that an example must cover, exactly or by spelling, to be about the same thing; or of
its rare words, where it has no telling ones."""
_TEXTS, _REST = PLACE["request_covered"], PLACE["request_length"]
# A row has three parts: the similarities, what the texts have in common (packed by comparison), and the rest.
_PACK_NEAR = struct.Struct(f"{_TEXTS}f").pack
_PACK_REST = struct.Struct(f"{len(NAMES) - _REST}f").pack


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request as the scorer sees it."""

    text: str
    """The embedded text: router.digest.question."""
    vector: Vector
    """Unit length, (dimensions,)."""
    reference_engine: str = ""
    """The served model's largest engine."""
    relative_price: float = 1.0
    """Price of the engine to be helped as a share of the reference's, 0..1."""


class Features:
    """Computes the features. Thread-safe; caching what was read of examples never changes a result."""

    version = VERSION
    names = NAMES

    def __init__(self, rarity: Rarity, cache_entries: int = 5_000) -> None:
        """`cache_entries`: number of examples whose read texts are cached, at most twice as many, of about 3 KB each."""
        self._readings = Readings(rarity, cache_entries)

    def read(self, text: str) -> Text:
        """Reads a text as the features need it."""
        return read(text, self._readings.rarity)

    def rows(
        self,
        request: RequestView,
        candidates: Sequence[Candidate],
        now_s: float,
        answers: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray[np.float32]:
        """One row per candidate, shape (candidates, len(NAMES)), all finite. `candidates` are sorted nearest first.

        `answers`: the candidates' answer embeddings as `vector_rows` gives them, if the caller has them.
        """
        if not candidates:
            return np.zeros((0, len(NAMES)), np.float32)
        if answers is None:
            answers = vector_rows([c.answer_vector for c in candidates], len(request.vector))
        asked = self.read(request.text)
        pairs = self._readings.of([c.example for c in candidates])
        names = _names_slipped(asked, pairs) if asked.unlisted else {}
        as_written = asked, pairs
        resembled: frozenset[str] = frozenset()
        slipped = bool(asked.slips) or any(pair.slips for pair in pairs)
        if names or slipped:
            asked, pairs, resembled = self._mended(
                request.text, asked, [c.example for c in candidates], pairs, names
            )
        cosines = (answers @ request.vector).tolist()
        nearest = max([c.similarity for c in candidates])
        request_length = log1p(asked.length)
        reference, relative_price = request.reference_engine, request.relative_price
        packed: list[bytes] = []
        # A loop over numbers is faster here than array operations that are called once each.
        for candidate, pair, shared, cosine in zip(
            candidates, pairs, in_common(asked, pairs, resembled), cosines, strict=True
        ):
            example, similarity = candidate.example, candidate.similarity
            age_s, judged = now_s - example.created_at_s, example.quality_count
            gain = decayed(example.gain, example.gain_at_s, now_s) if example.gain else 0.0
            packed += (
                _PACK_NEAR(similarity, cosine, candidate.answer_vector is not None),
                shared,
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
        if any(pair.forms for pair in pairs):
            _by_form(rows, pairs)
        if slipped:
            _by_slips(rows, *as_written)
        overlap = rows[:, _OVERLAP]
        np.subtract(max(overlap.tolist()), overlap, out=overlap)
        # A wrong embedding or clock must not become a row of NaN that is logged and trained on.
        flat = rows.ravel()
        return rows if isfinite(flat.dot(flat)) else np.nan_to_num(rows, posinf=0.0, neginf=0.0)

    def _mended(
        self,
        text: str,
        asked: Text,
        examples: Sequence[Example],
        pairs: list[Pair],
        names: Mapping[int, Mapping[str, str]],
    ) -> tuple[Text, list[Pair], frozenset[str]]:
        """The readings with typing slips replaced, and listed words of the request that resemble names.

        A word that more than one of the texts says is a name and not a slip. `names`: as `_names_slipped` gives them.
        """
        slips = [asked.slips, *[pair.slips for pair in pairs if pair.slips]]
        by = Counter(itertools.chain(*slips))
        meant: dict[str, str] = {}
        for some in slips:
            meant.update(some)

        def slipped(slips: Iterable[str]) -> dict[str, str]:
            return {word: meant[word] for word in slips if by[word] == 1}

        if mine := slipped(asked.slips):
            asked = read(text, self._readings.rarity, mine)
        mended = []
        for place, (example, pair) in enumerate(zip(examples, pairs, strict=True)):
            theirs = {**slipped(pair.slips), **names.get(place, {})} if pair.slips or names else None
            mended.append(self._readings.mended(example, theirs) if theirs else pair)
        resembled = [meant[word] for word, count in by.items() if count > 1]
        return asked, mended, asked.words.intersection(resembled)


def _names_slipped(asked: Text, pairs: Sequence[Pair]) -> dict[int, dict[str, str]]:
    """By candidate's place, names that equal one of the request's but for a swapped or doubled letter, and that name.

    Where several texts say either spelling, they are two names.
    """
    mine = {name.letters: name.word for name in asked.unlisted if name.letters}
    alike = [
        (n, name.word, word)
        for n, pair in enumerate(pairs)
        for name in pair.unlisted
        if (word := mine.get(name.letters)) is not None and swapped_or_doubled(word, name.word)
    ]
    found: dict[int, dict[str, str]] = {}
    for n, theirs, word in alike:
        if not any(word in pair.said for pair in pairs) or sum([theirs in pair.said for pair in pairs]) == 1:
            found.setdefault(n, {})[theirs] = word
    return found


def names_met(rows: npt.NDArray[np.float32]) -> bool:
    """Whether any candidate mentions what the request names, up to typing slips; also True where it names nothing.

    `rows` as `Features.rows` gives them.
    """
    met = rows[:, _MET].tolist()
    if all(telling == 1.0 for telling, _, _, _ in met):
        # All are covered, which is also what it says where there are none.
        return any(rare >= _RARE_MET for _, rare, _, _ in met)
    return any(
        telling >= _TELLING_MET or (spelled >= _SPELLED_MET and not none) for telling, _, spelled, none in met
    )


def most_help(rows: npt.NDArray[np.float32]) -> dict[int, float]:
    """By candidate's place, the largest share of errors that it may mend, for candidates without the whole answer.

    These show a rule or answer one of two questions: whatever a scorer predicts, others are worth sending beside them.
    `rows` as `Features.rows` gives them.
    """
    found = {}
    joins_more, spelled = rows[:, _JOINS_MORE].tolist(), rows[:, _SPELLED].tolist()
    if any(joins_more):
        found = {place: HALF_HELPS_MOST for place, half in enumerate(joins_more) if half}
    if any(spelled):
        telling = rows[:, _TELLING].tolist()
        found |= {
            place: RULE_HELPS_MOST
            for place, rule in enumerate(spelled)
            if rule > 0.0 and telling[place] < 1.0
        }
    return found


def vector_rows(vectors: Sequence[Vector | None], dimensions: int) -> npt.NDArray[np.float32]:
    """The vectors as rows, (vectors, dimensions); zeros for None. Raises ValueError for vectors of another size."""
    unknown = np.zeros(dimensions, np.float32)
    flat = np.concatenate([unknown if vector is None else vector for vector in vectors])
    return flat.astype(np.float32, copy=False).reshape(len(vectors), dimensions)


def _by_form(rows: npt.NDArray[np.float32], pairs: Sequence[Pair]) -> None:
    """Writes "form_asked" and "form_rivals": answers of one form answer one kind of question, however it is worded.

    Where several things are asked, it is unknown which of them a code answers: such answers count only for forms that no
    other has.
    """
    sure: dict[str, float] = {}
    unsure: dict[str, float] = {}
    for pair, covered in zip(pairs, rows[:, _ASKING].tolist(), strict=True):
        best = sure if len(pair.forms) == 1 and not pair.joins else unsure
        for form in pair.forms:
            best[form] = max(best.get(form, 0.0), covered)
    best = unsure | sure
    for row, pair in zip(rows, pairs, strict=True):
        if forms := pair.forms:
            row[_FORM : _FORM + 2] = (
                max([best[form] for form in forms]),
                max([covered for form, covered in best.items() if form not in forms], default=0.0),
            )


def _by_slips(rows: npt.NDArray[np.float32], asked: Text, pairs: Sequence[Pair]) -> None:
    """Writes "name_shorter" and the next three for slips of listed words, which may be names that resemble these.

    `asked` and `pairs` are the texts as written.
    """
    slips, words = asked.slips.items(), asked.words
    for place, pair in enumerate(pairs):
        if slips or pair.slips:
            said = pair.said
            kinds = [
                kind_of_slip(word, meant)
                for word, meant in slips
                if word not in said and said.get(meant, 0) & QUESTION
            ]
            kinds += [
                kind_of_slip(meant, word)
                for word, meant in pair.slips.items()
                if meant in words and word not in words and meant not in said
            ]
            for kind in kinds:
                if kind is not None:
                    rows[place, _KINDS + kind] = 1.0
