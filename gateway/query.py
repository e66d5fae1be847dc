"""Reads the query of a URL."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

from engines.errors import RequestError


def query_of(query: str) -> dict[str, str]:
    """Its parameters; of one that is given twice, the last."""
    found = parse_qs(query, keep_blank_values=True, errors="replace") if query else {}
    return {name: values[-1] for name, values in found.items()}


def only(query: Mapping[str, str], *known: str) -> None:
    """Raise RequestError for a parameter that is not known."""
    unknown = sorted(set(query) - set(known))
    if unknown:
        raise RequestError(
            f"Unknown query parameter '{unknown[0][:60]}'. Known: {', '.join(known)}.",
            code="unknown_parameter",
            param=unknown[0][:60],
        )
