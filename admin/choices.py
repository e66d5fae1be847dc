"""What a filter offers: so few choices that a page stays small, and always the one that is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

Choice = TypeVar("Choice", tuple[str, str], Mapping[str, Any])

MOST_CHOICES = 200


def offered(choices: Iterable[Choice], chosen: str) -> list[Choice]:
    """The first of the choices in their order, and the chosen one wherever it stands. Each is (id, name) or has an "id"."""
    every = list(choices)
    return every[:MOST_CHOICES] + [one for one in every[MOST_CHOICES:] if _id(one) == chosen]


def _id(choice: tuple[str, str] | Mapping[str, Any]) -> str:
    return choice[0] if isinstance(choice, tuple) else str(choice["id"])
