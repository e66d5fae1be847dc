from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.postgres.hundred_million import GB, Measured, Plan, build_hours, main, report, ways

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "hundred-million-examples.md"


def test_the_page_shows_what_the_command_prints() -> None:
    assert report(Plan(), Measured()) in PAGE.read_text(encoding="utf-8")


def test_more_workers_need_more_memory_only_where_each_has_all() -> None:
    few, many = (ways(Plan(workers=workers), Measured()) for workers in (1, 4))
    assert [a.ram < b.ram for a, b in zip(few, many, strict=True)] == [True, *[False] * 5]


def test_it_grows_with_the_examples_and_costs_what_prices_say() -> None:
    small, large = (ways(Plan(examples=n), Measured()) for n in (1e6, 1e8))
    assert all(b.disk == pytest.approx(100 * a.disk) for a, b in zip(small, large, strict=True))
    free = Plan(ram_usd_per_gb_month=0, disk_usd_per_gb_month=1)
    assert ways(free, Measured())[2].usd_per_month(free) == ways(free, Measured())[2].disk / GB
    assert round(build_hours(Plan(), Measured())) == 36


def test_every_figure_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--examples", "1e6", "--ram-usd-per-gb-month", "0", "--row-bytes", "5000"])
    assert "5 GB" in capsys.readouterr().out
