"""What growing costs is measured on runs that come to their end."""

from __future__ import annotations

import pytest

from benchmarks.workflow_graphs.growing import COUNTS, main, measured


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        # chunks, three pieces embedded and ingested, the query embedded and looked for, what is found reranked in one piece;
        # four gathers, with it; the answer.
        ("chunks ingested", 1 + 2 * 3 + 2 + 1 + 3 + 1),
        ("items mapped", 40 + 2),
        ("items of a splitting chat mapped twice", 1 + 40 + 40 + 2 + 1),
    ],
)
def test_all_steps_of_a_run_are_carried_out(name: str, steps: int) -> None:
    assert measured(name, 40, 1)["steps"] == steps


def test_there_is_a_row_for_each_length(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.workflow_graphs.growing.COUNTS", dict.fromkeys(COUNTS, (1, 2)))
    assert main(["--rounds", "1"]) == 0
    table = capsys.readouterr().out
    assert all(f"| {count} {name}" in table for name in COUNTS for count in (1, 2))
