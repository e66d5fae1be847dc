"""Placeholders in messages: substitution once, boundaries, and what a value cannot do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.chat import message_text
from workflows.errors import WorkflowError
from workflows.template import Template, fill, names_in

VALUES = {"a": "ONE", "b": "{{a}} and {{{{", "empty": ""}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("", ""),
        ("plain {braces} } { }}", "plain {braces} } { }}"),
        ("{{a}}", "ONE"),
        ("x{{a}}y{{a}}", "xONEyONE"),
        ("{{b}}", "{{a}} and {{{{"),
        ("{{{{a}}", "{{a}}"),
        ("{{{{{{a}}", "{{ONE"),
        ("{{{a}}}", "{ONE}"),
        ('{"k": {"v": {{a}}}}', '{"k": {"v": ONE}}'),
        ("{{empty}}", ""),
        ("{{a}}}}", "ONE}}"),
    ],
)
def test_what_a_template_says(text: str, rendered: str) -> None:
    assert Template.parse(text).render(VALUES).text == rendered


@pytest.mark.parametrize(
    "text", ["{{", "{{ a }}", "{{a}", "{{1}}", "{{a b}}", "{{}}", "x {{a{{b}}", "{{" + "n" * 65 + "}}"]
)
def test_two_braces_that_open_nothing_are_an_error(text: str) -> None:
    with pytest.raises(WorkflowError, match="is not followed by a name") as caught:
        Template.parse(text)
    assert caught.value.code == "invalid_template" and caught.value.status == 400


def test_boundaries_are_where_values_start_and_end() -> None:
    rendered = Template.parse("Write {{a}}: {{empty}}{{a}}").render(VALUES)
    assert (rendered.text, rendered.boundaries) == ("Write ONE: ONE", (6, 9, 11, 14))


def test_a_name_without_a_value_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        Template.parse("{{c}}").render(VALUES)


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You are {{a}}."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "See {{b}}"},
            {"type": "image_url", "image_url": {"url": "https://x/{{a}}"}},
            {"type": "text", "text": "{{a}}!"},
        ],
    },
    {"role": "assistant", "content": None, "tool_calls": [{"id": "{{a}}"}]},
]


def test_only_the_texts_of_messages_are_templates() -> None:
    before = json.dumps(MESSAGES)
    filled = fill(MESSAGES, VALUES)
    assert names_in(MESSAGES) == ("a", "b")
    assert filled.messages[0] == {"role": "system", "content": "You are ONE."}
    assert filled.messages[1]["content"][0] == {"type": "text", "text": "See {{a}} and {{{{"}
    assert filled.messages[1]["content"][1] == MESSAGES[1]["content"][1]
    assert filled.messages[2] is MESSAGES[2]
    assert json.dumps(MESSAGES) == before


def test_boundaries_of_messages_are_offsets_in_their_texts() -> None:
    filled = fill(MESSAGES, VALUES)
    assert filled.boundaries == ((0, 8), (0, 11), (1, 4), (1, 18), (1, 19), (1, 22))
    text = message_text(filled.messages[1]["content"])
    assert (text[4:18], text[19:]) == ("{{a}} and {{{{", "ONE!")


def test_a_short_template_cannot_grow_without_bound() -> None:
    messages = [{"role": "user", "content": "{{a}}" * 1000}]
    with pytest.raises(WorkflowError) as caught:
        fill(messages, {"a": "x" * 1000}, max_characters=999_999)
    assert (caught.value.status, caught.value.code) == (413, "request_too_large")
    assert len(fill(messages, {"a": "x" * 1000}, max_characters=1_000_000).messages) == 1


def test_an_error_names_its_message() -> None:
    with pytest.raises(WorkflowError) as caught:
        names_in([{"role": "user", "content": "fine"}, {"role": "user", "content": "{{"}])
    assert caught.value.param == "messages[1]"


@given(
    value=st.text(),
    content=st.one_of(
        st.just("a {{v}} b"),
        st.just([{"type": "text", "text": "{{v}}"}, {"type": "text", "text": "{{{{v}}"}]),
    ),
)
def test_a_value_changes_nothing_but_the_text_it_stands_in(value: str, content: Any) -> None:
    messages = [{"role": "user", "content": content}, {"role": "system", "content": "Be kind."}]
    filled = fill(messages, {"v": value}).messages
    assert [message["role"] for message in filled] == ["user", "system"] and filled[1] == messages[1]
    text = message_text(filled[0]["content"])
    assert text == (f"a {value} b" if isinstance(content, str) else f"{value}\n{{{{v}}}}")


@given(st.text(alphabet="{}ab", max_size=40), st.text(alphabet="{}ab", max_size=10))
def test_every_text_can_be_escaped(text: str, value: str) -> None:
    """Two braces become four; what then stands there is the text itself, whatever the value."""
    assert Template.parse(text.replace("{{", "{{{{")).render({"a": value, "b": value}).text == text
