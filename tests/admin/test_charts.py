"""Charts as data."""

from __future__ import annotations

from admin.charts import lines, stacked


def test_bars_stand_on_instants_and_lie_on_names() -> None:
    standing = stacked([60, 120], [("a", [1, 2], "series-1")], unit="requests", times=True)
    assert standing["traces"][0]["x"] == [60_000, 120_000] and standing["traces"][0]["y"] == [1, 2]
    assert standing["layout"]["xaxis"]["type"] == "date" and standing["layout"]["barmode"] == "stack"
    lying = stacked(["x"], [("a", [1.5], "series-1")], unit="ms", across=True)
    assert (lying["traces"][0]["x"], lying["traces"][0]["y"]) == ([1.5], ["x"])


def test_a_line_has_a_gap_where_nothing_is_known() -> None:
    chart = lines([0, 60, 120], [("a", [1.0, None, 2.0], "series-1")], unit="ms", times=True)
    assert chart["traces"][0]["y"] == [1.0, None, 2.0]
