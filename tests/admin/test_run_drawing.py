"""Where boxes stand: no two on one place, arrows to the right, and few crossings."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from admin.run_drawing import NODE_HEIGHT, NODE_WIDTH, Drawing, drawn


def depths(before: dict[str, set[str]]) -> dict[str, int]:
    known: dict[str, int] = {}
    for step in before:
        known[step] = max((known[one] + 1 for one in before[step]), default=0)
    return known


def crossings(made: Drawing) -> int:
    lines = [(made.nodes[one], made.nodes[other]) for one, other, _ in made.edges]
    return sum(
        a[0] == b[0] and a[1][0] == b[1][0] and (a[0][1] - b[0][1]) * (a[1][1] - b[1][1]) < 0
        for i, a in enumerate(lines)
        for b in lines[i + 1 :]
        if a[0][0] == b[0][0]
    )


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, set[str]]:
    count = draw(st.integers(0, 25))
    return {
        f"s{n}": {f"s{m}" for m in draw(st.sets(st.integers(0, n - 1), max_size=4))} if n else set()
        for n in range(count)
    }


@given(graphs())
def test_downwards_is_the_same_with_the_axes_changed(before: dict[str, set[str]]) -> None:
    square = NODE_HEIGHT
    right = drawn(before, depths(before), node_width=square)
    down = drawn(before, depths(before), node_width=square, down=True)
    assert {step: (y, x) for step, (x, y) in down.nodes.items()} == right.nodes
    assert (down.height, down.width) == (right.width, right.height)


@given(graphs())
def test_boxes_do_not_touch_and_arrows_point_to_the_right(before: dict[str, set[str]]) -> None:
    made = drawn(before, depths(before))
    assert made.nodes.keys() == before.keys()
    assert {(one, other) for one, other, _ in made.edges} == {
        (one, step) for step, sources in before.items() for one in sources
    }
    places = sorted(made.nodes.values())
    for (x1, y1), (x2, y2) in itertools.pairwise(places):
        assert x2 >= x1 + NODE_WIDTH or (x1 == x2 and y2 >= y1 + NODE_HEIGHT)
    for x, y in places:
        assert 0 <= x <= made.width - NODE_WIDTH and 0 <= y <= made.height - NODE_HEIGHT
    assert all(made.nodes[one][0] < made.nodes[other][0] for one, other, _ in made.edges)


def test_parallel_chains_are_drawn_without_a_crossing() -> None:
    before: dict[str, set[str]] = {f"a{n}": set() for n in range(6)}
    before |= {f"b{n}": {f"a{5 - n}"} for n in range(6)}
    before |= {f"c{n}": {f"b{(n + 3) % 6}"} for n in range(6)}
    assert crossings(drawn(before, depths(before))) == 0


def test_of_nothing_there_is_a_drawing_of_nothing() -> None:
    made = drawn({}, {})
    assert (made.nodes, made.edges) == ({}, [])
