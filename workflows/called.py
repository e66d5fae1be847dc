"""Reads the inputs of one call of a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workflows.definition import Definition
from workflows.transform import Value


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Bounds on the inputs of one call; the settings `workflows.*`."""

    max_items: int = 1000
    max_documents_bytes: int = 32 * 2**20
    """Of all inputs together, in UTF-8."""


def read_inputs(
    definition: Definition, chat: Mapping[str, Any] | None, inputs: object, limits: CallLimits
) -> Mapping[str, Value]:
    """The value of every input, by name.

    `chat`: the body of a chat completion that calls the workflow, whose messages give `last_user` and `system`; None for a call
    of `/v1/runs`. `inputs`: what the client gave by name (any JSON, None for nothing); it goes before the messages.

    Raises WorkflowError naming the input: 400 `missing_input`, `unused_input`, `invalid_input`, `too_many_items`; 413
    `documents_too_large`.
    """
    raise NotImplementedError
