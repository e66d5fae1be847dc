"""An answer that was made here and is no engine's, before an API's words are put to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.chat import Usage
from engines.codecs.parts import Saying


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

    def ends(self, saying: Saying) -> None:
        """Have all said that comes behind its text."""
        for call in self.calls:
            saying.call(call["id"], call["function"]["name"])
            saying.arguments(call["function"]["arguments"])
        saying.use(self.usage)
        saying.end(self.finish_reason)
