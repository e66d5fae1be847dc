"""Makes lessons from a bank alone, without outcomes: how much of what a remembered request needed do its candidates say.

Of every remembered request the right answer is known, so the worth of each of its candidates is the share of words that
both answers have. Outcomes are few and of whole sets; these are many and of single examples.
"""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import structlog

from router.embedding.model import EmbeddingModelMissing, locate
from router.embedding.retriever import BY_WORDS, NEIGHBOURS
from router.examples.features import Features, RequestView
from router.examples.fusion import best_fused
from router.examples.rarity import Rarity
from router.plan import Candidate
from store import Store
from store.records import ChoiceRecord

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

log = structlog.get_logger(__name__)

CANDIDATES = 20
MOST_EXAMPLES, MOST_REQUESTS = 6000, 1500
"""Latest examples that are read, and how many of them are asked as requests."""
_MOST_WORDS = 8_000_000
"""The words of the examples' texts: a training reads each of them many times, and none is to be read twice."""
_PAGE = 500
_TOKEN = re.compile(r"\w+|[^\w\s]")

ByWords = Callable[[Candidate], list[tuple[int, float]]]
"""From an example to (id, BM25) of those whose questions share words with its own."""


@dataclass(frozen=True, slots=True)
class Lessons:
    """Candidates of remembered requests with their worth."""

    features: Floats
    """(candidates, router.examples.features.NAMES)"""
    overlap: Floats
    """(candidates,): share of words that the answers have in common, 0 to 1; 1 only for the same answer."""


def overlap(one: str, other: str) -> float:
    """Share of words and signs that two answers have in common (F1), 0 to 1."""
    mine, theirs = Counter(_TOKEN.findall(one.lower())), Counter(_TOKEN.findall(other.lower()))
    if mine == theirs:
        return float(one.split() == other.split() or bool(mine))
    return 2.0 * (mine & theirs).total() / (mine.total() + theirs.total())


def lessons(
    bank: Sequence[Candidate], features: Features, by_words: ByWords, reference: str = "", *, seed: int = 0
) -> Lessons:
    """Lessons from examples with their vectors. Takes some milliseconds per request."""
    known = [c for c in bank if c.vector is not None]
    drawn = np.random.default_rng(seed).permutation(len(known))[:MOST_REQUESTS]
    vectors = np.stack([c.vector for c in known if c.vector is not None]) if known else np.zeros((0, 1))
    place = {c.example.id: n for n, c in enumerate(known)}
    scopes = np.array([c.example.scope for c in known])
    questions = np.array([c.example.question for c in known], dtype=object)
    rows, worths = [], []
    for i in sorted(drawn.tolist()):
        asked, vector = known[i], vectors[i]
        similarities = vectors @ vector
        # Whoever asks the same again is answered from memory: what helps with something new is to be learnt.
        others = (scopes == scopes[i]) & (questions != asked.example.question)
        near = np.argsort(np.where(others, -similarities, np.inf), kind="stable")[:NEIGHBOURS]
        words = {place[id]: score for id, score in by_words(asked) if id in place}
        found = [n for n in dict.fromkeys([*near.tolist(), *words]) if others[n]]
        found = sorted(found, key=lambda n: -similarities[n])
        shown = best_fused(
            [
                Candidate(
                    known[n].example,
                    float(similarities[n]),
                    answer_vector=known[n].answer_vector,
                    words=words.get(n, 0.0),
                )
                for n in found
            ],
            CANDIDATES,
        )
        request = RequestView(asked.example.embedded_text or asked.example.question, vector, reference)
        rows.append(features.rows(request, shown, asked.example.created_at_s))
        worths += [overlap(asked.example.answer, c.example.answer) for c in shown]
    empty = features.rows(RequestView("", np.zeros(1, np.float32)), [], 0.0)
    return Lessons(np.concatenate([empty, *rows]), np.array(worths, np.float32))


LessonsOf = Callable[[str, ChoiceRecord], Lessons | None]
"""Called with a tenant and its latest logged request, whose reference and embedding version the lessons are made for."""


def lessons_of(store: Store, embedder: str, answer_version: Callable[[str], str]) -> LessonsOf:
    """A function that makes a tenant's lessons, from the latest examples that may be served and are not contradicted.

    `embedder`: source of its vocabulary (router.embedding.model.locate); where it is missing there are no lessons.
    `answer_version`: by embedding version, that of the answers' vectors; "" for none.
    """

    @cache
    def rarity() -> Rarity:
        return Rarity.read(locate(embedder) / "tokenizer.json")

    def found(tenant: str, latest: ChoiceRecord) -> Lessons | None:
        try:
            telling = rarity().telling
        except EmbeddingModelMissing as missing:
            log.warning("bank_teaches_nothing", tenant=tenant, error=missing)
            return None

        def by_words(asked: Candidate) -> list[tuple[int, float]]:
            example = asked.example
            return store.examples.search.matching(tenant, example.scope, telling(example.question), BY_WORDS)

        version = latest.embedding_version
        bank = _bank(store, tenant, version, answer_version(version))
        reference = str(latest.actions[-1]["engine"]) if latest.actions else ""
        return lessons(bank, Features(rarity(), 2 * MOST_EXAMPLES, _MOST_WORDS), by_words, reference)

    return found


def _bank(store: Store, tenant: str, embedding_version: str, answer_version: str) -> list[Candidate]:
    latest: deque[Candidate] = deque(maxlen=MOST_EXAMPLES)
    vectors = store.examples.candidate_vectors(
        question_version=embedding_version, answer_version=answer_version
    )
    after_id, now_s = 0, time.time()
    while page := store.examples.page(tenant, after_id=after_id, limit=_PAGE):
        after_id = page[-1].id
        pairs = vectors.pairs(tenant, [example.id for example in page])
        latest.extend(
            Candidate(e, 0.0, *pairs[e.id])
            for e in page
            if e.id in pairs and not e.flagged and e.served_from_s <= now_s
        )
    return list(latest)
