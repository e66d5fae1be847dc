"""From the settings to an open store, whichever database it is: for every process and command."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from store import Store
from understudy.settings.memory import MemorySettings


def open_store(settings: MemorySettings, **more: Any) -> Store:
    """Open what `settings` remember in; `more`: see Store.open, which says what is raised. Blocks."""
    assert settings.data_dir is not None, "understudy.processes.run gives every memory a folder"
    return Store.open(
        settings.data_dir,
        database_url=_text(settings.database_url),
        listen_url=_text(settings.listen_url),
        connections=settings.connections,
        deadline_s=settings.deadline_ms / 1000,
        stale_s=settings.stale_s,
        blobs_url=settings.blobs_url,
        index=settings.index,
        index_memory_bytes=int(settings.index_memory_mib * 2**20),
        **more,
    )


def _text(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()
