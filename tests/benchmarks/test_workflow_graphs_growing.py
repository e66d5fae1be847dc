"""What growing costs is measured on runs that come to their end."""

from __future__ import annotations

import pytest

from benchmarks.workflow_graphs.growing import COUNTS, main


def test_there_is_a_row_for_each_length(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.workflow_graphs.growing.COUNTS", dict.fromkeys(COUNTS, (1, 2)))
    assert main(["--rounds", "1"]) == 0
    table = capsys.readouterr().out
    assert all(f"| {count} {name}" in table for name in COUNTS for count in (1, 2))
