"""What a body names that an upstream has stored, at any depth, and what only sounds like it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.access.stored_ids import stored_ids

_NAMES = st.sampled_from(["content", "messages", "tools", "input", "file", "a", "type"])


@given(st.lists(st.tuples(st.booleans(), _NAMES), max_size=30))
def test_no_depth_hides_an_id(levels: list[tuple[bool, str]]) -> None:
    value: Any = {"file_id": "file-1"}
    for listed, name in levels:
        value = {name: [1, [value]] if listed else value}
    assert [(one.family, one.id) for one in stored_ids(value)] == [("/files", "file-1")]


def test_every_kind_of_value_counts_but_what_is_none() -> None:
    named: dict[str, Any] = {
        "vector_store_ids": ["vs_1", "", 7, None, "vs_2"],
        "file_id": None,
        "container": {"id": "c"},
    }
    assert sorted(one.id for one in stored_ids(named)) == ["c", "vs_1", "vs_2"]
    assert (
        list(
            stored_ids(
                {
                    "file_id": {"type": "string"},
                    "prompt": "x",
                    "voice": "alloy",
                    "container": {"type": "auto"},
                }
            )
        )
        == []
    )
    assert [one.family for one in stored_ids({"assistant_id": "a"})] == ["/assistants"]
    assert (
        list(stored_ids({"tool_call_id": "c", "metadata": {"file_id": "f"}, "understudy": {"file_id": "f"}}))
        == []
    )


def test_a_chat_that_is_to_be_stored_names_the_store() -> None:
    assert [one.family for one in stored_ids({"store": True}, chat=True)] == ["/chat/completions/stored"]
    assert list(stored_ids({"store": True})) == []
    assert [one.family for one in stored_ids({"model": "ft:gpt:x"})] == ["/fine_tuning"]


def test_items_are_references_where_they_do_not_say_what_they_stand_for() -> None:
    items = [
        {"type": "message", "id": "msg_1", "role": "user", "content": "x"},
        {"id": "msg_2", "role": "user", "content": "x"},
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"},
        {"type": "reasoning", "id": "rs_2"},
        {"type": "item_reference", "id": "any_1"},
        {"id": "any_2"},
    ]
    found = list(stored_ids({"input": items}, items=True))
    assert [(one.id, one.noted_as) for one in found] == [
        ("rs_2", "item"),
        ("any_1", "item"),
        ("any_2", "item"),
    ]
