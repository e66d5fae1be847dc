"""Progress is told when something changes and every so often, never more."""

from __future__ import annotations

import pytest

from learning.replay.run import Progress
from store.jobs.replay_records import ReplaySpent, RunState
from understudy.commands.replay_progress import lines, shown


def progress(state: RunState, done: int) -> Progress:
    return Progress(3, state, done, 9, ReplaySpent(0.25, 1200))


async def test_a_line_when_the_state_changes_and_none_in_between(capsys: pytest.CaptureFixture[str]) -> None:
    show = lines(every_s=3600)
    for state, done in (("running", 1), ("running", 2), ("paused", 2), ("running", 3)):
        await show(progress(state, done))  # type: ignore[arg-type]
    assert capsys.readouterr().err.splitlines() == [
        "replay 3: running, 1 of 9 steps, 0.2500 dollars, 1200 tokens",
        "replay 3: paused, 2 of 9 steps, 0.2500 dollars, 1200 tokens",
        "replay 3: running, 3 of 9 steps, 0.2500 dollars, 1200 tokens",
    ]


async def test_where_there_is_no_terminal_there_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with shown() as show:
        await show(progress("done", 9))
    assert "done, 9 of 9" in capsys.readouterr().err
