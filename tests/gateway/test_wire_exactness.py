"""The quick reading of a body and the exact one agree, and what the quick one would lose is noticed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.chat_json import parse_object
from engines.errors import RequestError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values, max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_every_body_is_read_as_json_reads_it(
    value: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    body = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assert repr(parse_object(body)) == repr(json.loads(body)), "types too: 1 is not 1.0"


@pytest.mark.parametrize("number", [2**63, 2**64, 2**64 + 1, -(2**63) - 1, 10**30])
def test_no_integer_is_rounded(number: int) -> None:
    assert parse_object(b'{"a":{"b":[%d]}}' % number) == {"a": {"b": [number]}}


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a" :2}',
        b'{"a":1,"\\u0061":2}',
        b'{"x":[{"a":1,"b":{"c":1,"c":1}}]}',
        b'{"text":"\\":","a":1,"a":2}',
    ],
)
def test_a_key_given_twice_is_noticed_however_it_is_written(body: bytes) -> None:
    with pytest.raises(RequestError, match="twice"):
        parse_object(body)


def test_text_that_looks_like_a_key_is_no_error() -> None:
    assert parse_object(b'{"a":"say \\"b\\": c"}') == {"a": 'say "b": c'}
