"""Which task a request belongs to, and what of it is the input; what can belong to none is said by its field."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from engines.chat import ChatRequest
from router.embedding.templates import Templates
from router.plan import Ask
from router.tasks.matching import MOST_TASKS, DeclaredTask, Tasks
from router.tasks.requests import NoTask, labels_of, unsuited
from router.tasks.task import Task
from store.tasks.tasks import TaskRow

SCHEMA = {"type": "object", "properties": {"intent": {"enum": ["refund", "order"]}}, "required": ["intent"]}
ENUM = {"type": "json_schema", "json_schema": {"name": "intent", "schema": SCHEMA}}
INTENT = DeclaredTask(Task("intent", "", "m", ("refund", "order")), re.compile("(?i)classify"))


def ask(
    text: Any = "Where is it?", system: str = "Classify.", *, task: str | None = None, **fields: Any
) -> Ask:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    messages = fields.pop("messages", messages)
    return Ask(ChatRequest(b"", fields, "m", messages, stream=False, include_usage=False), "a1", task=task)


def tasks(*declared: DeclaredTask, by_enum: bool = True, templates: Templates | None = None) -> Tasks:
    return Tasks("m", declared, max_loss=0.05, by_enum=by_enum, templates=templates)


def named(found: Tasks, asked: Ask) -> str | None:
    posed = found.posed(asked)
    return None if posed is None else posed.task.name


def test_a_pattern_finds_the_requests_of_a_declared_task_and_no_others() -> None:
    found = tasks(INTENT)
    posed = found.posed(ask("Where is it?"))
    assert posed is not None and (posed.task.tenant, posed.task.labels, posed.input) == (
        "a1",
        ("refund", "order"),
        "Where is it?",
    )
    assert named(found, ask(system="Be brief.")) is None
    # It answers in another form: a student of bare labels must not.
    assert named(found, ask(response_format=ENUM)) != "intent"


def test_what_varies_is_the_input() -> None:
    found = tasks(INTENT, templates=Templates())
    rules = "Say what the customer wants. Use one of the labels of the list, and nothing else."
    rules += " Older lists, such as those of the last year, are void."
    for number in range(6):
        posed = found.posed(ask(f"{rules}\n\nCustomer: parcel {number} is late"))
    assert posed is not None and posed.input == "parcel 5 is late"


def test_an_enum_is_a_task_by_itself_per_instructions_unless_switched_off() -> None:
    posed = tasks().posed(ask(response_format=ENUM))
    assert posed is not None and posed.task.labels == ("refund", "order") and posed.source == "schema"
    assert re.fullmatch(r"intent-[0-9a-f]{8}", posed.task.name)
    assert named(tasks(), ask("Other?", response_format=ENUM)) == posed.task.name
    assert named(tasks(), ask(system="Classify in German.", response_format=ENUM)) != posed.task.name
    assert named(tasks(by_enum=False), ask(response_format=ENUM)) is None


def test_a_declared_schema_takes_the_requests_that_send_it() -> None:
    declared = DeclaredTask(Task("mood", "", "m", ("refund", "order")), None, SCHEMA)
    assert named(tasks(declared), ask(response_format=ENUM)) == "mood"
    assert named(tasks(declared, by_enum=False), ask()) is None


def test_a_name_in_the_header_makes_a_task_until_a_tenant_has_enough() -> None:
    found = tasks(INTENT)
    posed = found.posed(ask(system="Be brief.", task="tone"))
    assert posed is not None and (posed.task.name, posed.task.labels, posed.source) == ("tone", (), "header")
    assert named(found, ask(system="Be brief.", task="intent")) == "intent"
    found.follow(TaskRow("a1", "m", f"t{n}", "header") for n in range(MOST_TASKS))
    assert named(found, ask(system="Be brief.", task="tone")) is None
    assert named(found, ask(system="Be brief.", task="t7")) == "t7"
    assert named(found, replace(ask(system="Be brief.", task="tone"), tenant="b2")) == "tone"


def test_a_named_task_keeps_the_form_in_which_it_was_met() -> None:
    found = tasks()
    found.follow([TaskRow("a1", "m", "tone", "header")])
    assert named(found, ask(task="tone")) == "tone"
    assert named(found, ask(task="tone", response_format=ENUM)) is None


def test_a_proposal_counts_once_a_person_enabled_it_and_for_its_tenant_only() -> None:
    from router.digest import scope

    proposal = TaskRow("a1", "m", "task-1", "proposal", "proposed", scope(ask().chat), ("refund",))
    found = tasks()
    found.follow([proposal])
    assert named(found, ask()) is None
    found.follow([replace(proposal, state="on")])
    assert named(found, ask()) == "task-1" and named(found, ask(system="Other.")) is None
    assert named(found, replace(ask(), tenant="b2")) is None
    other = Tasks("m2", max_loss=0.05, by_enum=False)
    other.follow([replace(proposal, state="on")])
    assert named(other, ask()) is None


def test_a_paused_task_is_still_learnt_and_says_so() -> None:
    found = tasks(INTENT)
    found.follow([TaskRow("a1", "m", "intent", "configured", "paused")])
    posed = found.posed(ask())
    assert posed is not None and posed.task.paused


def test_nothing_is_learnt_of_nobody() -> None:
    assert named(tasks(INTENT), replace(ask(), anonymous=True)) is None


CALLED = {"role": "assistant", "tool_calls": [{"id": "1"}]}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tools": [{}]}, "tools"),
        ({"functions": [{}]}, "functions"),
        ({"n": 2}, "n"),
        ({"logit_bias": {"5": 100}}, "logit_bias"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"stop": ["\n"]}, "stop"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "messages"),
        (
            {"messages": [{"role": "user", "content": "a"}, CALLED, {"role": "tool", "content": "b"}]},
            "messages",
        ),
        ({"messages": [{"role": r, "content": "a"} for r in ("user", "assistant", "user")]}, "messages"),
    ],
)
def test_what_belongs_to_no_task_is_said_by_its_field(fields: dict[str, Any], field: str) -> None:
    asked = ask(task="tone", **fields)
    assert unsuited(asked.chat) == field
    assert named(tasks(INTENT), asked) is None


def test_parts_of_text_and_harmless_fields_stand_against_nothing() -> None:
    parts = [{"type": "text", "text": "Where is it?"}]
    assert (
        unsuited(ask(parts, temperature=0, logprobs=True, max_tokens=5, modalities=["text"], n=1).chat) == ""
    )


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array"}, "no object"),
        ({"type": "object", "properties": {"why": {"type": "string"}}}, "no property of it is an enum"),
        ({"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"enum": ["x", "y"]}}}, "2 enums"),
        (
            {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "why": {"type": "string"}}},
            "'why' is no enum",
        ),
        ({"type": "object", "properties": {"a": {"enum": ["x", 1]}}}, "no texts"),
        ({"type": "object", "properties": {"a": {"enum": ["x"]}}}, "has 1 values"),
        (
            {"type": "object", "properties": {"a": {"enum": ["Refund", "other", "refund."]}}},
            "'Refund' and 'refund.', the same label",
        ),
        ({"type": "object", "properties": {"a": {"enum": ["x", "x"]}}}, "'x' and 'x', the same label"),
        ({"type": "object", "properties": {"a": {"enum": ["x", " _ "]}}}, "nothing but marks"),
    ],
)
def test_a_schema_that_is_no_task_says_what_it_is(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(NoTask, match=why):
        labels_of(schema)
