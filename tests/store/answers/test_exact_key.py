from __future__ import annotations

import copy
import json
import math
import random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from store.answers.exact_key import NOT_IN_THE_KEY, exact_key

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.sampled_from([0.0, -0.0, 1.0, 1e16, 2.0**63, "", "1", "null", "é", "\ud800", "日本"])
    | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
bodies = st.dictionaries(
    st.sampled_from(["model", "messages", "tools", "seed", "x", "zebra"]), values, max_size=5
)

unhurried = settings(deadline=None, database=None)


def key(fields: dict[str, Any]) -> bytes:
    return exact_key("tenant", "/v1/chat/completions", "policy", fields)


def exactly(value: Any) -> Any:
    """A value that compares as the key should: type and sign of zero count, order of keys does not."""
    if isinstance(value, dict):
        return ("dict", frozenset((name, exactly(inner)) for name, inner in value.items()))
    if isinstance(value, list):
        return ("list", tuple(exactly(inner) for inner in value))
    if isinstance(value, float):
        return ("float", value.hex())
    return (type(value).__name__, value)


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        chance.shuffle(names)
        return {name: shuffled(value[name], chance) for name in names}
    if isinstance(value, list):
        return [shuffled(inner, chance) for inner in value]
    return value


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or position) in a value."""
    found: list[tuple[Any, Any]] = []
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for at, inner in list(inside):
        found += [(value, at), *places(inner)]
    return found


@unhurried
@given(bodies, bodies)
def test_two_bodies_share_a_key_only_if_they_are_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (key(one) == key(other)) == (exactly(one) == exactly(other))


@unhurried
@given(bodies, st.randoms(use_true_random=False))
def test_key_order_never_matters_at_any_depth(body: dict[str, Any], chance: random.Random) -> None:
    assert key(shuffled(body, chance)) == key(body)


@unhurried
@given(bodies, st.data())
def test_changing_any_one_value_at_any_depth_changes_the_key(
    body: dict[str, Any], data: st.DataObject
) -> None:
    assume(body)
    changed = copy.deepcopy(body)
    container, at = data.draw(st.sampled_from(places(changed)))
    new = data.draw(values)
    assume(exactly(new) != exactly(container[at]))
    container[at] = new
    assert key(changed) != key(body)


@unhurried
@given(bodies, st.data())
def test_removing_any_one_thing_at_any_depth_changes_the_key(
    body: dict[str, Any], data: st.DataObject
) -> None:
    assume(body)
    changed = copy.deepcopy(body)
    container, at = data.draw(st.sampled_from(places(changed)))
    del container[at]
    assert key(changed) != key(body)


@unhurried
@given(bodies, st.text(max_size=8), values)
def test_adding_any_field_changes_the_key_unless_it_is_on_the_list(
    body: dict[str, Any], name: str, value: Any
) -> None:
    assume(name not in body and name not in NOT_IN_THE_KEY)
    assume(not name.startswith(("prompt_cache_", "x_understudy", "understudy")))
    assert key(body | {name: value}) != key(body)


@unhurried
@given(st.lists(values, min_size=2, max_size=4))
def test_lists_keep_their_order(items: list[Any]) -> None:
    backwards = items[::-1]
    assume(exactly(items) != exactly(backwards))
    assert key({"messages": items}) != key({"messages": backwards})


@unhurried
@given(values)
def test_what_is_left_out_is_left_out_at_the_top_and_nowhere_else(value: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    left_out = [
        *NOT_IN_THE_KEY,
        "prompt_cache_key",
        "prompt_cache_anything",
        "x_understudy_mode",
        "understudy",
    ]
    for name in left_out:
        assert key(body | {name: value}) == key(body)
        assert key(body | {"messages": [{"role": "user", "content": "hello", name: value}]}) != key(body)


def test_numbers_that_look_alike_are_told_apart() -> None:
    alike = [1, 1.0, True, "1", "1.0", "true", 0, 0.0, -0.0, False, None, "null", [], {}, "", [None], "0x1"]
    alike += [
        2**63,
        2**63 + 1,
        float(2**63),
        2**64,
        2**64 + 1,
        float(2**64),
        10**30,
        10**30 + 1,
        1e30,
        hex(10**30),
    ]
    alike += [math.inf, -math.inf, math.nan, "NaN", "Infinity", 0.1, 0.1 + 2**-55, 10**5000, 10**5000 + 1]
    assert len({key({"seed": value}) for value in alike}) == len(alike)


@pytest.mark.slow
def test_a_body_deeper_than_any_parser_allows_has_a_key() -> None:
    def nested(depth: int, heart: str) -> Any:
        value: Any = heart
        for level in range(depth):
            value = [value] if level % 2 else {"a": value}
        return value

    assert key({"x": nested(50_000, "a")}) != key({"x": nested(50_000, "b")})


def test_the_parts_cannot_flow_into_one_another() -> None:
    parts = [
        ("ab", "c", ""),
        ("a", "bc", ""),
        ("a", "b", "c"),
        ("", "ab", "c"),
        ("abc", "", ""),
        ("a", "b\0c", ""),
    ]
    parts += [("x", "{}", "{}"), ("x", "", "{}{}"), ("ä", "", ""), ("a\u0308", "", "")]
    assert len({exact_key(*part, {}) for part in parts}) == len(parts)


@unhurried
@given(bodies)
def test_a_body_read_from_json_twice_has_one_key(body: dict[str, Any]) -> None:
    text = json.dumps(body)
    assert key(json.loads(text)) == key(json.loads(json.dumps(json.loads(text), indent=2)))


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError, match="set is not JSON"):
        key({"x": {1, 2}})
