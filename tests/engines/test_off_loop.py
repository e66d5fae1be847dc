"""Small work is done at once; large work on another thread, and its errors come back."""

from __future__ import annotations

import threading

import pytest

from engines.off_loop import LARGE_BYTES, off_loop


async def test_only_what_is_large_leaves_the_loop() -> None:
    here = threading.get_ident()
    assert await off_loop(LARGE_BYTES, threading.get_ident) == here
    assert await off_loop(LARGE_BYTES + 1, threading.get_ident) != here


async def test_errors_come_back() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await off_loop(LARGE_BYTES + 1, int, "x")
