"""How urgent each step is: the deduction of Parrot's §5.2."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.graphs import graph, graphs, ids, step
from workflows.criteria import Criteria
from workflows.graph import Graph
from workflows.objective import Objective, Objectives, Rank

LATENCY = Criteria.LATENCY


def objectives(
    g: Graph, gets: Mapping[str, Criteria], done: AbstractSet[str], expected: Mapping[str, float]
) -> Mapping[str, Objective]:
    """The objective of every step that is not in `done`."""
    found = Objectives(g, gets, done, expected)
    return {step: found.of(step) for step in g.steps if step not in done}


def found(g: Graph, gets: Mapping[str, Criteria], done: str = "") -> Mapping[str, Objective]:
    return {each.removeprefix("s-"): o for each, o in objectives(g, gets, set(ids(done)), {}).items()}


def ranks(objectives_by_name: Mapping[str, Objective]) -> dict[str, str]:
    return {name: o.rank.name for name, o in objectives_by_name.items()}


def test_each_step_of_a_chain_is_for_latency() -> None:
    g = graph(a="", b="a", c="b")
    assert ranks(found(g, {"c": LATENCY})) == dict.fromkeys("abc", "LATENCY")
    assert ranks(found(g, {"b": LATENCY})) == {"a": "LATENCY", "b": "LATENCY", "c": "THROUGHPUT"}


def test_a_map_is_a_task_group_and_its_reduce_is_for_latency() -> None:
    g = graph(m1="", m2="", m3="", end="m1 m2 m3")
    got = found(g, {"end": LATENCY})
    assert ranks(got) == {"m1": "GROUP", "m2": "GROUP", "m3": "GROUP", "end": "LATENCY"}
    assert len({got[name].group for name in ("m1", "m2", "m3")}) == 1 and got["end"].group == ""


def test_the_last_of_a_group_is_a_stage_of_one() -> None:
    g = graph(m1="", m2="", end="m1 m2")
    assert ranks(found(g, {"end": LATENCY}, done="m1")) == {"m2": "LATENCY", "end": "LATENCY"}


def test_stages_of_several_roles_are_a_group_each() -> None:
    """Coders, reviewers of one file each, and who revises: 9 files would be 9 per stage, none of them for latency."""
    files = range(3)
    steps = [step("plan")]
    steps += [step(f"code{n}", "plan") for n in files]
    steps += [step(f"review{n}", f"code{n}") for n in files]
    steps += [step(f"final{n}", f"code{n}", f"review{n}") for n in files]
    steps.append(step("merge", *(f"final{n}" for n in files)))
    got = found(Graph(steps), {"merge": LATENCY})
    for role in ("code", "review", "final"):
        assert {got[f"{role}{n}"].rank for n in files} == {Rank.GROUP}
        assert len({got[f"{role}{n}"].group for n in files}) == 1
    assert len({o.group for o in got.values()}) == 4
    assert got["plan"].rank is got["merge"].rank is Rank.LATENCY


def test_what_is_got_together_is_a_group_and_so_is_what_leads_to_it() -> None:
    """The files of a team, got one by one and not by a step that joins them; and its plan, which alone has its depth."""
    files = range(3)
    steps = [step("plan"), *(step(f"code{n}", "plan") for n in files)]
    steps += [step(f"review{n}", *(f"code{m}" for m in files)) for n in files]
    steps += [step(f"final{n}", f"code{n}", f"review{n}") for n in files]
    got = found(Graph(steps), {**{f"final{n}": LATENCY for n in files}, "plan": LATENCY})
    for role in ("code", "review", "final"):
        assert {got[f"{role}{n}"].rank for n in files} == {Rank.GROUP}
        assert len({got[f"{role}{n}"].group for n in files}) == 1
    assert got["plan"].rank is Rank.LATENCY
    streamed = found(Graph(steps), {"final0": Criteria.TTFT, "final1": LATENCY, "final2": LATENCY})
    assert [streamed[f"final{n}"].rank.name for n in files] == ["LATENCY", "GROUP", "GROUP"]


def test_steps_that_wait_for_each_other_are_no_group() -> None:
    """Figure 7: the test reads the task's plan and the code, and the code reads the plan."""
    g = graph(plan="", code="plan", test="plan code")
    assert ranks(found(g, {"test": LATENCY})) == dict.fromkeys(("plan", "code", "test"), "LATENCY")


def test_throughput_and_what_nobody_asked_for() -> None:
    g = graph(a="", b="a", c="", d="c")
    assert ranks(found(g, {"b": Criteria.THROUGHPUT})) == dict.fromkeys("abcd", "THROUGHPUT")
    assert ranks(found(g, {"b": Criteria.THROUGHPUT, "d": Criteria.TTFT})) == {
        "a": "THROUGHPUT",
        "b": "THROUGHPUT",
        "c": "LATENCY",
        "d": "LATENCY",
    }


def test_the_stricter_wins() -> None:
    g = graph(m1="", m2="", end="m1 m2", other="m1")
    assert ranks(found(g, {"end": LATENCY, "other": Criteria.TTFT})) == {
        "m1": "LATENCY",
        "m2": "GROUP",
        "end": "LATENCY",
        "other": "LATENCY",
    }
    assert found(g, {"other": Criteria.TTFT, "end": LATENCY})["m1"].rank is Rank.LATENCY
    assert found(g, {"other": Criteria.THROUGHPUT, "end": LATENCY})["m1"].rank is Rank.GROUP


