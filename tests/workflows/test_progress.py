"""A run's state machine: nothing starts too early, nothing is written twice, failures go where they must, and all ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.graphs import graph, graphs, ids, step
from workflows.criteria import Criteria
from workflows.definition import Output
from workflows.graph import Graph, Step
from workflows.progress import (
    Changes,
    Failure,
    Progress,
    RunState,
    StepState,
    VariableState,
    outcomes,
)
from workflows.transform import TransformFailed, read_transforms
from workflows.unfolding import Added
from workflows.values import Opaque


def answered(progress: Progress, name: str, text: str = "text") -> Changes:
    each = progress.graph.steps[f"s-{name}"]
    return progress.answered(each.id, outcomes(each, text, 1000))


def ready(changes: Changes) -> dict[str, Any]:
    return {id: each.value for id, each in changes.variables.items() if each.value is not None}


def failures(changes: Changes) -> dict[str, Failure]:
    return {id: each.failure for id, each in changes.variables.items() if each.failure is not None}


def skipped_by(changes: Changes) -> list[str]:
    return [id for id, each in changes.variables.items() if each.state is VariableState.SKIPPED]


def test_texts_of_the_request_are_inputs() -> None:
    given_text = Step("s", "a", {}, {"task": "T"}, {"x": "x"}, {"a": "a"}, (Output("a"),))
    progress = Progress(Graph([given_text]), values={"x": "X"})
    assert progress.begin().start == ["s"] and progress.inputs("s") == {"task": "T", "x": "X"}


def test_a_failure_that_nobody_asked_for_does_not_fail_the_run() -> None:
    progress = Progress(graph(a="", b=""), gets={"b": Criteria.LATENCY})
    progress.begin()
    progress.refused("s-a", "step_failed", "x")
    assert answered(progress, "b").ended is RunState.DONE


def test_a_transform_fails_its_variable_alone() -> None:
    two = Step(
        "s",
        "a",
        {},
        {},
        {},
        {"a": "a", "b": "b"},
        (Output("a", read_transforms([{"json": "/x"}], "t")), Output("b")),
    )
    progress = Progress(Graph([two, step("c", "a"), step("d", "b")]))
    progress.begin()
    changes = progress.answered("s", outcomes(two, "secret", 1000))
    assert ready(changes) == {"b": "secret"} and changes.start == ids("d")
    assert failures(changes)["a"].code == "transform_failed" and failures(changes)["c"].chain == ("c", "a")
    assert "secret" not in failures(changes)["c"].message
    assert progress.steps["s"] is StepState.DONE and progress.steps["s-c"] is StepState.FAILED
    assert answered(progress, "d").ended is RunState.FAILED


def test_a_value_that_is_too_long_fails() -> None:
    each = step("a")
    (failed,) = outcomes(each, "é" * 501, 1000).values()
    assert isinstance(failed, TransformFailed) and "1002 bytes" in failed.message


def test_what_depends_on_something_lost_outside_is_lost() -> None:
    progress = Progress(graph(a="x", b="a"))
    progress.begin()
    lost = progress.lost("x", Failure("cancelled", "The run was cancelled.", ("x",)))
    assert failures(lost)["b"].chain == ("b", "a", "x") and progress.of("b").state is VariableState.CANCELLED
    assert set(lost.steps.values()) == {StepState.CANCELLED}
    assert lost.ended is RunState.FAILED and not progress.value("x", "late")


def test_steps_may_come_call_by_call() -> None:
    progress = Progress(graph(a=""))
    progress.begin()
    answered(progress, "a")
    assert progress.state is RunState.DONE
    progress.graph.add(step("b", "a"), step("c", "b"))
    assert progress.added().start == ids("b") and progress.state is RunState.RUNNING
    progress.refused("s-b", "step_failed", "x")
    progress.graph.add(step("d", "c"))
    late = progress.added()
    assert failures(late)["d"].chain == ("d", "c", "b") and late.ended is RunState.FAILED
    assert not progress.added()


def test_the_strictest_get_is_kept() -> None:
    progress = Progress(graph(a=""))
    assert progress.got("a", Criteria.THROUGHPUT) and progress.got("a", Criteria.LATENCY)
    assert not progress.got("a", Criteria.THROUGHPUT) and not progress.got("a", Criteria.LATENCY)
    assert progress.gets == {"a": Criteria.LATENCY}


def test_a_waiting_call_that_fails_fails_its_run() -> None:
    progress = Progress(Graph([step("call", writes=())]), gets={"s-call": Criteria.LATENCY})
    progress.begin()
    assert progress.refused("s-call", "step_failed", "x").ended is RunState.FAILED


# ---- any graph, any order of events


class Checked:
    """Plays events against a run, and checks each one's changes against what was told before."""

    def __init__(self, reads: Mapping[str, tuple[str, ...]], **known: Any) -> None:
        self.progress = Progress(Graph(step(name, *each) for name, each in reads.items()), **known)
        self.asked: list[str] = []
        self.settled: set[str] = {*known.get("values", ()), *known.get("failures", ())}
        self.ends = 0
        self.take(self.progress.begin())

    def take(self, changes: Changes) -> None:
        progress = self.progress
        for each in changes.start:
            assert each not in self.asked, "a step is started once"
            assert all(variable in progress.values for variable in progress.graph.steps[each].reads.values())
            self.asked.append(each)
        for variable in changes.variables:
            assert variable not in self.settled, "a variable is written once"
            self.settled.add(variable)
        if changes.ended is not None:
            self.ends += 1
            assert progress.ended == progress.graph.steps.keys()
        assert not set(progress.values) & set(progress.failures)

    def under_way(self) -> list[str]:
        return [each for each in self.asked if each not in self.progress.ended]

    def end(self) -> None:
        """Whatever is under way is answered; then nothing may be left waiting."""
        for variable in sorted(self.progress.graph.variables):
            if self.progress.graph.producer(variable) is None and variable not in self.settled:
                self.take(self.progress.value(variable, variable))
        while self.under_way():
            each = self.progress.graph.steps[self.under_way()[0]]
            self.take(self.progress.answered(each.id, outcomes(each, each.name, 1000)))
        assert self.progress.ended == self.progress.graph.steps.keys(), "no run waits for ever"
        assert self.progress.graph.variables <= self.settled
        assert self.ends == 1


