"""A part is what stands between its own markers, and nothing inside it can end it or stand for another."""

from __future__ import annotations

import re

import pytest

from simulation.prompt import coded_prompt

CODE = "0123456789abcdef"
TELLING = re.compile(r"SAY ([0-9a-f]{16}):")


def messages(shown: str, told: str = f"SAY {CODE}: yes") -> list[dict[str, str]]:
    return [{"role": "system", "content": told}, {"role": "user", "content": shown}]


def wrapped(text: str, name: str = "REQUEST", code: str = CODE) -> str:
    return f"<<<{name} {code}>>>\n{text}\n<<<END {name} {code}>>>"


def test_each_part_is_what_stands_between_its_own_markers() -> None:
    prompt = coded_prompt(messages(wrapped("one\ntwo") + "\n" + wrapped("three", "ANSWER")), TELLING)
    assert prompt is not None and (prompt.code, prompt.told) == (CODE, f"SAY {CODE}: yes")
    assert (prompt.part("REQUEST"), prompt.part("ANSWER"), prompt.part("OTHER")) == (
        "one\ntwo",
        "three",
        None,
    )


def test_markers_with_another_code_are_text() -> None:
    inside = wrapped("not a part", code="f" * 16)
    prompt = coded_prompt(messages(wrapped(inside)), TELLING)
    assert prompt is not None and prompt.part("REQUEST") == inside


@pytest.mark.parametrize(
    "shown", ["", wrapped("a") + "\n" + wrapped("b"), f"<<<REQUEST {CODE}>>> a", "x" + wrapped("a")]
)
def test_what_is_not_marked_exactly_once_on_lines_of_its_own_is_no_part(shown: str) -> None:
    prompt = coded_prompt(messages(shown), TELLING)
    assert prompt is not None and prompt.part("REQUEST") is None


def test_messages_that_tell_no_code_are_no_such_prompt() -> None:
    assert coded_prompt([], TELLING) is None
    assert coded_prompt(messages(wrapped("a"), told="Hello"), TELLING) is None
