"""Opens the memory that a configuration names, or says why it cannot be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.cannot_start import CannotStart
from understudy.settings.config import Config
from understudy.settings.memory import MemorySettings

if TYPE_CHECKING:
    from understudy.memory import Memory


def opened(settings: MemorySettings, config: Config, *, chores: bool = True) -> Memory:
    """Open the memory. Blocks. Raises CannotStart.

    `chores`: this process is among those that keep it in order.
    """
    # A gateway without memory starts in a fraction of the time and space: nothing of it is even imported.
    from router.embedding.model import EmbeddingModelMissing
    from store.errors import StoreError
    from understudy.memory import Memory

    try:
        return Memory.open(
            settings, config.retention, scores=_scores(config), private=config.private, chores=chores
        )
    except (EmbeddingModelMissing, StoreError) as error:
        raise CannotStart(f"memory.data_dir {settings.data_dir}: {error}") from error
    except OSError as error:
        raise CannotStart(
            f"memory.data_dir {settings.data_dir}: {error}; name a folder that this user may write to (--data,"
            " or memory.data_dir)"
        ) from error


def _scores(config: Config) -> bool:
    """Tell if some policy scores examples, and wants their answers' vectors."""
    return any(model.policy == "in_context" for model in config.models.values())
