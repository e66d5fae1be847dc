"""Names that clients choose, and ids."""

from __future__ import annotations

import pytest

from workflows.names import is_id, new_id, valid_app, valid_name


@pytest.mark.parametrize("app", ["a", "game-42", "7", "a.b:c_D-" + "x" * 56])
def test_an_app(app: str) -> None:
    assert valid_app(app)


@pytest.mark.parametrize("app", ["", "x" * 65, "a b", "a/b", "é", "a\n", None, 7, "{{a}}"])
def test_no_app(app: object) -> None:
    assert not valid_app(app)


@pytest.mark.parametrize("name", ["a", "_x", "part.3", "x" * 64])
def test_a_name(name: str) -> None:
    assert valid_name(name)


@pytest.mark.parametrize("name", ["", "3a", "-a", "x" * 65, "a b", "a:b", "é", "a\n", None, ["a"]])
def test_no_name(name: object) -> None:
    assert not valid_name(name)


def test_ids_have_128_random_bits_and_are_told_from_names() -> None:
    ids = {new_id("var") for _ in range(1000)}
    assert len(ids) == 1000 and all(is_id("var", each) and len(each) == 36 for each in ids)
    assert is_id("run", new_id("run")) and not is_id("run", new_id("var"))
    assert not is_id("var", "var_x") and not is_id("var", None)
