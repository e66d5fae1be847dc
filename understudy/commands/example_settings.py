"""How examples are treated and embedded, for a command that is given the gateway's configuration or does without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.commands.configured import config_in
from understudy.commands.giving_up import give_up
from understudy.settings.memory import MemorySettings

if TYPE_CHECKING:
    from router.embedding.embedder import Embedder


def example_settings(config: Path | None) -> MemorySettings:
    """The file's memory; the defaults without a file or a memory in it. A broken file ends the process."""
    if config is None:
        return MemorySettings()
    return config_in(config).memory or MemorySettings()


@contextmanager
def embedder_for(data: Path, settings: MemorySettings) -> Iterator[Embedder]:
    """The embedder that a gateway on this data folder finds examples with. A missing model ends the process."""
    from router.embedding.model import EmbeddingModelMissing
    from understudy.setup.examples import open_embedder

    try:
        opened = open_embedder(settings, data)
    except EmbeddingModelMissing as error:
        give_up(str(error))
    try:
        yield opened
    finally:
        opened.close()