def test_a_call_that_waits_is_got_by_its_step() -> None:
    g = Graph([step("a"), step("call", "a", writes=())])
    assert ranks(found(g, {"s-call": LATENCY})) == {"a": "LATENCY", "call": "LATENCY"}


def test_what_is_got_may_be_unknown_or_done() -> None:
    g = graph(a="x", b="a")
    assert ranks(found(g, {"x": LATENCY, "nothing": LATENCY, "a": LATENCY}, done="a")) == {"b": "THROUGHPUT"}
    assert objectives(Graph(), {}, set(), {}) == {}


def test_work_left_is_of_this_rank_and_the_stricter_ones() -> None:
    g = graph(m1="", m2="", end="m1 m2", idle="")
    expected = {"s-m1": 10.0, "s-m2": 20.0, "s-end": 3.0, "s-idle": 500.0}
    got = objectives(g, {"end": LATENCY}, {"s-m1"}, expected)
    assert {each: (o.work_left, o.depth) for each, o in got.items()} == {
        "s-m2": (23.0, 0),
        "s-end": (23.0, 1),
        "s-idle": (523.0, 0),
    }
    assert found(g, {"end": LATENCY})["end"].work_left == 1.0


def test_what_is_left_shrinks_as_steps_end_and_classes_stay() -> None:
    g = graph(m1="", m2="", end="m1 m2")
    o = Objectives(g, {"end": LATENCY}, set(), {"s-m1": 10.0, "s-m2": 20.0, "s-end": 3.0})
    before = o.of("s-m2")
    o.ended("s-m1")
    o.ended("s-m1")
    after = o.of("s-m2")
    assert (before.work_left, after.work_left) == (33.0, 23.0) and before.group == after.group != ""
    o.ended("s-m2")
    o.ended("s-end")
    assert o.of("s-end").work_left == 0.0


GETS = st.dictionaries(
    st.sampled_from([f"v{n}" for n in range(12)]), st.sampled_from(list(Criteria)), max_size=5
)


@given(graphs(), GETS, st.data())
def test_any_graph(
    reads: Mapping[str, tuple[str, ...]], gets: Mapping[str, Criteria], data: st.DataObject
) -> None:
    g = Graph(step(name, *each) for name, each in reads.items())
    done: set[str] = set()
    for each in g.order():  # Whatever is done, so is what it waited for.
        if g.before(each) <= done and data.draw(st.booleans()):
            done.add(each)
    got = objectives(g, gets, done, {})
    assert got.keys() == g.steps.keys() - done
    wanted = {f"s-{name}" for name, criteria in gets.items() if criteria is not Criteria.THROUGHPUT}
    together = [f"s-{name}" for name, criteria in gets.items() if criteria is LATENCY and f"s-{name}" in got]
    depths = [g.depth(each) for each in together]
    for each, objective in got.items():
        if gets.get(each.removeprefix("s-")) is Criteria.TTFT:
            assert objective.rank is Rank.LATENCY
        if each in together and depths.count(g.depth(each)) == 1:
            assert objective.rank is Rank.LATENCY
        needed = bool(wanted & {each, *_after(g, each)})
        assert (objective.rank is not Rank.THROUGHPUT) == needed
        assert (objective.group != "") == (objective.rank is Rank.GROUP)
    kept = Objectives(g, gets, set(), {})
    for each in done:
        kept.ended(each)
    assert all(kept.of(each).work_left >= 1 for each in got)
    for group in {o.group for o in got.values()} - {""}:
        members = [each for each, o in got.items() if o.group == group]
        assert g.last_of(members) == set(members)


def _after(g: Graph, each: str) -> set[str]:
    left, found = [each], set()
    while left:
        for after in g.after(left.pop()) - found:
            found.add(after)
            left.append(after)
    return found


@pytest.mark.parametrize("shape", ["chain", "map", "layers", "dense"])
def test_a_thousand_steps_ask_a_bounded_number_of_stages(shape: str) -> None:
    """No shape makes the deduction walk the graph once per get."""
    names = [f"v{n}" for n in range(1000)]
    if shape == "chain":
        steps = [step(name, *names[max(n - 1, 0) : n]) for n, name in enumerate(names)]
    elif shape == "map":
        steps = [*(step(name) for name in names[:-1]), step(names[-1], *names[:-1])]
    elif shape == "layers":
        steps = [
            step(name, *names[n // 50 * 50 - 50 : n // 50 * 50] if n >= 50 else ())
            for n, name in enumerate(names)
        ]
    else:
        steps = [step(name, *names[max(n - 60, 0) : n]) for n, name in enumerate(names)]
    g = Graph(steps)
    seen = 0
    last_of = g.last_of

    def counted(each: object) -> frozenset[str]:
        nonlocal seen
        seen += 1
        return last_of(each)  # type: ignore[arg-type]

    g.last_of = counted  # type: ignore[method-assign]
    objectives(g, dict.fromkeys(names, LATENCY), set(), {})
    assert seen <= 2 * len(names)
