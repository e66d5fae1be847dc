"""Makes lessons for a tenant's scorer from its stored examples: what its own answers agree on (see bank_lessons).

Where the embedder's vocabulary is missing there are no such lessons, and the scorer learns from outcomes alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import structlog

from learning.training.scorer.bank_lessons import MOST_EXAMPLES, Lesson, lessons
from router.embedding.model import EmbeddingModelMissing, locate
from router.examples.features import PLACE, VERSION, Features, RequestView
from router.examples.rarity import Rarity
from router.plan import Candidate
from store import Store
from store.records import ChoiceRecord, Example

if TYPE_CHECKING:
    from learning.training.scorer.rows import VectorsOf

log = structlog.get_logger(__name__)

LessonsOf = Callable[[str, ChoiceRecord], list[Lesson]]
"""Called with a tenant and its latest logged request, whose engines and embedding version the lessons are made for."""
_PAGE = 500


def lessons_of(store: Store, embedder: str, vectors_of: Callable[[str, str], VectorsOf]) -> LessonsOf:
    """A function that makes a tenant's lessons.

    `embedder`: source of its weights and vocabulary (router.embedding.model.locate). `vectors_of`: by tenant and
    embedding version.
    """

    @cache
    def rarity() -> Rarity:
        return Rarity.read(locate(embedder) / "tokenizer.json")

    def found(tenant: str, latest: ChoiceRecord) -> list[Lesson]:
        try:
            features = Features(rarity(), MOST_EXAMPLES)
        except EmbeddingModelMissing as missing:
            log.warning("bank_teaches_nothing", tenant=tenant, error=missing)
            return []
        bank = _bank(store, tenant, vectors_of(tenant, latest.embedding_version))
        reference, price = _reference(latest), _relative_price(latest)

        def asked(candidate: Candidate) -> RequestView:
            assert candidate.vector is not None, "lessons skip examples without a vector"
            return RequestView(candidate.example.question, candidate.vector, reference, price)

        return lessons(bank, features, asked)

    return found


def _bank(store: Store, tenant: str, vectors: VectorsOf) -> list[Candidate]:
    """The latest of the tenant's examples that may be served and are not flagged as contradicted."""
    latest: deque[Example] = deque(maxlen=MOST_EXAMPLES)
    after_id, now_s = 0, time.time()
    while page := store.examples.page(tenant, after_id=after_id, limit=_PAGE):
        after_id = page[-1].id
        latest.extend(e for e in page if not e.flagged and e.served_from_s <= now_s)
    found = []
    known = vectors([example.id for example in latest])
    for example in latest:
        if example.id in known:
            question, answer = known[example.id]
            found.append(Candidate(example, 0.0, question, answer))
    return found


def _reference(latest: ChoiceRecord) -> str:
    return str(latest.actions[-1]["engine"]) if latest.actions else ""


def _relative_price(latest: ChoiceRecord) -> float:
    """The relative price that the scorer was given when the request was served."""
    logged = latest.candidate_features
    if latest.scorer_features_version != VERSION or logged is None or not len(logged):
        return 1.0
    return float(logged[0][PLACE["relative_price"]])
