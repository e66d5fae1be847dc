"""JSON pointers, as RFC 6901 section 5 has them."""

from __future__ import annotations

import pytest

from engines.components.pointer import Missing, checked, described, pointed

DOCUMENT = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, "0": "zero"}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [("", DOCUMENT), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/m~0n", 8), ("/0", "zero")],
)
def test_what_it_names(pointer: str, value: object) -> None:
    assert pointed(DOCUMENT, checked(pointer)) == value


@pytest.mark.parametrize("pointer", ["/foo/2", "/foo/-", "/foo/01", "/foo/0/x", "/none", "/foo/²"])
def test_what_names_nothing_says_how_far_it_led(pointer: str) -> None:
    with pytest.raises(Missing, match="nothing at"):
        pointed(DOCUMENT, pointer)


@pytest.mark.parametrize("pointer", ["foo", "/~2", "/~"])
def test_what_is_no_pointer(pointer: str) -> None:
    with pytest.raises(ValueError, match="no JSON pointer"):
        checked(pointer)


def test_values_are_described_by_type_and_size_alone() -> None:
    told = [described(value) for value in (None, True, 1.5, "secret", [1], {}, {"b": 1, "a": 2})]
    assert told == [
        "null",
        "a boolean",
        "a number",
        "a text of 6 characters",
        "an array of 1",
        "an empty object",
        "an object with a, b",
    ]
