"""From settings to the object that works by them: by name, in its units, each default in one place."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import Field

from understudy.settings.group import Settings
from understudy.settings.knobs import knobs_of


class Common(Settings):
    theta: float = Field(0.5)


class Advanced(Settings):
    theta: float = Field(0.1)
    deadline_ms: float = Field(50)
    window_h: float | None = Field(None)
    entry_kib: float = Field(1.5)


@dataclass(frozen=True)
class Knobs:
    theta: float
    deadline_s: float
    window_s: float | None
    entry_bytes: int
    fixed: int = 3


def test_fields_come_by_name_from_the_first_group_that_has_them_and_in_their_unit() -> None:
    assert knobs_of(Knobs, Common(), Advanced()) == Knobs(0.5, 0.05, None, 1536)


def test_what_is_given_comes_first() -> None:
    assert knobs_of(Knobs, Common(), Advanced(), theta=0.9).theta == 0.9


def test_a_field_without_a_value_is_missed() -> None:
    with pytest.raises(TypeError, match="deadline_s"):
        knobs_of(Knobs, Common())


def test_a_default_in_two_places_is_refused() -> None:
    @dataclass
    class Twice:
        theta: float = 0.5

    with pytest.raises(TypeError, match=r"Twice\.theta has a default, and is a setting"):
        knobs_of(Twice, Common())
    with pytest.raises(TypeError, match="fixed"):
        knobs_of(Knobs, Common(), Advanced(), fixed=4)
