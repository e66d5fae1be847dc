"""Charts as data."""

from __future__ import annotations

import pytest

from admin.charts import lines, stacked, with_intervals


def test_bars_stand_on_instants_and_lie_on_names() -> None:
    standing = stacked([60, 120], [("a", [1, 2], "series-1")], unit="requests", times=True)
    assert standing["traces"][0]["x"] == [60_000, 120_000] and standing["traces"][0]["y"] == [1, 2]
    assert standing["layout"]["xaxis"]["type"] == "date" and standing["layout"]["barmode"] == "stack"
    lying = stacked(["x"], [("a", [1.5], "series-1")], unit="ms", across=True)
    assert (lying["traces"][0]["x"], lying["traces"][0]["y"]) == ([1.5], ["x"])


def test_a_line_has_a_gap_where_nothing_is_known() -> None:
    chart = lines([0, 60, 120], [("a", [1.0, None, 2.0], "series-1")], unit="ms", times=True)
    assert chart["traces"][0]["y"] == [1.0, None, 2.0]


def test_points_with_intervals_leave_out_what_nobody_measured() -> None:
    chart = with_intervals(
        [60, 120, 180], [("judge", [(0.9, 0.8, 0.95), None, (0.5, 0.1, 0.9)], "series-1")], unit="%"
    )
    (trace,) = chart["traces"]
    assert trace["x"] == [60_000, 180_000] and trace["y"] == [0.9, 0.5]
    assert trace["error_y"]["array"] == pytest.approx([0.05, 0.4])
    assert trace["error_y"]["arrayminus"] == pytest.approx([0.1, 0.4])
    assert chart["layout"]["xaxis"]["range"] == [60_000, 240_000]
