"""What a request is about, and where an example may be used."""

from __future__ import annotations

from typing import Any

import pytest

from engines.chat import ChatRequest
from router.digest import NO_INSTRUCTIONS, carries_tools, is_plain_text, question, scope, scope_of
from store.admission.cutting import cut


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def chat(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    return ChatRequest(b"", fields, "m", messages, stream=False, include_usage=False)


def test_a_single_turn_is_its_own_question() -> None:
    assert question([{"role": "system", "content": "Be brief."}, user("  What is it? ")]) == "What is it?"


def test_a_follow_up_carries_what_it_follows() -> None:
    earlier = [user("Tell me of Oslo."), {"role": "assistant", "content": "A city."}]
    asked = question([*earlier, user("And in winter?")])
    assert asked.startswith("And in winter?") and "Oslo" in asked and "A city." in asked
    assert asked != question([user("Tell me of Rome."), earlier[1], user("And in winter?")])


def test_text_parts_count_and_other_parts_do_not() -> None:
    parts = [
        {"type": "text", "text": "What is"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "this?"},
    ]
    assert question([user(parts)]) == "What is\nthis?"


@pytest.mark.parametrize(
    "messages", [[], [{"role": "assistant", "content": "hi"}], [user(None)], [user("  ")]]
)
def test_without_a_user_turn_there_is_no_question(messages: list[dict[str, Any]]) -> None:
    assert question(messages) == ""


def test_a_cut_keeps_both_ends() -> None:
    text = "begin " + "x" * 5000 + " end"
    short = cut(text, 300)
    assert len(short) == 300 and short.startswith("begin ") and short.endswith(" end")
    assert cut("short", 300) == "short"


def test_scope_follows_instructions_and_form_and_nothing_else() -> None:
    french, german = ({"role": "system", "content": f"Answer in {x}."} for x in ("French", "German"))
    base = scope(chat(french, user("a")))
    assert base == scope(chat(french, user("another question"), temperature=1))
    assert base != scope(chat(german, user("a")))
    assert base != scope(chat(user("a")))
    assert base != scope(chat(french, user("a"), response_format={"type": "json_object"}))


def test_scope_of_moved_text_differs() -> None:
    one = scope(chat({"role": "system", "content": "ab"}, {"role": "system", "content": "c"}))
    other = scope(chat({"role": "system", "content": "a"}, {"role": "system", "content": "bc"}))
    assert one != other


def test_a_date_or_an_id_in_the_instructions_makes_no_other_scope() -> None:
    def under(text: str, **fields: Any) -> str:
        return scope(chat({"role": "system", "content": text}, user("a"), **fields))

    today = under("You are a bot.\nToday is 2026-11-22, 10:42. Session 9f86d081884c7d65.")
    assert today == under("You are a bot.\nToday is 2026-11-23, 09:01. Session 60303ae22b998861.")
    assert today != under("You are a poet.\nToday is 2026-11-22, 10:42. Session 9f86d081884c7d65.")
    # What a schema says is not text that varies.
    dated = {"type": "json_schema", "json_schema": {"enum": ["2026-11-22"]}}
    other = {"type": "json_schema", "json_schema": {"enum": ["2026-11-23"]}}
    assert under("Today is 2026-11-22.", response_format=dated) != under(
        "Today is 2026-11-22.", response_format=other
    )


def test_instructions_without_such_spans_keep_the_scope_that_earlier_versions_gave_them() -> None:
    assert scope(chat({"role": "system", "content": "Be brief."}, user("a"))) == "9dac948f9f93169ab4de77af"
    assert scope_of(NO_INSTRUCTIONS) == "1b1a0825170375f5c73371e9"


def test_a_client_may_name_the_scope() -> None:
    one = chat({"role": "system", "content": "You talk to Ann."}, user("a"))
    other = chat({"role": "system", "content": "You talk to Bob."}, user("a"))
    assert scope(one) != scope(other)
    assert scope(one, named="support") == scope(other, named="support") != scope(one, named="sales")
    form = chat(user("a"), response_format={"type": "json_object"})
    assert scope(form, named="support") != scope(one, named="support")


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "content": "x", "tool_call_id": "1"},
        {"role": "assistant", "content": None, "tool_calls": [{}]},
        user([{"type": "image_url"}]),
        user(["odd"]),
    ],
)
def test_tools_and_images_are_not_plain_text(message: dict[str, Any]) -> None:
    assert is_plain_text([user("a")]) and not is_plain_text([user("a"), message])


def test_offered_tools_are_seen() -> None:
    assert (
        carries_tools(chat(tools=[{}]))
        and carries_tools(chat(functions=[{}]))
        and not carries_tools(chat(tools=[]))
    )
