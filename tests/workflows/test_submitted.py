"""What a client may submit: every mistake is refused with its field and the reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.bodies import LIMITS, call, step
from workflows.criteria import Criteria
from workflows.definition import Output
from workflows.errors import WorkflowError
from workflows.names import new_id
from workflows.submitted import (
    Budget,
    Limits,
    read_resolution,
    read_run,
    read_step,
    read_workflow_call,
    read_workflow_run,
)
from workflows.transform import Transform

ID = new_id("var")


def test_a_whole_submit() -> None:
    asked = read_step(
        call(
            "Test {{task}}. Code: {{code}}",
            app="game-42",
            inputs={"task": "a snake game"},
            submit=True,
            criteria="latency",
            output={"name": "tests", "transform": [{"regex": "```python\n([\\s\\S]*?)```"}]},
        ),
        LIMITS,
    )
    assert asked.chat == {
        "model": "m",
        "messages": [{"role": "user", "content": "Test {{task}}. Code: {{code}}"}],
    }
    assert asked.spec.given == {"task": "a snake game"} and asked.names == ("code",)
    assert (asked.submit, asked.app, asked.criteria) == (True, "game-42", Criteria.LATENCY)
    assert asked.spec.outputs == (Output("tests", (Transform("regex", "```python\n([\\s\\S]*?)```"),)),)


def test_an_input_is_a_text_an_id_or_a_name() -> None:
    asked = read_step(
        call(
            "{{a}} {{b}} {{c}}", app="x", inputs={"a": "A", "b": {"variable": ID}, "c": {"variable": "other"}}
        ),
        LIMITS,
    )
    assert asked.spec.given == {"a": "A"}
    assert asked.spec.sources == {"b": ID, "c": "other"} and asked.names == ("other",)


def test_an_empty_object_is_a_plain_call() -> None:
    asked = read_step(call("Hello"), LIMITS)
    assert not asked.submit and not asked.spec.outputs and not asked.spec.sources


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"messages": [], "understudy": []}, "understudy", "invalid_workflow"),
        ({"understudy": {}}, "messages", "invalid_workflow"),
        ({"messages": ["x"], "understudy": {}}, "messages", "invalid_workflow"),
        (call("x", apps="y"), "understudy.apps", "unknown_field"),
        (call("x", app="a b"), "understudy.app", "invalid_workflow"),
        (call("x", submit=1), "understudy.submit", "invalid_workflow"),
        (call("x", submit=True), "understudy.output", "invalid_workflow"),
        (call("x", criteria="fast"), "understudy.criteria", "invalid_workflow"),
        (call("x", criteria=[]), "understudy.criteria", "invalid_workflow"),
        (call("x", inputs=[]), "understudy.inputs", "invalid_workflow"),
        (call("x", inputs={"a b": "c"}), "understudy.inputs", "invalid_workflow"),
        (call("x", inputs={"a": 3}), "understudy.inputs.a", "invalid_workflow"),
        (call("x", inputs={"a": {"variable": "a b"}}), "understudy.inputs.a", "invalid_workflow"),
        (call("x", inputs={"a": {"variable": ID, "b": 1}}), "understudy.inputs.a", "invalid_workflow"),
        (call("x", output="a"), "understudy.output", "invalid_workflow"),
        (call("x", output={"name": ID}), "understudy.output.name", "invalid_workflow"),
        (call("x", output={"name": "a", "as": "b"}), "understudy.output.as", "unknown_field"),
        (
            call("x", output={"name": "a", "transform": [{"upper": 1}]}),
            "understudy.output.transform[0]",
            "unknown_transform",
        ),
        (call("x", output={"name": "a"}, outputs=[]), "understudy.outputs", "invalid_workflow"),
        (call("x", outputs={"name": "a"}), "understudy.outputs", "invalid_workflow"),
        (call("x", outputs=[{"name": "a"}, {"name": "a"}]), "understudy.outputs[1].name", "duplicate_output"),
        (call("{{a}}"), "messages", "unknown_name"),
        (call("{{a}}", inputs={"a": {"variable": "b"}}), "understudy.inputs", "unknown_name"),
        (call("{{ a }}", app="x"), "messages[0]", "invalid_template"),
        (step("{{a}}", "a", app="x"), "messages", "cycle"),
        ({**step("x", "a"), "n": 2}, "n", "invalid_workflow"),
        ({**step("x", "a", submit=True), "stream": True}, "stream", "invalid_workflow"),
    ],
)
def test_a_bad_call_is_refused(body: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(WorkflowError) as caught:
        read_step(body, LIMITS)
    assert (caught.value.param, caught.value.code, caught.value.status) == (param, code, 400)


def test_a_value_has_a_largest_size_in_bytes() -> None:
    limits = Limits(max_steps=1, max_value_bytes=4)
    assert read_step(call("{{a}}", inputs={"a": "éé"}), limits).spec.given == {"a": "éé"}
    for text in ("ééx", "abcde"):
        with pytest.raises(WorkflowError) as caught:
            read_step(call("{{a}}", inputs={"a": text}), limits)
        assert (caught.value.status, caught.value.code) == (413, "value_too_large")
        assert text not in caught.value.message


# ---- runs


def test_a_run_in_any_order() -> None:
    asked = read_run(
        {
            "steps": [
                step("Test {{task}}: {{code}}", "tests"),
                step("Plan {{task}} in {{style}}", "plan", inputs={"style": "prose"}),
                step("Write {{task}}: {{p}}", "code", inputs={"p": {"variable": "plan"}}),
            ],
            "inputs": {"task": "a snake game"},
            "get": {"tests": "latency", "code": "throughput"},
            "budget": {"usd": 0.5, "tokens": 1000, "seconds": None},
            "background": True,
        },
        LIMITS,
    )
    assert [(each.spec.given, each.spec.sources) for each in asked.steps] == [
        ({"task": "a snake game"}, {"code": "code"}),
        ({"task": "a snake game", "style": "prose"}, {}),
        ({"task": "a snake game"}, {"p": "plan"}),
    ]
    assert asked.get == {"tests": Criteria.LATENCY, "code": Criteria.THROUGHPUT}
    assert asked.budget == Budget(0.5, 1000, None)
    assert (asked.background, asked.stream, asked.app, asked.from_app) == (True, False, None, ())


def test_what_a_waiting_client_gets_unless_it_says() -> None:
    steps = [step("x", "a"), step("{{a}}", "b"), step("{{a}}", "c", criteria="throughput")]
    assert read_run({"steps": steps[:2]}, LIMITS).get == {"b": Criteria.LATENCY}
    assert read_run({"steps": steps[:2], "background": True}, LIMITS).get == {}
    assert read_run({"steps": steps}, LIMITS).get == {"c": Criteria.THROUGHPUT}


def test_names_of_the_app_are_told() -> None:
    asked = read_run({"app": "x", "steps": [step("{{old}} {{b}}", "a"), step("y", "b", app="x")]}, LIMITS)
    assert (asked.app, asked.from_app, asked.outputs) == ("x", ("old",), ("a", "b"))


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ([], None, "invalid_workflow"),
        ({"workflow": "w"}, "workflow", "unknown_field"),
        ({"step": []}, "step", "unknown_field"),
        ({"steps": []}, "steps", "invalid_workflow"),
        ({"steps": [step("x", "a")] * 1001}, "steps", "too_many_steps"),
        ({"steps": ["x"]}, "steps[0]", "invalid_workflow"),
        ({"steps": [call("x")]}, "steps[0].understudy.output", "invalid_workflow"),
        ({"steps": [{"messages": []}]}, "steps[0].understudy", "invalid_workflow"),
        ({"steps": [step("{{", "a")]}, "steps[0].messages[0]", "invalid_template"),
        ({"steps": [step("x", "a", inputs={"b": 1})]}, "steps[0].understudy.inputs.b", "invalid_workflow"),
        ({"steps": [step("x", "a"), step("y", "a")]}, "steps[1].understudy.output", "duplicate_output"),
        ({"steps": [step("x", "a")], "inputs": {"a": "b"}}, "steps[0].understudy.output", "duplicate_output"),
        ({"steps": [step("x", "a"), step("{{c}}", "b")]}, "steps[1].messages", "unknown_name"),
        ({"steps": [step("{{a}}", "a")]}, "steps", "cycle"),
        (
            {"steps": [step("x", "a", app="p"), step("x", "b", app="q")]},
            "steps[1].understudy.app",
            "invalid_workflow",
        ),
        ({"steps": [step("x", "a")], "get": ["a"]}, "get", "invalid_workflow"),
        ({"steps": [step("x", "a")], "get": {"b": "latency"}}, "get.b", "unknown_name"),
        ({"steps": [step("x", "a")], "get": {"a": None}}, "get.a", "invalid_workflow"),
        ({"steps": [step("x", "a")], "budget": {"usd": 0}}, "budget.usd", "invalid_workflow"),
        ({"steps": [step("x", "a")], "budget": {"tokens": 1.5}}, "budget.tokens", "invalid_workflow"),
        (
            {"steps": [step("x", "a")], "budget": {"seconds": float("inf")}},
            "budget.seconds",
            "invalid_workflow",
        ),
        ({"steps": [step("x", "a")], "budget": {"usd": True}}, "budget.usd", "invalid_workflow"),
        ({"steps": [step("x", "a")], "budget": {"tokens": 2**64}}, "budget.tokens", "invalid_workflow"),
        ({"steps": [step("x", "a")], "budget": {"eur": 1}}, "budget.eur", "unknown_field"),
        ({"steps": [step("x", "a")], "background": "yes"}, "background", "invalid_workflow"),
    ],
)
def test_a_bad_run_is_refused(body: Any, param: str | None, code: str) -> None:
    with pytest.raises(WorkflowError) as caught:
        read_run(body, LIMITS)
    assert (caught.value.param, caught.value.code, caught.value.status) == (param, code, 400)


def test_a_circle_is_listed() -> None:
    steps = [step("{{c}}", "a"), step("{{a}} {{x}}", "b"), step("{{b}}", "c"), step("y", "x")]
    with pytest.raises(WorkflowError) as caught:
        read_run({"steps": steps}, LIMITS)
    names = caught.value.message.partition(": ")[2].rstrip(".").split(" -> ")
    assert names[0] == names[-1] and sorted(names[1:]) == ["a", "b", "c"]
    assert names[1] == {"a": "b", "b": "c", "c": "a"}[names[0]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "steps",
                    "inputs",
                    "get",
                    "app",
                    "understudy",
                    "messages",
                    "output",
                    "name",
                    "transform",
                    "content",
                    "a",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_read_or_refused_in_our_words(body: Any) -> None:
    with_steps = {"steps": [body]} if not isinstance(body, dict) or "steps" not in body else body
    for each in (body, with_steps):
        try:
            read_run(each, LIMITS)
        except WorkflowError as error:
            assert error.message and error.status in (400, 413)


# ---- calls of declared workflows


def called(**more: object) -> dict[str, object]:
    return {"model": "doc-qa", "messages": [{"role": "user", "content": "What?"}], **more}


def test_a_call_of_a_workflow_hands_on_how_its_answer_is_to_be() -> None:
    asked = read_workflow_call(
        called(
            temperature=0, stop=["x"], seed=None, stream=True, user="u", understudy={"inputs": {"a": ["b"]}}
        )
    )
    assert asked.name == "doc-qa" and asked.stream
    assert asked.inputs == {"a": ["b"]} and asked.sampling == {"temperature": 0, "stop": ["x"]}
    assert read_workflow_call(called(tools=[], n=1)).inputs is None


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"functions": [{}]}, "functions", "unsupported_field"),
        ({"n": 2}, "n", "unsupported_field"),
        ({"logprobs": True}, "logprobs", "unsupported_field"),
        ({"understudy": {"app": "a"}}, "understudy.app", "unknown_field"),
        ({"understudy": []}, "understudy", "invalid_workflow"),
        ({"stream": 1}, "stream", "invalid_workflow"),
    ],
)
def test_what_a_workflow_does_not_take(more: dict[str, object], param: str, code: str) -> None:
    with pytest.raises(WorkflowError) as refused:
        read_workflow_call(called(**more))
    assert (refused.value.param, refused.value.code, refused.value.status) == (param, code, 400)


def test_a_run_of_a_workflow() -> None:
    asked = read_workflow_run({"workflow": "w", "inputs": {"q": 1}, "background": True, "budget": {"usd": 2}})
    assert (asked.name, asked.inputs, asked.background, asked.stream) == ("w", {"q": 1}, True, False)
    assert asked.budget == Budget(usd=2)
    for body, param in (({"workflow": 1}, "workflow"), ({"workflow": "w", "steps": []}, "steps")):
        with pytest.raises(WorkflowError) as refused:
            read_workflow_run(body)
        assert refused.value.param == param


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"action": "retry"}, ("retry", None)),
        ({"action": "skip"}, ("skip", None)),
        ({"value": "sent"}, ("value", "sent")),
        ({"value": ["a", "b"]}, ("value", ["a", "b"])),
    ],
)
def test_what_becomes_of_a_step_that_nobody_knows_of(body: object, found: tuple[str, object]) -> None:
    assert read_resolution(body, 100) == found


@pytest.mark.parametrize(
    ("body", "param", "status"),
    [
        ([], None, 400),
        ({}, "action", 400),
        ({"action": "again"}, "action", 400),
        ({"action": "retry", "value": "x"}, "action", 400),
        ({"value": 1}, "value", 400),
        ({"value": ["a", 1]}, "value", 400),
        ({"value": "x" * 101}, "value", 413),
        ({"what": 1}, "what", 400),
    ],
)
def test_resolutions_that_are_none(body: object, param: str | None, status: int) -> None:
    with pytest.raises(WorkflowError) as refused:
        read_resolution(body, 100)
    assert (refused.value.param, refused.value.status) == (param, status)
