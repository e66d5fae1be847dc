"""From the settings to the bank of examples: the embedder, the rules of admission, and the store its endpoints work on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from learning.bank.example_store import ExampleStore
from router.embedding.embedder import Embedder
from store.admission import Admission, AdmissionSettings, ContributorLimits
from store.examples.contributors import Standings
from store.examples.rows import by_request
from store.records import Example
from understudy.settings.knobs import knobs_of
from understudy.settings.memory import MemorySettings

if TYPE_CHECKING:
    from store.sqlite.database import Database
    from understudy.memory import Memory

_FOLLOWED_WITHIN_S = 2.0


def admission(settings: MemorySettings) -> Admission:
    """The rules these settings describe, the same for served, given and imported pairs."""
    rules, advanced = settings.examples.admission, settings.advanced
    limits = knobs_of(
        ContributorLimits,
        advanced,
        max_examples=advanced.contributor_max_examples,
        max_per_hour=advanced.contributor_max_per_hour,
    )
    return Admission(
        knobs_of(
            AdmissionSettings,
            rules,
            advanced,
            engines=frozenset(rules.engines),
            public=frozenset(rules.public),
            contributors=limits,
        )
    )


def embedding_models(settings: MemorySettings, data_dir: Path) -> Path:
    """The folder of built embedding models."""
    return settings.advanced.embedding_cache_dir or data_dir / "models"


def open_embedder(settings: MemorySettings, data_dir: Path) -> Embedder:
    """Open it. Blocks, for seconds where the model must be built first. Raises EmbeddingModelMissing with its remedy.

    It loads onnxruntime, which must be imported before usearch: open it before a store.
    """
    return Embedder.open(
        settings.examples.embedding_model,
        embedding_models(settings, data_dir),
        deadline_ms=settings.advanced.embedding_deadline_ms,
    )


def example_store(memory: Memory, settings: MemorySettings) -> ExampleStore:
    """An example store over `memory`, which must have an embedder and indexes."""
    store = memory.store
    assert memory.embedder is not None and store.indexes is not None and store.follower is not None
    return ExampleStore(
        bank=store.examples,
        find=partial(_find, store.db),
        admission=admission(settings),
        embedder=memory.embedder,
        nearest=store.indexes.nearest,
        followed=partial(store.follower.wait_for, timeout_s=_FOLLOWED_WITHIN_S),
        standing=Standings(store.db).of,
        secret=store.secret,
    )


def _find(db: Database, tenant: str, request_id: str) -> Example | None:
    return by_request(db.read(), tenant, request_id)
