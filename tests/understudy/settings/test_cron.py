"""Cron expressions in settings: what is none, or never comes, is refused with what would be right."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from understudy.settings.cron import Cron


def test_five_fields_are_right() -> None:
    assert TypeAdapter(Cron).validate_python("*/5 2 * * 1") == "*/5 2 * * 1"


@pytest.mark.parametrize("wrong", ["nightly", "0 0 2 * * *", "0 25 * * *", "0 2 30 2 *"])
def test_what_never_comes_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match="five fields"):
        TypeAdapter(Cron).validate_python(wrong)
