"""What an import shows where there is no terminal: few lines, and not a million refusals."""

from __future__ import annotations

import pytest

from understudy.commands.import_progress import Progress


def test_a_million_bad_lines_are_not_a_million_lines_of_output(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(["f"]) as progress:
        progress.begin("f")
        for number in range(1000):
            progress.refused("f", number, "bad")
            progress.advanced(number, 1000)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert lines[0] == "f:0: bad" and lines[-1] == "900 more lines were refused"
    assert len(lines) < 110
