"""Figures in words."""

from __future__ import annotations

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
        (formats.milliseconds(3.21), "3.2 ms"),
        (formats.milliseconds(1250), "1.2 s"),
        (formats.milliseconds(180_000), "3 min"),
        (formats.size(2048), "2.0 KiB"),
        (formats.size(3 * 2**30), "3.0 GiB"),
        (formats.decimal(None), "–"),
        (formats.when(0), '<time datetime="1970-01-01T00:00:00Z">1970-01-01 00:00:00 UTC</time>'),
    ],
)
def test_a_figure_reads_as_a_person_would_write_it(said: str, expected: str) -> None:
    assert str(said).replace("\u202f", " ") == expected
