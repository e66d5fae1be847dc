"""From the settings to how examples are treated: the rules of admission, and the embedder they are found with."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from router.embedding.embedder import Embedder
from router.embedding.model import users_models
from router.examples.rarity import Rarity
from router.standalone import Standalone
from store.admission import Admission, AdmissionSettings, ContributorLimits
from understudy.settings.knobs import knobs_of
from understudy.settings.memory import MemorySettings


def admission(settings: MemorySettings) -> Admission:
    """The rules these settings describe, the same for served, given and imported pairs."""
    rules, advanced = settings.examples.admission, settings.advanced
    limits = knobs_of(
        ContributorLimits,
        advanced,
        max_per_hour=advanced.contributor_max_per_hour,
    )
    return Admission(
        knobs_of(
            AdmissionSettings,
            rules,
            advanced,
            settings.examples,
            engines=frozenset(rules.engines),
            public=frozenset(rules.public),
            contributors=limits,
            follow_ups=settings.examples.follow_ups == "all",
        )
    )


def standalone(settings: MemorySettings, embedder: Embedder) -> Standalone | None:
    """The test of follow-ups; None where none is to pass it, or all need no test."""
    wanted = settings.examples.follow_ups == "standalone"
    return Standalone(embedder, _rarity(embedder.tokenizer_file)) if wanted else None


@lru_cache(maxsize=1)
def _rarity(tokenizer: Path) -> Rarity:
    return Rarity.read(tokenizer)


def embedding_models(settings: MemorySettings, data_dir: Path) -> Path:
    """The folder of built embedding models: the configured one, the user's where there is one, else one in `data_dir`.

    To build a model takes seconds; what one gateway of a user has built serves the next with another data folder.
    """
    if (configured := settings.advanced.embedding_cache_dir) is not None:
        return configured
    own = data_dir / "models"
    return own if own.is_dir() or not users_models().is_dir() else users_models()


def open_embedder(settings: MemorySettings, data_dir: Path) -> Embedder:
    """Open it. Blocks, for seconds where the model must be built first. Raises EmbeddingModelMissing with its remedy.

    It loads onnxruntime, which must be imported before usearch: open it before a store.
    """
    return Embedder.open(
        settings.examples.embedding_model,
        embedding_models(settings, data_dir),
        deadline_ms=settings.advanced.embedding_deadline_ms,
        device=settings.examples.device,
    )
