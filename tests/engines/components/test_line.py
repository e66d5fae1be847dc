"""Algorithm 2: who is asked next, by run and depth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engines.components.line import FEW, DepthLine, Node, Part


def node(run: str, depth: int, arrived_s: float = 0.0, items: int = 1, name: str = "") -> Node[str]:
    return Node(run, depth, arrived_s, items, name)


def line(*nodes: Node[str], promoted_s: float = 1e9) -> DepthLine[str]:
    made: DepthLine[str] = DepthLine(promoted_s)
    for one in nodes:
        made.put(one)
    return made


def names(parts: list[Part[str]]) -> list[str]:
    return [part.node.what for part in parts]


def test_figure_7_batches_a_and_h() -> None:
    """Query 1 asks for A and B, query 2 for G and H, and there are two slots. Blind batching takes A and B, the first that
    came; A and H are the deepest of each query, and B and G hold nothing up."""
    queue = line(
        node("query 1", 3, 0.0, name="A"),
        node("query 1", 2, 0.1, name="B"),
        node("query 2", 1, 0.2, name="G"),
        node("query 2", 2, 0.3, name="H"),
    )
    assert names(queue.take(2, 1.0)) == ["A", "H"]
    assert names(queue.take(2, 1.0)) == ["B", "G"]


def test_buckets_go_by_the_earliest_arrival_of_what_is_in_them() -> None:
    queue = line(node("late", 9, 1.0, name="l"), node("early", 1, 2.0, name="e"), node("early", 0, 0.5))
    assert names(queue.take(2, 3.0)) == ["e", "l"]


def test_slots_that_are_left_over_go_to_the_next_depth() -> None:
    queue = line(node("r", 1, items=3, name="shallow"), node("r", 2, items=2, name="deep"))
    (deep, shallow) = queue.take(4, 0.0)
    assert (deep.node.what, deep.start, deep.count) == ("deep", 0, 2)
    assert (shallow.node.what, shallow.start, shallow.count) == ("shallow", 0, 2)
    (rest,) = queue.take(4, 0.0)
    assert (rest.start, rest.count) == (2, 1) and len(queue) == queue.items == 0


def test_who_has_waited_long_goes_before_all() -> None:
    queue = line(
        node("a", 1, 0.0, name="old"), node("a", 5, 8.0, name="deep"), node("b", 9, 9.0), promoted_s=10.0
    )
    assert names(queue.take(1, 9.9)) == ["deep"]
    assert names(queue.take(1, 10.0)) == ["old"]


def test_a_node_that_leaves_takes_what_is_left_of_it_along() -> None:
    one, other = node("a", 1, items=5, name="one"), node("a", 1, 1.0, name="other")
    queue = line(one, other)
    queue.take(2, 0.0)
    assert queue.remove(one) and not queue.remove(one)
    assert (len(queue), queue.items) == (1, 1)
    assert names(queue.take(9, 0.0)) == ["other"]


NODES = st.lists(
    st.builds(
        node,
        st.sampled_from("abc"),
        st.integers(0, 4),
        st.floats(0, 20).map(lambda s: round(s, 1)),
        st.integers(1, 5),
    ),
    max_size=12,
)


@given(NODES, st.lists(st.tuples(st.integers(0, 6), st.floats(0, 40)), max_size=20))
def test_every_item_is_taken_once_and_never_more_than_there_are_slots(
    nodes: list[Node[str]], rounds: list[tuple[int, float]]
) -> None:
    queue = line(*nodes, promoted_s=10.0)
    taken: dict[int, list[int]] = {id(one): [] for one in nodes}
    for slots, now_s in [*rounds, (10_000, 0.0)]:
        waiting = queue.items
        parts = queue.take(slots, now_s)
        assert sum(part.count for part in parts) == min(slots, waiting)
        for part in parts:
            taken[id(part.node)] += range(part.start, part.start + part.count)
    assert all(taken[id(one)] == list(range(one.items)) for one in nodes)
    assert len(queue) == queue.items == 0


@given(NODES, st.integers(1, 8))
def test_within_a_run_the_deepest_goes_first(nodes: list[Node[str]], slots: int) -> None:
    queue = line(*nodes)
    for run in "abc":
        depths = [part.node.depth for part in queue.take(slots, 0.0) if part.node.run == run]
        assert depths == sorted(depths, reverse=True)


def test_few_items_that_are_left_of_a_run_go_along_with_its_deepest() -> None:
    def waiting(few: int) -> DepthLine[str]:
        chunks, queries = node("early", 5, 0.0, 40, "chunks"), node("early", 4, 1.0, few, "queries")
        return line(chunks, queries, node("late", 5, 2.0, 40, "others"))

    queue = waiting(4)
    assert names(queue.take(32, 3.0)) == ["chunks"]
    assert [(part.node.what, part.count) for part in queue.take(32, 3.0)] == [
        ("chunks", 8),
        ("queries", 4),
        ("others", 20),
    ]
    queue = waiting(5)
    queue.take(32, 3.0)
    assert names(queue.take(32, 3.0)) == ["chunks", "others"]


@given(NODES)
def test_no_run_gets_its_second_depth_before_each_has_had_its_deepest(nodes: list[Node[str]]) -> None:
    # Of so few slots nothing that is left is few.
    deepest = {run: max(one.depth for one in nodes if one.run == run) for run in {one.run for one in nodes}}
    parts = line(*nodes).take(FEW - 1, 0.0)
    first_round = sum(one.items for one in nodes if one.depth == deepest[one.run])
    taken = 0
    for part in parts:
        assert (part.node.depth == deepest[part.node.run]) == (taken < first_round)
        taken += part.count


@given(NODES, st.data())
def test_one_that_left_is_never_taken(nodes: list[Node[str]], data: st.DataObject) -> None:
    queue = line(*nodes)
    gone = [one for one in nodes if data.draw(st.booleans())]
    assert all(queue.remove(one) for one in gone)
    left = {id(part.node) for part in queue.take(10_000, 0.0)}
    assert left == {id(one) for one in nodes} - {id(one) for one in gone}