EVENTS = st.sampled_from(["answer", "answer", "answer", "refuse", "outside", "lost", "late", "cancel", "run"])


@given(graphs(), st.data())
def test_any_order_of_events_ends_every_run(
    reads: Mapping[str, tuple[str, ...]], data: st.DataObject
) -> None:
    checked = Checked(reads)
    _play(checked, data)
    checked.end()
    for each in checked.progress.graph.steps.values():
        failed = [variable for variable in each.reads.values() if variable in checked.progress.failures]
        if failed:
            assert not set(each.writes.values()) & checked.progress.values.keys()
            assert each.id not in checked.asked


@given(graphs(), st.data())
def test_a_run_is_taken_over_at_any_moment(reads: Mapping[str, tuple[str, ...]], data: st.DataObject) -> None:
    """Another process begins with what was stored; what ended is not asked again, what was under way once more."""
    first = Checked(reads)
    _play(first, data)
    before = first.progress
    # Of the last events nothing may have been committed, neither of a step nor of its variables.
    forgotten = data.draw(st.sets(st.sampled_from(sorted(before.steps)), max_size=2)) - before.ended
    states = {each: state for each, state in before.steps.items() if each not in forgotten}
    second = Checked(
        reads,
        values=dict(before.values),
        failures=dict(before.failures),
        states=states,
        gets=dict(before.gets),
    )
    assert not before.ended & set(second.asked)
    second.end() if second.ends == 0 else None
    assert second.progress.ended == before.graph.steps.keys()
    assert all(second.progress.values[variable] == value for variable, value in before.values.items())


def _play(checked: Checked, data: st.DataObject) -> None:
    progress = checked.progress
    for event in data.draw(st.lists(EVENTS, max_size=25)):
        under_way = checked.under_way()
        if event in ("answer", "refuse", "run") and under_way:
            each = progress.graph.steps[data.draw(st.sampled_from(under_way))]
            if event == "answer":
                checked.take(progress.answered(each.id, outcomes(each, each.name, 1000)))
            elif event == "refuse":
                checked.take(progress.refused(each.id, "step_failed", "x"))
            else:
                checked.take(progress.running(each.id))
        elif event in ("outside", "lost"):
            variable = data.draw(st.sampled_from(["x0", "x1", "x2"]))
            failure = Failure("step_failed", "x", (variable,))
            checked.take(
                progress.value(variable, "v") if event == "outside" else progress.lost(variable, failure)
            )
        elif event == "late" and progress.ended:
            each = progress.graph.steps[data.draw(st.sampled_from(sorted(progress.ended)))]
            late = progress.answered(each.id, outcomes(each, "late", 1000))
            assert not late and not progress.refused(each.id, "step_failed", "late")
        elif event == "cancel" and data.draw(st.integers(0, 5)) == 0:
            checked.take(progress.cancel())


