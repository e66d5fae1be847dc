"""Aliases in a configuration: a few are fine, aliases of aliases are refused with their line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from understudy.settings.aliases import TooManyAliases, check_aliases
from understudy.settings.core_yaml import read_yaml
from understudy.settings.effective import EffectiveSettings
from understudy.settings.file import ConfigError, load_config, parse_config

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {k: v}\n" + "\n".join(
    f"{name}: &{name} {{1: *{before}, 2: *{before}, 3: *{before}, 4: *{before}}}"
    for before, name in zip("abcdefghijkl", "bcdefghijklm", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line"), [(LAUGHS, 5), (MERGES, 7), ("a: 1\nb: &a [*a]", 2)], ids=["lists", "mappings", "itself"]
)
def test_aliases_of_aliases_are_refused_with_their_line(text: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"line {line}, column \d+: .*alias"):
        load_config(path)
    config = parse_config({"upstream": {"base_url": "https://api.example.com/v1"}})
    (problem,) = EffectiveSettings(config, None).check(text).problems
    assert f"line {line}, " in problem and "alias" in problem


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: " + "[" * 5000 + "]" * 5000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_config(path)


def test_what_repeats_a_little_is_read() -> None:
    assert read_yaml("a: &a {k: 1}\nb: [*a, *a]\nc: {<<: *a, l: 2}")["c"] == {"k": 1, "l": 2}
    plain = yaml.compose("[1, 2, [3, 4]]", yaml.SafeLoader)
    assert plain is not None
    check_aliases(plain, 0)
    node = yaml.compose("a: &a [1, 2]\nb: [*a, *a]", yaml.SafeLoader)
    assert node is not None
    # Both times a list and two numbers that the text has once.
    check_aliases(node, 6)
    with pytest.raises(TooManyAliases):
        check_aliases(node, 5)
