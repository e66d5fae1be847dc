"""Computes the key of a request among exact answers: two requests share it only if any engine must see them as the same.

Knows OpenAI's field names only to leave a few out. Asks no database.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import orjson

NOT_IN_THE_KEY = frozenset({"stream", "stream_options", "user", "store", "safety_identifier", "service_tier"})
"""Top-level fields that do not change what a model should answer."""
PREFIXES_NOT_IN_THE_KEY = ("prompt_cache_", "x_understudy", "understudy")

_PERSON = b"understudy-exact"
_FAST = b"f"
_SLOW = b"s"


def exact_key(
    tenant: str, endpoint: str, policy: str, fields: Mapping[str, Any], ignored: Collection[str] = ()
) -> bytes:
    """The 32-byte key of a request: BLAKE2b (RFC 7693) over tenant, endpoint, policy and the canonical body.

    `fields` is the parsed JSON object: dict, list, str, int, float, bool and None. The whole of it counts but for the
    short list above and `ignored`, at the top level only. The order of keys never matters; the order of lists does; 1,
    1.0, True and "1" are four values; numbers count exactly. The reader of the request must therefore parse without
    loss: an integer beyond 64 bits has to arrive here as an int, which orjson.loads does not do.

    Raises TypeError for a value that JSON cannot hold.
    """
    kept = {
        name: value
        for name, value in fields.items()
        if name not in NOT_IN_THE_KEY and name not in ignored and not name.startswith(PREFIXES_NOT_IN_THE_KEY)
    }
    form, body = _canonical(kept)
    digest = hashlib.blake2b(digest_size=32, person=_PERSON)
    for part in (_encoded(tenant), _encoded(endpoint), _encoded(policy), form, body):
        digest.update(struct.pack(">Q", len(part)))
        digest.update(part)
    return digest.digest()


def _canonical(kept: dict[str, Any]) -> tuple[bytes, bytes]:
    """The body as bytes, and which of two ways wrote them.

    Whether orjson refuses a body depends on what is in it and never on its order, so equal bodies go the same way;
    the name of the way is part of the key, so the two need not agree on a single byte.
    """
    try:
        body = orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return _SLOW, "".join(_pieces(kept)).encode("utf-8", "surrogatepass")
    # orjson writes NaN and the infinities as null, which would make them equal to None and to one another.
    if b"null" in body and _has_non_finite(kept):
        return _SLOW, "".join(_pieces(kept)).encode("utf-8", "surrogatepass")
    return _FAST, body


def _has_non_finite(value: Any) -> bool:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif isinstance(value, float) and not math.isfinite(value):
            return True
    return False


def _pieces(value: Any) -> Iterator[str]:
    """Canonical JSON with no limit on depth or on the size of integers, and with NaN, Infinity and lone surrogates."""
    waiting: list[Any] = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, _Literal):
            yield value.text
        elif isinstance(value, dict):
            waiting.append(_Literal("}"))
            for name in sorted(value, reverse=True):
                waiting += (_Literal(","), value[name], _Literal(_quoted(name) + ":"))
            waiting.append(_Literal("{"))
        elif isinstance(value, list | tuple):
            waiting.append(_Literal("]"))
            for item in reversed(value):
                waiting += (_Literal(","), item)
            waiting.append(_Literal("["))
        elif isinstance(value, str):
            yield _quoted(value)
        elif value is None or isinstance(value, bool | float):
            yield json.dumps(value)
        elif isinstance(value, int):
            # Hexadecimal: Python refuses to write decimal integers of more than 4300 digits.
            yield hex(value)
        else:
            raise TypeError(f"a {type(value).__name__} is not JSON")


def _quoted(text: str) -> str:
    # Unescaped: escaping would write a pair of lone surrogates and the character they stand for alike.
    return json.dumps(text, ensure_ascii=False)


class _Literal:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
