"""The first look at a request: may examples help it at all, what does it ask, and what is the vector of that?"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from router.digest import carries_tools, is_plain_text, question
from router.plan import Ask
from store.admission.cutting import cut
from store.records import Vector


class Embed(Protocol):
    """What is needed of router.embedding.embedder.Embedder."""

    async def embed(self, text: str) -> Vector: ...


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen. `refused` is a reason code why nothing can be decided by likeness; empty where it can."""

    refused: str = ""
    text: str = ""
    vector: Vector | None = None
    stages_s: dict[str, float] = field(default_factory=dict)
    bypassed: tuple[str, ...] = ()


class Looker:
    """Looks at requests, for any policy that works by likeness."""

    def __init__(self, embedder: Embed, *, with_tools: bool, max_characters: int) -> None:
        self._embedder = embedder
        self._with_tools = with_tools
        self._max_characters = max_characters

    async def look(self, ask: Ask) -> Looked:
        """Never fails: a request without a vector is refused with a reason, and `bypassed` says what was gone without."""
        chat = ask.chat
        if not is_plain_text(chat.messages):
            return Looked("not_plain_text")
        if carries_tools(chat) and not self._with_tools:
            return Looked("tools")
        text = cut(question(chat.messages), self._max_characters)
        if not text:
            return Looked("no_question")
        stages: dict[str, float] = {}
        began = time.perf_counter()
        try:
            vector = await self._embedder.embed(text)
        except Exception as error:
            # Late, full or broken: the request must not wait for it, let alone fail (SPEC §1).
            return Looked("no_embedding", text, None, stages, (f"embed:{type(error).__name__}",))
        finally:
            stages["embed"] = time.perf_counter() - began
        return Looked("", text, vector, stages)