@pytest.mark.parametrize("count", [1, 1000])
def test_an_event_costs_what_it_changes(count: int) -> None:
    names = [f"v{n}" for n in range(count)]
    progress = Progress(Graph([*(step(name) for name in names), step("end", *names)]))
    assert len(progress.begin().start) == count
    for name in names:
        changes = answered(progress, name)
        assert len(changes.steps) + len(changes.variables) <= 3
    assert answered(progress, "end").ended is RunState.DONE


# ---- what only declared workflows have


def declared(name: str, *reads: str, **more: Any) -> Step:
    """A step of a declared workflow; here the id of a variable is its name."""
    plain = step(name, *reads)
    return replace(plain, id=name, of=more.pop("of", name), **more)


def running(*steps: Step, **more: Any) -> Progress:
    progress = Progress(Graph(steps), **more)
    progress.begin()
    return progress


def test_an_end_is_waited_for_however_it_came() -> None:
    for end in ("answered", "refused", "skipped"):
        when = declared("w")
        late = declared("b", waits=("a",))
        progress = running(when, declared("a", condition=("w", "true")), late)
        assert progress.steps["b"] is StepState.WAITING
        if end == "skipped":
            assert progress.answered("w", {"w": "false"}).start == ["b"]
            assert progress.of("a").state is VariableState.SKIPPED and progress.skipped == {"a"}
            continue
        progress.answered("w", {"w": "true"})
        changes = progress.refused("a", "x", "y") if end == "refused" else progress.answered("a", {"a": "A"})
        assert changes.start == ["b"]


def test_what_must_have_ended_well_may_have_been_skipped() -> None:
    steps = [declared("w"), declared("a", condition=("w", "true")), declared("b", after=("a",))]
    assert running(*steps).answered("w", {"w": "false"}).start == ["b"]
    progress = running(*steps)
    progress.answered("w", {"w": "true"})
    assert failures(progress.refused("a", "step_failed", "x"))["b"].chain == ("b", "a")


def test_being_skipped_goes_before_failing_whatever_ends_first() -> None:
    for order in ("aw", "wa"):
        taken = [
            declared("w"),
            declared("a"),
            declared("b", "a", condition=("w", "true")),
            declared("c", "b"),
        ]
        progress = running(*taken)
        for each in order:
            refused = each == "a"
            changes = progress.refused("a", "x", "y") if refused else progress.answered("w", {"w": "false"})
        assert changes.ended is RunState.FAILED
        assert {id for id, state in progress.steps.items() if state is StepState.SKIPPED} == {"b", "c"}
        assert progress.failures.keys() == {"a"}


def test_an_output_that_was_skipped_fails_the_run() -> None:
    steps = [declared("w"), declared("a", condition=("w", "true"))]
    progress = running(*steps, gets={"a": Criteria.LATENCY})
    changes = progress.answered("w", {"w": "false"})
    assert (skipped_by(changes), changes.ended) == (["a"], RunState.FAILED)
    why = progress.why()
    assert why is not None and (why.code, why.chain) == ("output_skipped", ("a",))
    assert running(*steps, gets={"w": Criteria.LATENCY}).why() is None


def test_of_several_the_first_that_is_not_skipped_is_read() -> None:
    def three() -> Progress:
        branches = [declared("a", condition=("w", "true")), declared("b"), declared("c")]
        return running(
            declared("w"), *branches, declared("j", "a", "b", "c", primitive="first_of", first=True)
        )

    progress = three()
    assert not progress.refused("c", "x", "y").steps.get("j")
    assert not progress.answered("b", {"b": "B"}).start
    assert progress.answered("w", {"w": "false"}).start == ["j"]
    assert progress.held("j") == {"b": "B"}
    failing = three()
    failing.answered("w", {"w": "false"})
    assert failures(failing.refused("b", "x", "y"))["j"].chain == ("j", "b")


def test_a_merge_leaves_out_what_was_skipped_and_is_skipped_with_all_of_it() -> None:
    branches = [declared("a", condition=("w", "true")), declared("b", condition=("w", "false"))]
    merge = declared("m", "a", "b", primitive="merge", first=True)
    progress = running(declared("w"), *branches, merge)
    progress.answered("w", {"w": "true"})
    assert progress.answered("a", {"a": ["A"]}).start == ["m"] and progress.held("m") == {"a": ["A"]}
    alone = running(declared("w"), branches[0], declared("m", "a", primitive="merge", first=True))
    assert skipped_by(alone.answered("w", {"w": "false"})) == ["a", "m"]


