"""What is written and counted in steps is what one call would write and count."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import large_json
from engines.large_json import count, is_escaped, loads, outlined

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@settings(max_examples=200)
@given(values)
def test_the_same_bytes_are_written(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(large_json, "_STEP", 3)
        written = orjson.dumps(outlined(value), option=orjson.OPT_SORT_KEYS)
    assert written == orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def test_text_with_everything_that_is_escaped_is_the_same_where_it_is_cut() -> None:
    text = "".join(map(chr, range(0xD800))) * 20 + "\U0001f600" * 300_000
    value = {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}], "n": 1}
    assert orjson.dumps(outlined(value)) == orjson.dumps(value)


def test_integers_beyond_64_bits_are_refused_as_before() -> None:
    with pytest.raises(TypeError):
        orjson.dumps(outlined({"n": 2**70, "text": "x" * 2**20}))


@given(st.binary(max_size=50))
def test_the_same_is_counted(body: bytes) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(large_json, "_STEP", 3)
        assert count(body, b"\0") == body.count(b"\0")


def read_in_small_steps(body: bytes) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(large_json, "_STEP", 5)
        patched.setattr(large_json, "_WINDOW", 3)
        patched.setattr(large_json, "_LONG_WINDOWS", 2)
        return loads(body)


letters = st.sampled_from(["a", " ", '"', "\\", "\n", "\u00e9", "\u6587", "\U0001f600", ":", "[", "1", "\0"])
texts = st.lists(letters, max_size=60).map("".join)
readable = st.recursive(
    texts | st.integers(-(2**62), 2**62) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
)


@settings(max_examples=200)
@given(readable, st.booleans(), st.booleans())
def test_the_same_is_read(value: Any, escaped: bool, spaced: bool) -> None:
    body = json.dumps(value, ensure_ascii=escaped, indent=2 if spaced else None).encode()
    assert read_in_small_steps(body) == value


@settings(max_examples=200)
@given(readable, st.booleans(), st.data())
def test_what_is_no_json_is_refused_the_same_way(value: Any, escaped: bool, data: st.DataObject) -> None:
    body = bytearray(json.dumps(value, ensure_ascii=escaped).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.sampled_from(b'"\\ud8e,:[]{}\xe9\x00 a1'))
    try:
        wanted = orjson.loads(bytes(body))
    except orjson.JSONDecodeError as error:
        with pytest.raises(orjson.JSONDecodeError, match=re.escape(str(error))):
            read_in_small_steps(bytes(body))
    else:
        assert read_in_small_steps(bytes(body)) == wanted


@pytest.mark.parametrize(
    "text",
    ["a b\n" * 200_000, "\u6587\u5b57" * 200_000, "\U0001f600" * 200_000, "\\" * 700_000, '\\"' * 400_000],
)
@pytest.mark.parametrize("escaped", [True, False])
def test_long_strings_of_every_kind_are_read(text: str, escaped: bool) -> None:
    value = {"messages": [{"role": "user", "content": text}, text], "model": "m", "n": [1] * 1000}
    assert loads(json.dumps(value, ensure_ascii=escaped).encode()) == value


def test_a_long_string_that_is_a_key_is_read() -> None:
    value = {"x" * 1_000_000: "y" * 1_000_000}
    assert loads(json.dumps(value).encode()) == value


@given(st.lists(st.sampled_from([b"\\", b"\\\\", b"\\" * 50, b'"', b"a"]), max_size=30).map(b"".join))
def test_a_mark_is_escaped_behind_an_odd_number_of_backslashes(body: bytes) -> None:
    for at in range(len(body) + 1):
        before = body[:at]
        assert is_escaped(body, at) is ((len(before) - len(before.rstrip(b"\\"))) % 2 == 1)
