from __future__ import annotations

from pathlib import Path

from benchmarks.postgres.hundred_million import Measured, Plan, report

PAGE = Path(__file__).parents[2] / "docs" / "experiments" / "hundred-million-examples.md"


def test_the_page_shows_what_the_command_prints() -> None:
    assert report(Plan(), Measured()) in PAGE.read_text(encoding="utf-8")
