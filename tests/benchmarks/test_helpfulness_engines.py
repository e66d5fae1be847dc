"""Measuring with engines needs engines."""

from __future__ import annotations

import pytest

from benchmarks.helpfulness import engines


def test_without_engines_it_says_so_and_ends_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["engines"])
    engines.main()
    assert "no engines given" in capsys.readouterr().out
