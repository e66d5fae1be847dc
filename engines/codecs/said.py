"""An answer that was made here and is no engine's, before an API's words are put to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.chat import Usage


@dataclass(frozen=True, slots=True)
class Said:
    """One choice of text, of calls of tools, or of both, in the words of a chat completion."""

    id: str
    """Without the prefix that an API gives it."""
    created_s: int
    model: str
    text: str = ""
    calls: Sequence[Mapping[str, Any]] = ()
    """`tool_calls` of a message."""
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=lambda: Usage(0, 0))

    def usage_of_chat(self) -> dict[str, Any]:
        """The member `usage` of completions."""
        return {
            "prompt_tokens": self.usage.prompt_tokens,
            "completion_tokens": self.usage.completion_tokens,
            "total_tokens": self.usage.tokens,
            "prompt_tokens_details": {"cached_tokens": self.usage.cached_tokens},
        }
