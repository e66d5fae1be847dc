"""The frontier's picture: no point leaves it or vanishes under a line, whatever the intervals are."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admin.summaries.what_if_charts import frontier_chart, reward_chart

SHARE = st.floats(0.0, 1.0)
FIGURE = st.builds(
    lambda value, low, high: {"value": value, "low": low, "high": high},
    st.one_of(st.none(), SHARE),
    st.one_of(st.none(), st.floats(0.0, 1e6)),
    st.one_of(st.none(), st.floats(0.0, 1e6)),
)
POINT = st.builds(
    lambda policy, dial, quality, cost: {
        "policy": policy,
        "says": policy,
        "preference": dial,
        "quality": quality,
        "cost_usd": cost,
        "asked": dial == 0.5,
    },
    st.sampled_from(["logged", "always:small", "expected", "few_shot:0.8,3"]),
    st.one_of(st.none(), SHARE),
    FIGURE,
    FIGURE,
)


@given(st.lists(POINT, max_size=12), st.lists(st.tuples(st.integers(1, 8), FIGURE, FIGURE), max_size=5))
def test_every_known_point_is_within_the_axes_and_those_alone_are_drawn_last(
    points: list[dict[str, Any]], caps: list[tuple[int, dict[str, Any], dict[str, Any]]]
) -> None:
    capped = [{"most": most, "quality": q, "cost_usd": c, "asked": False} for most, q, c in caps]
    chart = frontier_chart(points, capped)
    (left, right), (low, high) = (chart["layout"][axis]["range"] for axis in ("xaxis", "yaxis"))
    modes = [trace["mode"] for trace in chart["traces"]]
    assert modes == sorted(modes), "lines before single markers"
    for trace in chart["traces"]:
        assert all(left <= x <= right for x in trace["x"])
        assert all(low <= y <= high for y in trace["y"])
        assert all(error >= 0.0 for error in trace["error_x"]["array"] + trace["error_y"]["arrayminus"])


def test_what_is_not_known_yet_leaves_a_gap_and_not_a_nought() -> None:
    block = {"at_s": 10.0, "reward": None, "quality": None, "expected": 0.5, "familiarity": 0.2}
    chart = reward_chart([block, {**block, "at_s": 20.0, "quality": 0.9}])
    by_name = {trace["name"]: trace["y"] for trace in chart["traces"]}
    assert by_name["quality as it became known"] == [None, 0.9]