def test_a_gather_starts_when_it_knows_its_pieces() -> None:
    gather = declared("g", "list", primitive="gather", open=True)
    progress = Progress(Graph([gather]), values={"list": ["x"]})
    assert not progress.begin()
    piece = declared("g[0]", of="g")
    assert progress.grow(Added([piece], [("g", {"g[0]": "g[0]"})])).start == ["g[0]"]
    assert progress.answered("g[0]", {"g[0]": "X"}).start == ["g"]
    assert progress.held("g") == {"list": ["x"], "g[0]": "X"}


def test_between_parts_of_one_step_a_failure_stays_what_it_is() -> None:
    gather = declared("g", "g[0]", primitive="gather")
    progress = running(declared("g[0]", of="g"), gather, declared("h", "g"))
    failed = failures(progress.refused("g[0]", "step_failed", "x", 404))
    assert failed["g"] == Failure("step_failed", "x", ("g",), 404)
    assert failed["h"] == Failure("step_failed", "x", ("h", "g"), 404)


def test_opaque_values_are_ready_but_not_told_as_values() -> None:
    progress = running(declared("v", primitive="embed"), declared("i", "v", primitive="ingest"))
    made = Opaque([1.0])
    changes = progress.answered("v", {"v": made})
    assert (changes.variables["v"].held, ready(changes), changes.start) == (made, {}, ["i"])
    assert progress.of("v").state is VariableState.READY and "v" not in progress.values
    assert progress.held("i") == {"v": made}


def test_vectors_are_made_again_only_where_something_needs_them() -> None:
    steps = [
        declared("v", primitive="embed"),
        declared("i", "v", primitive="ingest"),
        declared("s", "i"),
        declared("t", "i"),
    ]
    done = dict.fromkeys(("v", "i", "s"), StepState.DONE)
    needed = Progress(Graph(steps), values={"s": "S"}, states=done)
    assert needed.begin().start == ["v"] and needed.steps["i"] is StepState.WAITING
    over = Progress(Graph(steps[:3]), values={"s": "S"}, states=done)
    assert over.begin().ended is RunState.DONE


def test_what_only_waits_for_an_index_does_not_have_it_made_again() -> None:
    waiting = [declared("a", after=("i",)), declared("w", waits=("i",))]
    steps = [declared("v", primitive="embed"), declared("i", "v", primitive="ingest"), *waiting]
    progress = Progress(Graph(steps), states=dict.fromkeys(("v", "i"), StepState.DONE))
    assert progress.begin().start == ["a", "w"]
    assert progress.of("i").state is VariableState.READY
    later = [declared("b", after=("i",)), declared("x", waits=("v",))]
    assert progress.grow(Added(later)).start == ["b", "x"]


def test_an_unknown_step_waits_for_whoever_knows() -> None:
    def adopted() -> Progress:
        steps = [
            declared("t", primitive="tool", effects=True),
            declared("a", "t"),
            declared("b", after=("t",)),
        ]
        progress = Progress(Graph(steps), states={"t": StepState.UNKNOWN})
        assert not progress.begin().start and progress.state is RunState.RUNNING
        return progress

    assert adopted().resolve("t", "retry").start == ["t"]
    skipped = adopted().resolve("t", "skip")
    assert skipped_by(skipped) == ["t", "a"] and skipped.start == ["b"]
    told = adopted()
    assert told.resolve("t", "value", "sent").start == ["a", "b"] and told.values["t"] == "sent"
    with pytest.raises(ValueError, match="not unknown"):
        told.resolve("t", "skip")
    cancelled = adopted().cancel()
    assert cancelled.ended is RunState.CANCELLED and not cancelled.stop
    live = running(declared("t", primitive="tool", effects=True))
    assert live.unknown("t").steps == {"t": StepState.UNKNOWN} and not live.unknown("t").start
    resumed = Progress(Graph([declared("t"), declared("a", "t")]), states={"t": StepState.SKIPPED})
    assert skipped_by(resumed.begin()) == ["a"]


def test_what_grows_in_a_cancelled_run_is_cancelled() -> None:
    progress = running(declared("a"))
    progress.cancel()
    assert progress.grow(Added([declared("b")])).steps == {"b": StepState.CANCELLED}
