from __future__ import annotations

import pytest

from learning.reuse.equivalence import normalised, same_text


@pytest.mark.parametrize(
    ("remembered", "fresh"),
    [
        ("Paris.", "paris"),
        ("Yes,  it is.", "yes it is"),
        ("**Paris**", "Paris"),
        ("- one\n- two", "one\ntwo"),
        ("ﬁne", "fine"),
    ],
)
def test_the_same_words_in_another_dress_are_not_called_wrong(remembered: str, fresh: str) -> None:
    assert same_text("?", remembered, fresh) is True


@pytest.mark.parametrize(
    ("remembered", "fresh"),
    [
        ("5", "-5"),
        ("1.5", "15"),
        ("50 %", "50"),
        ("x < y", "x > y"),
        ("Yes, it is", "No, it is not"),
        ("$5", "€5"),
        ("Paris is the capital", "The capital is Paris"),
    ],
)
def test_what_may_mean_something_else_is_never_called_the_same(remembered: str, fresh: str) -> None:
    assert same_text("?", remembered, fresh) is False


def test_empty_answers_are_never_right() -> None:
    assert same_text("?", "", "") is False
    assert same_text("?", " .", "...") is False


def test_spacing_never_remains() -> None:
    assert normalised("  a \n\t b  ") == "a b"
