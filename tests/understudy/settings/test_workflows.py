"""Settings of runs: what applications may have under way."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.settings.file import ConfigError, parse_config
from understudy.settings.workflows import WorkflowsSettings

SERVED = {"upstream": {"base_url": "http://127.0.0.1:9/v1"}}


def test_each_has_a_default_and_keeps_what_is_said() -> None:
    assert parse_config(SERVED).workflows == WorkflowsSettings()
    said = parse_config({**SERVED, "workflows": {"keep_values_s": 0, "advanced": {"lease_s": 2}}}).workflows
    assert (said.keep_values_s, said.advanced.lease_s, said.max_steps) == (0, 2, 1000)


@pytest.mark.parametrize(
    "wrong", [{"max_steps": 0}, {"max_runs": 0}, {"keep_values_s": -1}, {"max_value_kib": 0}]
)
def test_what_allows_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"workflows\.{next(iter(wrong))}"):
        parse_config({**SERVED, "workflows": wrong})
