from __future__ import annotations

import click
import pytest

from understudy.commands.since import moment


def test_a_moment_is_a_while_ago_or_a_date() -> None:
    assert moment("--since", None, 1e6) is None
    assert moment("--since", "1.5h", 1e6) == 1e6 - 5400
    assert moment("--since", "2d", 1e6) == 1e6 - 172_800
    assert moment("--since", "1970-01-02", 1e6) == 86_400
    assert moment("--since", "1970-01-01T01:00:00+01:00", 1e6) == 0


@pytest.mark.parametrize("wrong", ["", "soon", "7w", "-1d", "2025-13-01"])
def test_anything_else_is_refused_by_the_option_s_name(wrong: str) -> None:
    with pytest.raises(click.BadParameter, match="24h") as refused:
        moment("--until", wrong, 0.0)
    assert refused.value.param_hint == "--until"
