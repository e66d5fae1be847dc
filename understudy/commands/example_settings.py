"""How examples are treated and embedded, for a command that is given the gateway's configuration or does without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.commands.giving_up import give_up
from understudy.settings.file import ConfigError, load_config
from understudy.settings.memory import ExampleSettings

if TYPE_CHECKING:
    from router.embedding.embedder import Embedder


def example_settings(config: Path | None) -> ExampleSettings:
    """The file's memory.examples; the defaults without a file or a memory in it. A broken file ends the process."""
    if config is None:
        return ExampleSettings()
    try:
        memory = load_config(config).memory
    except ConfigError as error:
        give_up(str(error))
    return memory.examples if memory else ExampleSettings()


@contextmanager
def embedder_for(data: Path, settings: ExampleSettings) -> Iterator[Embedder]:
    """The embedder that a gateway on this data folder finds examples with. A missing model ends the process."""
    from router.embedding.model import EmbeddingModelMissing
    from understudy.setup.embedder import open_embedder

    try:
        opened = open_embedder(settings.embedding, data)
    except EmbeddingModelMissing as error:
        give_up(str(error))
    try:
        yield opened
    finally:
        opened.close()
