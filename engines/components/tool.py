"""A tool behind a URL as a component: JSON arguments of a schema go in, a text comes out."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from engines.components.component import ComponentError, ComponentSpec, ToolShape
from engines.components.http import Came, URLAsked, is_large
from engines.components.pointer import Missing, pointed
from engines.components.running import Answers, Portion
from engines.components.schema import Unfit, check, coerced
from engines.errors import Kind
from engines.loose_json import parsed

_KEY = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    args: Mapping[str, Any]
    idempotency_key: str
    may_retry: bool


class ToolOverHTTP:
    """Asks one call at a time."""

    def __init__(self, spec: ComponentSpec) -> None:
        assert spec.http is not None and spec.tool is not None
        self.name = spec.name
        self._shape: ToolShape = spec.tool
        self.url = URLAsked(spec.name, spec.http, spec.limits)

    async def ask(self, portions: Sequence[Portion[Call]]) -> Sequence[Answers[str]]:
        """See engines.components.running.Ask."""
        return [[await self._called(call) for call in portion.items] for portion in portions]

    async def _called(self, call: Call) -> str:
        read = (self.name, self._shape, call.args)
        args = await asyncio.to_thread(checked_args, *read) if is_large(call.args) else checked_args(*read)
        key, once = header_value(call.idempotency_key), not call.may_retry
        if self._shape.method == "GET":
            further = self._in_query(args)
            came = await self.url.get({}, further=further, idempotency_key=key, once=once)
        else:
            came = await self.url.post(args, idempotency_key=key, once=once)
        return await self._text(came)

    def _in_query(self, args: Mapping[str, Any]) -> dict[str, str]:
        """Only under names of the schema: a workflow gives values, and never what they are called."""
        named = set(self._shape.args.get("properties", ())) - self.url.names
        if unknown := sorted(set(args) - named):
            raise self.url.error(
                f"was not asked: its schema has no property {unknown[0][:40]!r} that may be sent in a query"
            )
        return {name: _in_query(value) for name, value in args.items()}

    async def _text(self, came: Came) -> str:
        shape = self._shape
        if shape.answer is None and not shape.text:
            text = _plain(came)
        else:
            answer = await came.json(self.name)
            try:
                check(answer, {} if shape.answer is None else shape.answer)
                taken = pointed(answer, shape.text)
            except (Unfit, Missing) as error:
                raise self.url.error(f"answered something else than its schema says: {error}") from None
            text = taken if isinstance(taken, str) else orjson.dumps(taken).decode()
        if not text.strip():
            raise self.url.error("answered without text")
        return text


def checked_args(name: str, shape: ToolShape, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they are sent: texts of numbers and the like become what the schema wants. Raises ComponentError."""
    sent: dict[str, Any] = coerced(dict(args), shape.args)
    try:
        check(sent, {"type": "object", **shape.args})
    except Unfit as unfit:
        text = f"The component '{name}' was not asked, since its arguments are not of its schema: {unfit}."
        raise ComponentError(text, component=name, kind=Kind.INVALID) from None
    return sent


def header_value(key: str) -> str:
    """An idempotency key as it may stand in a header: itself where it is plain ASCII, else a digest of it."""
    return key if _KEY.fullmatch(key) else blake2b(key.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _in_query(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _plain(came: Came) -> str:
    """A JSON text as what it says, anything else as it came."""
    if came.body[:1] == b'"':
        read = parsed(came.body)
        if isinstance(read, str):
            return read
    return came.body.decode("utf-8", "replace")
