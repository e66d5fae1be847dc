"""What is written and counted in steps is what one call would write and count."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import large_json
from engines.large_json import count, outlined

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
