"""Reads how a client steers the gateway, request by request: standard cache directives and `x-understudy-*` headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.errors import RequestError
from router.asked import Controls

NONE = Controls()


def read_controls(headers: Mapping[str, str], fields: Mapping[str, Any]) -> Controls:
    """What the client asks of the gateway. Raises RequestError 400 for a header of ours with a value that means nothing."""
    cache_control = headers.get("Cache-Control")
    engine = headers.get("x-understudy-engine")
    examples = headers.get("x-understudy-examples")
    preference = headers.get("x-understudy-preference")
    keep_out = fields.get("store") is False
    if cache_control is None and engine is None and examples is None and preference is None and not keep_out:
        return NONE
    directives = {part.partition("=")[0].strip().lower() for part in (cache_control or "").split(",")}
    max_examples = None
    if examples is not None:
        if not (examples.isascii() and examples.isdigit() and len(examples) < 4):
            raise RequestError(
                f"x-understudy-examples is {examples[:40]!r}; it must be a whole number, 0 for none.",
                code="invalid_control",
                param="x-understudy-examples",
            )
        max_examples = int(examples)
    return Controls(
        no_store=keep_out or "no-store" in directives,
        no_cache="no-cache" in directives,
        engine=engine or None,
        max_examples=max_examples,
        preference=None if preference is None else _dial(preference),
    )


def _dial(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    # Written so that NaN, which is none of these, is refused.
    if not (0.0 <= value <= 1.0 and len(text) < 20):
        raise RequestError(
            f"x-understudy-preference is {text[:40]!r}; it must be a number from 0 (cheapest) to 1 (best).",
            code="invalid_control",
            param="x-understudy-preference",
        )
    return value
