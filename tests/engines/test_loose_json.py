"""What is missing, or of another type, is nothing."""

from __future__ import annotations

from engines.loose_json import listed, member, objects, text


def test_what_is_there_is_given_and_all_else_is_nothing() -> None:
    assert member({"a": 1}, "a") == 1 and member({"a": 1}, "b") is None
    assert all(member(other, "a") is None for other in (None, "a", ["a"], 1))
    assert listed([1]) == [1] and listed({"a": 1}) == listed(None) == listed("a") == []
    assert objects([{"a": 1}, None, [], "a"]) == [{"a": 1}] and objects({"a": 1}) == []
    assert text("a") == "a" and text(1) == text(None) == ""
