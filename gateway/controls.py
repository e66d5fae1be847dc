"""How a client steers the gateway, request by request: standard cache directives and `x-understudy-*` headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engines.errors import RequestError


@dataclass(frozen=True, slots=True)
class Controls:
    """What one request asks of us."""

    no_store: bool = False
    """Nothing of this request or its answer is kept: `Cache-Control: no-store`, or `store: false` in the body."""
    no_cache: bool = False
    """Memory is not read; the fresh answer may be kept: `Cache-Control: no-cache`."""
    engine: str | None = None
    """This engine, whatever the policy says: `x-understudy-engine`."""
    max_examples: int | None = None
    """At most so many examples: `x-understudy-examples`."""
    preference: float | None = None
    """The dial for this request, 0 (cheapest) to 1 (best): `x-understudy-preference`."""

    @property
    def steers(self) -> bool:
        """Whether the client says how it is to be answered: then no remembered answer stands for it, nor its for others."""
        return self.engine is not None or self.max_examples is not None or self.preference is not None


NONE = Controls()


def read_controls(headers: Mapping[str, str], fields: Mapping[str, Any]) -> Controls:
    """Raises RequestError 400 for a header of ours with a value that means nothing."""
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
