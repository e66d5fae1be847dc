"""Parameters of pages: read strictly, refused by name."""

from __future__ import annotations

import pytest

from admin.page import Asked, BadParameter, Viewer
from admin.roles import Role


def asked(**query: str) -> Asked:
    return Asked(Viewer("ann", Role.VIEWER), 0.0, {}, query)


def test_parameters_have_defaults_and_bounds() -> None:
    assert asked().choice("span", ("hour", "day"), "hour") == "hour"
    assert asked(n=" 7 ").whole("n", 1) == 7
    assert asked().number("n", None, least=0, most=1) is None


@pytest.mark.parametrize("value", ["x", "nan", "inf", "-1", "1.5", "9" * 30])
def test_a_number_that_is_none_is_refused_by_name(value: str) -> None:
    with pytest.raises(BadParameter, match=r"^n is "):
        asked(n=value).whole("n", 1, most=10)


def test_a_text_has_a_longest_length() -> None:
    with pytest.raises(BadParameter, match=r"^q has 2001"):
        asked(q="x" * 2001).text("q")
