"""A store is opened where the settings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import StoreError
from understudy.settings.memory import MemorySettings
from understudy.setup.store import open_store


def test_without_a_database_it_is_a_file_in_the_folder(tmp_path: Path) -> None:
    store = open_store(MemorySettings(data_dir=tmp_path))
    assert store.is_in(tmp_path)
    store.close()


def test_a_database_that_nobody_reaches_is_told_without_its_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    url = "postgresql://gateway:hunter2-secret@127.0.0.1:9/understudy?connect_timeout=2"
    settings = MemorySettings.model_validate({"data_dir": tmp_path, "database_url": url})
    with pytest.raises(StoreError) as refused:
        open_store(settings)
    assert "hunter2" not in str(refused.value)
