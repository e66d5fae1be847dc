"""What a starting gateway's events say to a person at a terminal, instead of a line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXTS = {
    "memory_opening": "opening the memory in {data_dir}",
    "embedding_model_building": "building the embedding model (once, about 10 s)",
    "embedding_model_built": "built the embedding model in {seconds:.1f} s",
    "listening": "listening at {url}",
    "admin_listening": "serving the admin pages at {url}",
}


def text_of(event: object, fields: Mapping[str, Any]) -> str | None:
    """The event as a sentence; None where there is none for it."""
    text = _TEXTS.get(str(event))
    if text is None:
        return None
    try:
        return text.format_map(fields)
    except (KeyError, ValueError):
        return None
