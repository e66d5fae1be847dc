"""A configuration's scalars are those of YAML 1.2: what looks like a date, a clock or a word is a text."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from understudy.settings.core_yaml import Dumper, read_yaml
from understudy.settings.file import parse_config

SCALARS = {
    "2024-10-21": "2024-10-21",
    "2024-10-21T12:00:00Z": "2024-10-21T12:00:00Z",
    "1:30": "1:30",
    "190:20:30": "190:20:30",
    "yes": "yes",
    "No": "No",
    "on": "on",
    "OFF": "OFF",
    "y": "y",
    "=": "=",
    "010": "010",
    "1_000": "1_000",
    "0b11": "0b11",
    "0o17": 15,
    "0x1F": 31,
    "0": 0,
    "+5": 5,
    "-5": -5,
    "1e3": 1000.0,
    "-1.5E-3": -0.0015,
    ".5": 0.5,
    "5.": 5.0,
    "1.e1": 10.0,
    ".inf": float("inf"),
    "true": True,
    "FALSE": False,
    "~": None,
    "null": None,
    "": None,
}


@pytest.mark.parametrize("written", SCALARS)
def test_a_scalar_is_read_as_the_core_schema_reads_it(written: str) -> None:
    read = read_yaml(f"a: {written}")["a"]
    assert (read, type(read)) == (SCALARS[written], type(SCALARS[written]))


def test_a_number_of_any_length_is_read_without_a_fault() -> None:
    assert read_yaml(f"a: {'1' * 5000}")["a"] == "1" * 5000


def test_keys_are_texts() -> None:
    assert read_yaml("{4.1: a, on: b, 2024-10-21: c, ~: d, 7: e}") == {
        "4.1": "a",
        "on": "b",
        "2024-10-21": "c",
        "~": "d",
        "7": "e",
    }


def test_a_mapping_is_merged_into_another() -> None:
    assert read_yaml("a: &a {1: x, 2: y}\nb: {<<: *a, 2: z}")["b"] == {"1": "x", "2": "z"}


@pytest.mark.parametrize("tagged", ["!!int abc", "!!bool maybe", "!!timestamp x", "!!float q"])
def test_a_tag_that_does_not_fit_is_refused_where_it_stands(tagged: str) -> None:
    with pytest.raises(yaml.YAMLError, match="line 2, column 4"):
        read_yaml(f"a: 1\nb: {tagged}")


@pytest.mark.parametrize("value", [*SCALARS, "08", "a", 5, 1e-6, 1e30, True, None, ["x", {"yes": "1:30"}]])
def test_what_is_written_is_read_back(value: Any) -> None:
    text = yaml.dump({"a": value, "b": value}, Dumper=Dumper)
    assert read_yaml(text) == {"a": value, "b": value}
    assert "*" not in text


def test_a_group_that_begins_with_x_holds_anchors() -> None:
    config = parse_config(
        read_yaml(
            "x-vllm: &vllm {kind: vllm, api_key: none}\n"
            "engines: {a: {<<: *vllm, base_url: 'http://127.0.0.1:9/v1'}}\n"
            "models: {4.1: {engines: [a]}}\n"
        )
    )
    assert list(config.models) == ["4.1"]
