"""Limits of requests that no pipeline answers: their bodies pass as they came, but for what their limits add to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from engines.engine import EngineInfo
from gateway.journey import Journey
from gateway.limits.bounding import OUTPUT_FIELD, TELLS_USAGE_IF_ASKED
from gateway.limits.limiter import Limiter
from gateway.limits.scopes import Scope
from gateway.limits.usage_chunk import UsageStripper

_USED = frozenset(
    {"chat", "responses", "messages", "completions", "embeddings", "images", "audio", "moderations"}
)
"""APIs that are paid for by what a request uses. What others cost nobody knows: gateway.access closes them to budgets."""
_NO_OUTPUT = frozenset({"embeddings", "moderations"})


class Passing(NamedTuple):
    """What goes to the engine, and how its answer goes on."""

    body: bytes | AsyncIterator[bytes]
    strip: UsageStripper | None = None
    """Takes out of the stream what the client did not ask for."""


async def reserved(
    limiter: Limiter,
    journey: Journey,
    body: bytes | AsyncIterator[bytes],
    infos: Sequence[EngineInfo],
    *,
    fields: Mapping[str, Any] | None = None,
    path: str = "",
) -> Passing:
    """Set aside what the request may take at any of these engines: `journey.bill`. `fields`: its body, where it is parsed.

    Raises LimitReached and RequestError.
    """
    arrival = journey.arrival
    api = arrival.api
    scopes = limiter.scopes_of(arrival)
    if not scopes or api not in _USED or path.endswith("/count_tokens"):
        return Passing(body)
    if fields is None and isinstance(body, bytes):
        fields = _parsed(body)
    changed = _changes(limiter, scopes, api, fields) if fields is not None else {}
    if changed:
        fields = {**(fields or {}), **changed}
        body = orjson.dumps(fields)
    said = fields or {}
    model = journey.model or str(said.get("model") or "")
    prices = [info.price_of(model) for info in infos]
    size_bytes = len(body) if isinstance(body, bytes) and fields is not None else 0
    journey.bill = await limiter.ask(
        scopes,
        model,
        prices,
        size_bytes,
        said,
        answers_no_text=api in _NO_OUTPUT,
        images=_images(said) if api == "images" else 0,
    )
    return Passing(body, UsageStripper() if "stream_options" in changed else None)


def _changes(
    limiter: Limiter, scopes: Sequence[Scope], api: str, fields: Mapping[str, Any]
) -> dict[str, Any]:
    changed = limiter.bounded(scopes, fields, OUTPUT_FIELD.get(api, ""))
    if api in TELLS_USAGE_IF_ASKED and fields.get("stream") is True and any(one.spends for one in scopes):
        options = fields.get("stream_options")
        options = options if isinstance(options, dict) else {}
        if options.get("include_usage") is not True:
            changed["stream_options"] = {**options, "include_usage": True}
    return changed


def _images(fields: Mapping[str, Any]) -> int:
    asked = fields.get("n")
    return asked if isinstance(asked, int) and asked > 1 else 1


def _parsed(body: bytes) -> dict[str, Any] | None:
    """None for what is no JSON object: a form, say, whose size says nothing of its tokens."""
    try:
        said = orjson.loads(body) if body[:1] in b"{ \n\r\t" else None
    except orjson.JSONDecodeError:
        return None
    return said if isinstance(said, dict) else None
