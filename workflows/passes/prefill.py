"""Pass 3: where a part of a prompt is known early, that prefix is computed early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def cut(messages: tuple[Mapping[str, Any], ...], boundary: tuple[int, int]) -> tuple[Mapping[str, Any], ...]:
    """The messages of a template up to a boundary: those before it, and the text before it of the one it is in.

    What is left is a template that `workflows.template.fill` takes. A message whose text would be empty is left out.
    """
    raise NotImplementedError
