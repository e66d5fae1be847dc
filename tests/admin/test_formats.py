"""Figures in words."""

from __future__ import annotations

import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from admin import formats


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (formats.count(1234567), "1 234 567"),
        (formats.count(None), "–"),
        (formats.percent(0.1234), "12.3 %"),
        (formats.usd(0), "$0"),
        (formats.usd(-12.5), "−$12.50"),
        (formats.usd(0.00012345), "$0.000123"),
        (formats.usd(0.05), "$0.0500"),
        (formats.milliseconds(0.034), "0.03 ms"),
        (formats.milliseconds(3.21), "3.2 ms"),
        (formats.milliseconds(1250), "1.2 s"),
        (formats.milliseconds(180_000), "3 min"),
        (formats.size(2048), "2.0 KiB"),
        (formats.size(3 * 2**30), "3.0 GiB"),
        (formats.decimal(None), "–"),
        (formats.decimal(-0.0004), "0.000"),
        (formats.decimal(-0.25, 2), "−0.25"),
        (formats.when(0), '<time datetime="1970-01-01T00:00:00Z">1970-01-01 00:00:00</time>'),
        (
            formats.when_ms(0.25, ZoneInfo("Asia/Kolkata")),
            '<time datetime="1970-01-01T00:00:00.250Z">1970-01-01 05:30:00.250</time>',
        ),
        (formats.field_time(0, ZoneInfo("Asia/Kolkata")), "1970-01-01T05:30:00"),
    ],
)
def test_a_figure_reads_as_a_person_would_write_it(said: str, expected: str) -> None:
    assert str(said).replace("\u202f", " ") == expected


@pytest.mark.parametrize("said", [formats.count(1234567), formats.percent(0.985), formats.milliseconds(12)])
def test_a_figure_and_its_unit_stay_on_one_line(said: str) -> None:
    assert " " not in said and "\u202f" in said


def test_no_template_writes_fractions_by_itself() -> None:
    for template in (Path(__file__).parents[2] / "admin" / "templates").glob("*.html"):
        assert not re.search(r"%\.\d+f", template.read_text(encoding="utf-8")), f"{template.name}: -0.00"
