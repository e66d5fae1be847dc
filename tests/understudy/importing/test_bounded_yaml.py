from __future__ import annotations

import pytest
import yaml

from understudy.importing.bounded_yaml import TooMuch, read_bounded

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {k: v}\n" + "\n".join(
    f"{name}: &{name} {{1: *{before}, 2: *{before}, 3: *{before}, 4: *{before}}}"
    for before, name in zip("abcdefghijkl", "bcdefghijklm", strict=True)
)


@pytest.mark.parametrize(
    "bomb",
    [
        LAUGHS,
        MERGES,
        "a: &a [*a]",
        "a: &a {b: &b [*a, *b]}",
        "[" * 5000 + "]" * 5000,
        "{a: " * 200 + "1" + "}" * 200,
        "- x\n" * 60_000,
        "a: " + "x" * 300_000,
    ],
    ids=["laughs", "mappings", "itself", "each other", "brackets", "nested", "values", "bytes"],
)
def test_a_bomb_is_refused_before_anything_of_it_is_built(bomb: str) -> None:
    with pytest.raises(TooMuch):
        read_bounded(bomb)


def test_aliases_within_bounds_stand_for_what_they_name() -> None:
    assert read_bounded("a: &a {k: 1}\nb: [*a, *a]\nc: {<<: *a, l: 2}") == {
        "a": {"k": 1},
        "b": [{"k": 1}, {"k": 1}],
        "c": {"k": 1, "l": 2},
    }
    assert read_bounded("") is None


@pytest.mark.parametrize("wrong", ["a: [", "a: !!python/object:os.system x", "{a: 1}}", "\x00", "a: *b"])
def test_what_is_no_safe_yaml_is_refused(wrong: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read_bounded(wrong)
