"""Whether an engine's streams are asked for their usage."""

from __future__ import annotations

from engines.tells_usage import TellsUsage


def test_it_is_asked_until_it_refuses_or_where_the_operator_says_that_it_does_not_tell() -> None:
    tells = TellsUsage()
    assert tells.asked
    tells.refused()
    assert not tells.asked
    assert not TellsUsage(tells=False).asked
