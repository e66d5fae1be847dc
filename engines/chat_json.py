"""Reads OpenAI JSON into the types of engines.chat. Nothing else knows what a request body looks like on the wire.

A body is judged strictly: what two parsers could read differently (duplicate keys, NaN, lone surrogates) is refused here, so
that the gateway, its cache and the upstream can never disagree on what was asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, NamedTuple

import orjson

from engines import large_json
from engines.chat import ChatRequest
from engines.errors import RequestError

_LARGE_BYTES = 2**22
_MAX_VALUES = 1_000_000
"""Counted by what separates them, also inside text. A `{}` of two bytes becomes an object of a hundred."""


def parse_object(body: bytes) -> dict[str, Any]:
    """One strict JSON object. Raises RequestError 400 saying what is wrong with it."""
    if not body.strip():
        raise RequestError("The request body is empty; it must be a JSON object.", code="empty_body")
    if (
        len(body) > _MAX_VALUES
        and sum(large_json.count(body, mark) for mark in (b",", b"[", b"{")) > _MAX_VALUES
    ):
        raise RequestError(
            f"The request body holds more than {_MAX_VALUES} values; parsed, it would fill the memory.",
            status=413,
            code="request_too_large",
        )
    try:
        parsed = large_json.loads(body) if len(body) > _LARGE_BYTES else orjson.loads(body)
        if not _surely_exact(body, parsed):
            parsed = _EACH_KEY_ONCE.decode(body.decode())
    except orjson.JSONDecodeError as error:
        raise RequestError(f"The request body is not valid JSON: {error}.", code="invalid_json") from None
    except (RecursionError, ValueError) as error:
        why = (
            str(error)
            if isinstance(error, _DuplicateKey)
            else "it is nested too deeply, or holds an absurd number"
        )
        raise RequestError(f"The request body is not acceptable JSON: {why}.", code="invalid_json") from None
    if not isinstance(parsed, dict):
        raise RequestError("The request body must be a JSON object.", code="invalid_json")
    return parsed


def _surely_exact(body: bytes, parsed: Any) -> bool:
    """Whether orjson's quick reading lost nothing: no key was given twice and no integer was rounded.

    orjson already refused NaN, lone surrogates, bad UTF-8 and endless nesting. What it lets through, it may change: of a key
    given twice it keeps the last, and integers beyond 64 bits become floats. Every key is followed by a colon, so as many
    of those as there are keys in the result means that none went missing. Text may hold such colons, too: then those behind
    a quotation mark that is not escaped count, and where there are still others the body is read again, slowly.
    """
    keys = 0
    left = [parsed]
    while left:
        item = left.pop()
        kind = type(item)
        if kind is str:
            continue
        if kind is dict:
            keys += len(item)
            left.extend(item.values())
        elif kind is list:
            left.extend(item)
        elif kind is float and abs(item) >= _ROUNDED:
            return False
    return large_json.count(body, b":") == keys or _quoted_before_colons(body) == keys


def _quoted_before_colons(body: bytes) -> int:
    """How often a colon stands behind a quotation mark that is not escaped, in steps: no step holds the interpreter long."""
    found, start = 0, 0
    while start < len(body):
        outside = _NEVER_IN_BETWEEN.search(body, start + _STEP_BYTES)
        end = outside.start() if outside is not None else len(body)
        found += len(_KEY.findall(body, start, end))
        # The first of the two is nearly always the only backslash.
        found -= sum(
            body[match.start() - 1] != _BACKSLASH or large_json.is_escaped(body, match.start() + 1)
            for match in _MAYBE_ESCAPED.finditer(body, start, end)
        )
        start = end
    return found


class _DuplicateKey(ValueError):
    pass


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(f"the key {key[:60]!r} appears twice in one object")
            seen.add(key)
    return found


_KEY = re.compile(rb'"\s*:')
_MAYBE_ESCAPED = re.compile(rb'\\"\s*:')
_NEVER_IN_BETWEEN = re.compile(rb"[^\s:]")
"""What does not stand between a quotation mark and its colon: before it, nothing is cut in two."""
_BACKSLASH = ord("\\")
_STEP_BYTES = 64 * 1024
_ROUNDED = 2.0**62
"""Floats from here on may have been integers that did not fit 64 bits."""
_EACH_KEY_ONCE = json.JSONDecoder(object_pairs_hook=_each_key_once)
"""The slow and exact reader, made once: json.loads with a hook would build a new one for every body."""


def read_chat_request(body: bytes, fields: dict[str, Any]) -> ChatRequest:
    """The typed view of a chat body. Raises RequestError 400 naming the parameter that is wrong."""
    check_types(fields, _PARAMETERS)
    messages = fields["messages"]
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            raise wrong_type(f"messages[{i}]", "an object", message)
        if not isinstance(message.get("role"), str):
            raise wrong_type(f"messages[{i}].role", "a string", message.get("role"))
        content = message.get("content")
        if content is not None and not isinstance(content, str | list):
            raise wrong_type(f"messages[{i}].content", "a string or a list of parts", content)
    options = fields.get("stream_options")
    return ChatRequest(
        body,
        fields,
        fields.get("model", ""),
        messages,
        stream=bool(fields.get("stream")),
        include_usage=bool(options and options.get("include_usage")),
    )


class Parameter(NamedTuple):
    """What one parameter of a request must be."""

    name: str
    kinds: tuple[type, ...]
    wanted: str
    """The same in words."""
    default: Any = None
    """What stands for one that is missing. It is not of these kinds where the parameter must be there."""


MODEL = Parameter("model", (str,), "a string", "")
STREAM = Parameter("stream", (bool, NoneType), "true or false")
OPTIONS = Parameter("stream_options", (dict, NoneType), "an object")
MESSAGES = Parameter("messages", (list,), "a list")
_PARAMETERS = (MODEL, MESSAGES, STREAM, OPTIONS)


def check_types(fields: Mapping[str, Any], parameters: Iterable[Parameter]) -> None:
    """Raise RequestError 400, naming the first parameter that is of another JSON type than it must be."""
    for name, kinds, wanted, default in parameters:
        value = fields.get(name, default)
        if not isinstance(value, kinds):
            raise wrong_type(name, wanted, value)


def wrong_type(param: str, wanted: str, value: object) -> RequestError:
    """The refusal of a parameter that has another JSON type than it must."""
    kinds = {
        "NoneType": "missing or null",
        "dict": "an object",
        "list": "a list",
        "str": "a string",
        "bool": "a boolean",
    }
    kind = kinds.get(type(value).__name__, "a number")
    return RequestError(f"'{param}' must be {wanted}; it is {kind}.", code="invalid_type", param=param)
