"""A folder that cannot be used ends a command with status 2 and a sentence, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.commands.data_folder import store_in
from understudy.commands.tenant_option import NoSuchTenant


def refused(data: Path, capsys: pytest.CaptureFixture[str], *, create: bool = False) -> str:
    with pytest.raises(SystemExit) as ended, store_in(data, create=create):
        raise AssertionError("the folder was used")
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_folder_that_is_no_data_folder_is_never_made_one_by_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no gateway's data folder" in refused(tmp_path, capsys)
    assert not list(tmp_path.iterdir())


def test_damaged_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "understudy.db").write_bytes(b"no database at all, but longer than its header" * 100)
    assert "cannot use the data folder" in refused(tmp_path, capsys)
    (tmp_path / "understudy.db").unlink()
    (tmp_path / "secret").write_bytes(b"short")
    assert "secret" in refused(tmp_path, capsys, create=True)


def test_an_unknown_tenant_is_an_error_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended, store_in(tmp_path, create=True) as store:
        raise NoSuchTenant("no such tenant here")
    assert ended.value.code == 2 and "no such tenant here" in capsys.readouterr().err
    assert store.closed
