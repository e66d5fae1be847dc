"""Reads the prompts of simulated roles: parts between marker lines with a code that the system message gives.

learning.outcomes.judge and learning.replay.expand write such prompts, so that text inside a part cannot end it; nothing
is imported from there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engines.chat import message_text
from simulation.reading import Messages


@dataclass(frozen=True, slots=True)
class CodedPrompt:
    """A prompt with a code."""

    told: str
    """The system message."""
    code: str
    shown: str
    """The last message, with the parts."""

    def part(self, name: str) -> str | None:
        """The text between a part's markers; None unless both stand on lines of their own, exactly once."""
        pieces = re.split(rf"^<<<(?:END )?{name} {self.code}>>>$", self.shown, flags=re.MULTILINE)
        return pieces[1].strip("\n") if len(pieces) == 3 else None


def coded_prompt(messages: Messages, telling: re.Pattern[str]) -> CodedPrompt | None:
    """The prompt, whose code `telling` finds as its first group in the first message; None for messages without a code."""
    texts = [message_text(m.get("content")) for m in messages]
    found = telling.search(texts[0]) if texts else None
    if found is None:
        return None
    return CodedPrompt(texts[0], found[1], texts[-1] if len(texts) > 1 else "")
