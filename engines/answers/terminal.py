"""How answers end: which event of a stream is the last that counts, which one tells of a failure, and why a model stopped.

One table for all APIs: their events are told apart by their shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FAILED_TYPES = frozenset({"error", "response.failed"})
TERMINAL_TYPES = FAILED_TYPES | {
    *("response.completed", "response.incomplete", "message_stop"),
    *("image_generation.completed", "image_edit.completed", "transcript.text.done", "speech.audio.done"),
}
_FINISH_REASONS = {
    "": "",
    # Anthropic
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "pause_turn",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    # Together and text-generation-inference
    "eos": "stop",
    "eos_token": "stop",
    # Mistral
    "model_length": "length",
    # Cohere
    "complete": "stop",
    "tool_call": "tool_calls",
    # Gemini
    "safety": "content_filter",
}
"""What providers call the reasons that a chat completion calls `stop`, `length`, `tool_calls` and `content_filter`."""


def meaning_of(finish_reason: Any) -> str:
    """A finish reason as a chat completion calls it; empty if there is none."""
    said = str(finish_reason or "")
    return _FINISH_REASONS.get(said.lower(), said.lower() if said.isupper() else said)


def choices_of(event: Any) -> list[dict[str, Any]]:
    """The choices of a chunk or a completion; none for anything else."""
    found = event.get("choices") if isinstance(event, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def fails(event: Any) -> bool:
    """Whether an event says that its stream failed: an `error` at its top, its type, or a choice's finish reason."""
    if not isinstance(event, dict):
        return False
    return (
        bool(event.get("error"))
        or event.get("type") in FAILED_TYPES
        or any(choice.get("finish_reason") == "error" for choice in choices_of(event))
    )


def ended_choices(event: Any) -> set[int]:
    """The indices of the choices that end in this event."""
    return indices([choice for choice in choices_of(event) if choice.get("finish_reason")])


def indices(choices: Sequence[dict[str, Any]]) -> set[int]:
    """Which choices these are; one that does not say is the first."""
    told = [choice.get("index") for choice in choices]
    return {index if isinstance(index, int) else 0 for index in told}
