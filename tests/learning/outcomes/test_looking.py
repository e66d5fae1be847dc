"""Short texts are looked at where they are, long ones on another thread, and what is raised comes through."""

import threading

import pytest

from learning.outcomes.looking import SHORT, looked_at


async def test_only_long_texts_change_threads() -> None:
    here = threading.get_ident()
    assert await looked_at(SHORT, threading.get_ident) == here
    assert await looked_at(SHORT + 1, threading.get_ident) != here


@pytest.mark.parametrize("size", [1, SHORT + 1])
async def test_what_is_raised_comes_through(size: int) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await looked_at(size, int, "x")
