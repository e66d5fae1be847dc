from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest

from store.errors import BadSecretFile
from store.people.secret import derive, load_or_create_secret, tenant_id


def draw(folder: str) -> bytes:
    return load_or_create_secret(Path(folder))


@pytest.mark.slow
def test_processes_that_start_at_once_share_one_secret(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        secrets = pool.map(draw, [str(tmp_path / "data")] * 16, chunksize=1)

    assert len(set(secrets)) == 1
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["secret"]


def test_nobody_else_on_the_machine_can_read_the_secret(tmp_path: Path) -> None:
    secret = load_or_create_secret(tmp_path)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert len(secret) == 32
    assert load_or_create_secret(tmp_path) == secret


def test_two_installations_never_draw_the_same_secret(tmp_path: Path) -> None:
    assert load_or_create_secret(tmp_path / "a") != load_or_create_secret(tmp_path / "b")


def test_a_damaged_secret_is_not_replaced_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"cut short")
    with pytest.raises(BadSecretFile, match="9 bytes where 32 are right") as caught:
        load_or_create_secret(tmp_path)
    assert "cut short" not in str(caught.value)
    assert (tmp_path / "secret").read_bytes() == b"cut short"


def test_a_tenant_id_is_stable_short_hex_and_says_nothing_without_the_secret() -> None:
    first, other = tenant_id(b"a" * 32, "Bearer sk-1"), tenant_id(b"b" * 32, "Bearer sk-1")
    assert first == tenant_id(b"a" * 32, "Bearer sk-1")
    assert first != other
    assert len(first) == 32
    assert set(first) <= set("0123456789abcdef")


def test_one_text_has_different_names_for_different_purposes() -> None:
    assert derive(b"a" * 32, "x", "text") != derive(b"a" * 32, "y", "text")
    assert derive(b"a" * 32, "x", "\ud800") != derive(b"a" * 32, "x", "?")
