"""Where a conversation goes: the same in every worker, by weight, and only what must move moves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from engines.sessions import Places, home, named_key, unnamed_key
from tests.engines.asking import chat, request


def test_homes_are_shares_by_weight_and_only_those_of_a_lost_replica_move() -> None:
    weights = {"a:1": 1.0, "b:1": 2.0, "c:1": 1.0}
    keys = [named_key("t", f"session {number}") for number in range(4000)]
    homes = {key: home(key, weights) for key in keys}
    shares = Counter(homes.values())
    assert 0.45 < shares["b:1"] / len(keys) < 0.55 and shares["a:1"] > 800 and shares["c:1"] > 800
    left = {name: weight for name, weight in weights.items() if name != "b:1"}
    for key, was in homes.items():
        assert home(key, left) == was or was == "b:1"


def test_names_are_each_tenants_own() -> None:
    assert named_key("a", "s") != named_key("b", "s") and named_key("a", "bs") != named_key("ab", "s")


def test_a_conversation_is_known_by_its_beginning() -> None:
    system, topic = {"role": "system", "content": "S"}, {"role": "user", "content": "T"}
    first, later = (
        chat(messages=[system, topic]),
        chat(messages=[system, topic, {"role": "assistant"}, topic]),
    )
    key, is_later = unnamed_key(first)
    assert key is not None and not is_later and unnamed_key(later) == (key, True)
    others = [
        chat(messages=[topic]),
        chat(messages=[{"role": "system", "content": "Other"}, topic]),
        chat(messages=[system, {"role": "user", "content": "U"}]),
        chat(messages=[{"role": "system", "content": "ST"}, {"role": "user", "content": ""}]),
        replace(first, tenant="another"),
        chat(messages=[system, {"role": "user", "content": [{"type": "text", "text": "T"}]}]),
        chat(
            messages=[
                system,
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:1"}}]},
            ]
        ),
        chat(
            messages=[
                system,
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:2"}}]},
            ]
        ),
    ]
    keys = [unnamed_key(other)[0] for other in others]
    assert len({key, *keys}) == len(others) + 1 and None not in keys


@pytest.mark.parametrize(
    "messages", [[], [{"role": "system", "content": "S"}], [{"role": "user", "content": "\ud800"}]]
)
def test_what_has_no_beginning_is_no_conversation(messages: list[dict[str, str]]) -> None:
    base = chat()
    assert base.chat is not None
    key, later = unnamed_key(replace(base, chat=replace(base.chat, messages=messages)))
    assert (key is None) == (not messages or messages[0]["role"] == "system") and not later
    assert unnamed_key(request()) == (None, False)


def test_the_latest_used_are_held() -> None:
    places = Places(most=3)
    for number in range(3):
        places.put(b"%d" % number, "a:1")
    assert places.get(b"0") == "a:1"
    places.put(b"3", "b:1")
    assert [places.get(b"%d" % number) for number in range(4)] == ["a:1", None, "a:1", "b:1"] and len(
        places
    ) == 3
