"""The graph: who feeds whom, and that it never holds a circle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given

from tests.workflows import bodies
from tests.workflows.bodies import LIMITS
from tests.workflows.graphs import graph, graphs, ids, step
from workflows.criteria import Criteria
from workflows.errors import WorkflowError
from workflows.graph import Graph, dumped, loaded
from workflows.names import is_id
from workflows.submitted import build, read_run, read_step, steps_of


def test_producers_consumers_and_names() -> None:
    g = graph(a="x", b="a", c="a b")
    a, b, c = ids("a b c")
    assert g.producer("x") is None and g.producer("unknown") is None
    assert getattr(g.producer("a"), "id", None) == a
    assert [each.id for each in g.consumers("a")] == [b, c]
    assert (g.before(c), g.after(a), g.after(c)) == ({a, b}, {b, c}, set())
    assert g.feeders(c) == {b}
    assert g.variables == {"x", "a", "b", "c"}
    assert (g.name("x"), g.name("unknown")) == ("x", "unknown")


def test_order_and_depth() -> None:
    g = graph(c="a b", b="a", a="x", d="")
    assert [g.depth(each) for each in ids("a b c d")] == [0, 1, 2, 0]
    place = {each: index for index, each in enumerate(g.order())}
    assert place["s-a"] < place["s-b"] < place["s-c"]


def test_the_critical_path_is_the_heaviest() -> None:
    g = graph(a="", b="a", c="", d="b c")
    weight = {"s-a": 1.0, "s-b": 1.0, "s-c": 5.0, "s-d": 1.0}
    assert g.critical_path(weight.__getitem__) == ("s-c", "s-d")
    assert g.critical_path(lambda _: 1.0) == ("s-a", "s-b", "s-d")
    assert Graph().critical_path(lambda _: 1.0) == ()


def test_a_graph_grows_call_by_call() -> None:
    g = Graph()
    g.add(step("a"))
    assert g.depth("s-a") == 0
    g.add(step("b", "a"), step("c", "b"))
    assert g.depth("s-c") == 2 and list(g.steps) == ids("a b c")


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([step("a", "a")], "cycle"),
        ([step("a", "b"), step("b", "a")], "cycle"),
        ([step("x", "y")], "cycle"),
        ([step("b"), step("b2", writes=["b"])], "duplicate_output"),
        ([step("other", writes=["y"])], "duplicate_output"),
        ([step("y", writes=["z"])], "duplicate_output"),
    ],
)
def test_bad_steps_are_refused_and_leave_nothing_behind(steps: list, code: str) -> None:
    g = graph(y="x")
    with pytest.raises(WorkflowError) as caught:
        g.add(*steps)
    assert caught.value.code == code and list(g.steps) == ids("y") and g.variables == {"x", "y"}
    g.add(step("x"))
    assert g.depth("s-y") == 1


def test_a_circle_is_listed_in_order() -> None:
    with pytest.raises(WorkflowError) as caught:
        graph(a="c", b="a", c="b", d="c")
    names = caught.value.message.partition(": ")[2].rstrip(".").split(" -> ")
    assert len(names) == 4 and names[0] == names[-1]
    assert names[1] == {"a": "b", "b": "c", "c": "a"}[names[0]]


def test_a_run_is_built_with_ids() -> None:
    asked = read_run(
        {
            "app": "x",
            "inputs": {"task": "T"},
            "steps": [
                bodies.step("{{task}} {{a}} {{old}}", "b", inputs={"old": {"variable": "stored"}}),
                bodies.call("{{task}}", outputs=[{"name": "a"}, {"name": "c", "transform": ["strip"]}]),
            ],
            "get": {"b": "ttft"},
        },
        LIMITS,
    )
    built = build(asked, {"stored": "var_1"})
    assert list(built.variables) == ["b", "a", "c"] and all(
        is_id("var", each) for each in built.variables.values()
    )
    first, second = built.graph.steps.values()
    assert (first.given, first.reads) == ({"task": "T"}, {"a": built.variables["a"], "old": "var_1"})
    assert (first.name, second.name) == ("b", "a") and second.outputs[1].transforms
    assert built.gets == {built.variables["b"]: Criteria.TTFT}
    for each in built.graph.steps.values():
        assert loaded(json.loads(json.dumps(dumped(each)))) == each


def test_a_call_that_waits_is_a_step_without_variables_of_its_own() -> None:
    asked = read_step(bodies.call("{{a}}", inputs={"a": "A"}), LIMITS)
    (made,) = steps_of([asked.spec], {})
    assert (made.name, made.writes, made.given) == ("s0", {}, {"a": "A"})


@given(graphs())
def test_any_graph_without_cycles_is_taken_in_any_order(reads: Mapping[str, tuple[str, ...]]) -> None:
    at_once = Graph(step(name, *each) for name, each in reads.items())
    one_by_one = Graph()
    for name, each in reads.items():
        one_by_one.add(step(name, *each))
    for name, each in reads.items():
        own = f"s-{name}"
        before = {f"s-{other}" for other in each if other in reads}
        assert at_once.before(own) == one_by_one.before(own) == before
        assert at_once.depth(own) == one_by_one.depth(own) == max(map(at_once.depth, before), default=-1) + 1
        assert at_once.feeders(own) == at_once.last_of(before)
        assert at_once.last_of([own]) == {own}
    place = {each: index for index, each in enumerate(at_once.order())}
    assert all(place[f] < place[each] for each in at_once.steps for f in at_once.before(each))


@given(graphs())
def test_what_feeds_a_step_directly_reaches_all_it_depends_on(reads: Mapping[str, tuple[str, ...]]) -> None:
    g = Graph(step(name, *each) for name, each in reads.items())
    everything: dict[str, set[str]] = {}
    for each in g.order():
        everything[each] = set(g.before(each)).union(*(everything[before] for before in g.before(each)))
        assert everything[each] == set(g.feeders(each)).union(*(everything[b] for b in g.feeders(each)))


def test_a_step_that_closes_a_circle_with_an_older_one_is_refused() -> None:
    g = graph(b="a", c="b")
    with pytest.raises(WorkflowError, match="circle"):
        g.add(step("a", "c"))
    assert list(g.steps) == ids("b c")


def test_a_step_may_learn_what_it_reads_later() -> None:
    graph_ = Graph([replace(step("g", "x"), open=True)])
    graph_.add(step("a", "x"), step("b", "a"))
    assert graph_.depth("s-g") == 0
    graph_.read_more("s-g", {"a": "a", "b": "b"})
    assert not graph_.steps["s-g"].open and list(graph_.steps["s-g"].reads) == ["x", "a", "b"]
    assert graph_.before("s-g") == {"s-a", "s-b"} and graph_.feeders("s-g") == {"s-b"}
    assert graph_.depth("s-g") == 2 and graph_.order()[-1] == "s-g"


def test_orders_conditions_and_items_are_edges_too() -> None:
    first = step("a")
    second = replace(step("b"), waits=("a",))
    third = replace(step("c"), after=("b",), condition=("a", "true"), early="s-b")
    graph_ = Graph([first, second, third])
    assert graph_.before("s-c") == {"s-a", "s-b"} and graph_.after("s-b") == {"s-c"}
    assert graph_.early("s-b") == ("s-c",) and graph_.depth("s-c") == 2
    assert loaded(json.loads(json.dumps(dumped(third)))) == third
    plain = {"id": "a", "name": "a", "chat": {}, "given": {"b": 0}, "reads": {}, "writes": {}, "outputs": []}
    assert loaded({"texts": ["T"], "steps": [plain]}).given == {"b": "T"}, "as 0.1.0 stored it"
    with pytest.raises(WorkflowError):
        Graph([replace(step("x"), waits=("y",)), replace(step("y"), after=("x",))])


@given(graphs())
def test_what_is_derived_grows_with_the_graph(reads: Mapping[str, tuple[str, ...]]) -> None:
    at_once = Graph(step(name, *each) for name, each in reads.items())
    bit_by_bit = Graph()
    for name, each in reads.items():
        bit_by_bit.add(step(name, *each))
        assert set(bit_by_bit.order()) == bit_by_bit.steps.keys()
    for id in at_once.steps:
        assert bit_by_bit.depth(id) == at_once.depth(id)
        assert bit_by_bit.feeders(id) == at_once.feeders(id)
        assert bit_by_bit.last_of(at_once.steps) == at_once.last_of(at_once.steps)
