"""Limits of requests that no pipeline answers: their bodies pass as they came, but for what their limits add to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson

from engines.engine import EngineInfo
from engines.off_loop import off_loop
from gateway.encodings import decoded
from gateway.forms import read_form
from gateway.limits.bounding import asking_for_usage
from gateway.limits.limiter import Limiter
from gateway.limits.scopes import Scope
from gateway.limits.usage_chunk import UsageStripper
from gateway.paths import canonical
from router.finished import Journey

_USED = frozenset(
    {"chat", "responses", "messages", "completions", "embeddings", "images", "audio", "moderations"}
)
"""APIs that are paid for by what a request uses. What others cost nobody knows: gateway.access closes them to budgets
(403 `unpriced`), WebSockets too."""
_USED_PATHS = frozenset({"/rerank", "/score", "/classify", "/pooling"})
"""The same of vLLM's own endpoints."""
_MOST_BYTES = 2**28


class Passing(NamedTuple):
    """Holds what goes to the engine, and how its answer goes on."""

    body: bytes | AsyncIterator[bytes]
    strip: UsageStripper | None = None
    """Takes out of the stream what the client did not ask for."""
    without_usage: Callable[[], bytes] | None = None
    """See engines.engine.EngineRequest."""


async def reserved(
    limiter: Limiter,
    journey: Journey,
    body: bytes | AsyncIterator[bytes],
    infos: Sequence[EngineInfo],
    *,
    fields: Mapping[str, Any] | None = None,
    path: str = "",
    encoding: str = "",
    content_type: str = "",
) -> Passing:
    """Set aside what the request may take at any of these engines: `journey.bill`. `fields`: its body, where it is parsed.
    `encoding`, `content_type`: of the body, as its headers tell.

    Raises LimitReached and RequestError.
    """
    path = canonical(path).lower()
    arrival = journey.arrival
    api = arrival.api
    scopes = limiter.scopes_of(arrival)
    if not scopes or not (api in _USED or path in _USED_PATHS) or path.endswith("/count_tokens"):
        return Passing(body)
    plain = body
    if isinstance(body, bytes) and encoding:
        # What was packed is paid for unpacked.
        plain = await off_loop(_MOST_BYTES, decoded, body, encoding, _MOST_BYTES)
    if fields is None and isinstance(plain, bytes):
        fields = _parsed(plain)
    said: Mapping[str, Any] = {}
    size_bytes = 0
    if fields is not None:
        said, passing = _bounded(limiter, scopes, fields, infos, body, api)
        counted = plain if passing.body is body else passing.body
        size_bytes = len(counted) if isinstance(counted, bytes) else 0
    else:
        passing = Passing(body)
        if isinstance(plain, bytes) and content_type.lower().startswith("multipart/form-data"):
            said = await off_loop(len(plain), _said_in_form, plain, content_type)
    model = journey.model or str(said.get("model") or "")
    prices = [info.price_of(model) for info in infos]
    journey.bill = await limiter.ask(
        scopes,
        model,
        prices,
        size_bytes,
        said,
        api,
        answers_no_text=api in ("embeddings", "moderations") or path in _USED_PATHS,
        images=_images(said) if api == "images" else 0,
    )
    return passing


def _bounded(
    limiter: Limiter,
    scopes: Sequence[Scope],
    fields: Mapping[str, Any],
    infos: Sequence[EngineInfo],
    body: bytes | AsyncIterator[bytes],
    api: str,
) -> tuple[Mapping[str, Any], Passing]:
    """Add to a body what its limits need: the most tokens, and the engine's own count where a budget is to be charged."""
    bounds = limiter.bounded(scopes, fields, api)
    asks = asking_for_usage(api, fields)
    if asks and not (any(one.spends for one in scopes) and all(info.tells_usage.asked for info in infos)):
        asks = {}
    if not bounds and not asks:
        return fields, Passing(body)
    bounded = {**fields, **bounds}
    if not asks:
        return bounded, Passing(orjson.dumps(bounded))
    asking = {**bounded, **asks}
    return asking, Passing(orjson.dumps(asking), UsageStripper(), partial(orjson.dumps, bounded))


def _images(fields: Mapping[str, Any]) -> int:
    asked = fields.get("n")
    return asked if isinstance(asked, int) and asked > 1 else 1


def _said_in_form(body: bytes, content_type: str) -> dict[str, Any]:
    """How many images a form asks for, and of which model."""
    said: dict[str, Any] = {
        name: value for name, value in read_form(body, content_type).fields.items() if name in ("model", "n")
    }
    n = said.pop("n", "")
    return said | {"n": int(n)} if n.isdecimal() and len(n) < 10 else said


def _parsed(body: bytes) -> dict[str, Any] | None:
    """None for what is no JSON object: a form, say, whose size says nothing of its tokens."""
    try:
        said = orjson.loads(body) if body[:1] in b"{ \n\r\t" else None
    except orjson.JSONDecodeError:
        return None
    return said if isinstance(said, dict) else None
