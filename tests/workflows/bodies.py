"""Bodies of calls and runs for tests."""

from __future__ import annotations

from typing import Any

from workflows.submitted import Limits

LIMITS = Limits(max_steps=1000, max_value_bytes=1000)


def call(text: str, **understudy: Any) -> dict[str, Any]:
    """A chat body with an object `understudy`."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], "understudy": understudy}


def step(text: str, output: str, **understudy: Any) -> dict[str, Any]:
    """A chat body that writes one variable."""
    return call(text, output={"name": output}, **understudy)
