"""Reads files of any size as numbered lines: plain or gzip, a path or standard input. Does not interpret them."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

_GZIP = b"\x1f\x8b"
MAX_LINE_BYTES = 16 * 2**20


class BadFile(Exception):
    """The file cannot be read any further; the text says why."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `text` is None when the line is longer than the limit."""

    number: int
    """Counted from 1."""
    text: bytes | None


def fingerprint(path: str) -> str:
    """SHA-256 of a file's bytes on disk; empty for standard input. Raises OSError."""
    if path == "-":
        return ""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def opened(path: str) -> Iterator[tuple[BinaryIO, Callable[[], int], int]]:
    """(uncompressed bytes, function that returns how many of the file's bytes were read, the file's size or 0). Raises
    OSError."""
    raw: BinaryIO = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115 - closed below
    try:
        counted = _Counted(raw)
        buffered = io.BufferedReader(counted, 256 * 1024)
        size_bytes = 0 if path == "-" else Path(path).stat().st_size
        plain: BinaryIO = buffered
        if buffered.peek(2)[:2] == _GZIP:
            plain = cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=buffered, mode="rb"), 256 * 1024))
        yield plain, lambda: counted.read_bytes, size_bytes
    finally:
        if path != "-":
            raw.close()


def lines(file: BinaryIO, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """Every line that is not empty. Raises BadFile when compressed bytes are damaged or truncated."""
    number = 0
    try:
        while text := file.readline(max_line_bytes + 1):
            number += 1
            if len(text) > max_line_bytes:
                while text and not text.endswith(b"\n"):
                    text = file.readline(max_line_bytes)
                yield Line(number, None)
            elif text.strip():
                yield Line(number, text)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadFile(f"after line {number} the compressed data is damaged or cut short: {error}") from error


class _Counted(io.RawIOBase):
    """Counts the bytes read, for a progress bar that is also right for compressed files."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._raw.read(len(view))
        view[: len(data)] = data
        self.read_bytes += len(data)
        return len(data)
