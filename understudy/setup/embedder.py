"""From the settings to the embedder. It loads onnxruntime, which must be imported before usearch: open it before a store."""

from __future__ import annotations

from pathlib import Path

from router.embedding.embedder import Embedder
from understudy.settings.memory import EmbeddingSettings


def open_embedder(settings: EmbeddingSettings, data_dir: Path) -> Embedder:
    """Open it. Blocks, for seconds where the model must be built first. Raises EmbeddingModelMissing with its remedy."""
    return Embedder.open(
        settings.source,
        settings.cache_dir or data_dir / "models",
        deadline_ms=settings.deadline_ms,
        max_characters=settings.max_characters,
    )
