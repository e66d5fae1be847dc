"""Packed request bodies: unpacked up to a limit, whichever way they are packed."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial

import brotli
import pytest
from backports import zstd
from multidict import CIMultiDict

from engines.errors import RequestError
from gateway.encodings import accept_only_readable, decoded

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "X-GZIP": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
    " br ": partial(brotli.compress, quality=5),
}
TEXT = b'{"model": "m"}' * 20_000


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_packed_body_is_unpacked(encoding: str) -> None:
    packed = PACKERS[encoding](TEXT)
    assert decoded(packed, encoding, len(TEXT)) == TEXT
    assert decoded(PACKERS[encoding](b""), encoding, 10) == b""


@pytest.mark.parametrize("encoding", PACKERS)
def test_more_than_the_limit_is_too_large_and_never_in_memory(encoding: str) -> None:
    bomb = PACKERS[encoding](bytes(20_000_000))
    tracemalloc.start()
    with pytest.raises(RequestError) as refused:
        decoded(bomb, encoding, 100_000)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (refused.value.status, held < 2_000_000) == (413, True)


@pytest.mark.parametrize("encoding", PACKERS)
def test_what_is_broken_cut_or_longer_is_refused(encoding: str) -> None:
    packed = PACKERS[encoding](TEXT)
    for wrong in (b"\x00no", packed[:-3], packed + b"more", b"", packed[:20] + b"\xff" * 20 + packed[40:]):
        with pytest.raises(RequestError) as refused:
            decoded(wrong, encoding, len(TEXT))
        assert refused.value.code == "invalid_encoding"


def test_a_window_that_no_one_has_to_hold_is_refused() -> None:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 27}
    packer = zstd.ZstdCompressor(options=options)
    packed = packer.compress(TEXT * 100) + packer.flush()
    with pytest.raises(RequestError):
        decoded(packed, "zstd", 100_000_000)


def test_another_encoding_is_left_alone() -> None:
    assert decoded(b"as it is", "compress", 1) == b"as it is"


def test_answers_are_asked_for_as_they_can_be_read() -> None:
    headers = CIMultiDict({"Accept-Encoding": "gzip, br;q=0.5, zstd, deflate"})
    accept_only_readable(headers)
    assert headers["Accept-Encoding"] == "gzip, deflate"
