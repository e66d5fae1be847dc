"""Numbered lines out of files of any size, plain or compressed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from learning.bank.importing.lines import BadFile, Line, fingerprint, lines, opened


def read(path: Path, **limits: int) -> list[Line]:
    with opened(str(path)) as (file, _, _):
        return list(lines(file, **limits))


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_empty_lines_count_but_are_not_given(tmp_path: Path, compressed: bool) -> None:
    content = b'{"a": 1}\n\n  \n{"b": 2}'
    path = tmp_path / "any-name"
    path.write_bytes(gzip.compress(content) if compressed else content)
    assert read(path) == [Line(1, b'{"a": 1}\n'), Line(4, b'{"b": 2}')]


def test_a_line_too_long_is_passed_over_and_not_held(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"short\n" + b"x" * 100_000 + b"\nshort again\n")
    assert read(path, max_line_bytes=1000) == [Line(1, b"short\n"), Line(2, None), Line(3, b"short again\n")]


def test_a_compressed_file_cut_short_is_never_taken_for_whole(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(b"line\n" * 10_000)[:-20])
    with pytest.raises(BadFile, match="cut short"):
        read(path)


def test_progress_is_counted_in_the_files_own_bytes(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(b"line\n" * 10_000))
    with opened(str(path)) as (file, done, size_bytes):
        assert len(list(lines(file))) == 10_000
        assert done() == size_bytes == path.stat().st_size


def test_the_same_content_has_the_same_fingerprint_under_any_name(tmp_path: Path) -> None:
    one, two, other = tmp_path / "one", tmp_path / "two", tmp_path / "other"
    one.write_bytes(b"content")
    two.write_bytes(b"content")
    other.write_bytes(b"content.")
    assert fingerprint(str(one)) == fingerprint(str(two)) != fingerprint(str(other))
    assert fingerprint("-") == ""
