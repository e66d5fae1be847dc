"""What an engine's error says, in words."""

from __future__ import annotations

import pytest

from engines.servers.standing import Since, Standing, words_of


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "No such model"}}', "No such model"),
        (b'[{"error": {"message": "Quota"}}]', "Quota"),
        (b'{"error": "overloaded"}', "overloaded"),
        (b'{"message": "gone"}', "gone"),
        (b"[]", "[]"),
        (b"upstream connect error", "upstream connect error"),
        (b"\xff" + b"x" * 5000, "\ufffd" + "x" * 1999),
    ],
)
def test_an_error_is_told_in_the_engines_own_words(body: bytes, words: str) -> None:
    assert words_of(body) == words


def test_a_state_is_as_old_as_its_first_sight() -> None:
    since = Since(Standing.UP, 1.0)
    assert since.now(Standing.UP) is since
    assert since.now(Standing.DOWN).at_s > 1.0 and not Standing.DOWN.answers
