"""The first stage of a policy: can examples help the request, what does it ask, and what is the embedding of that?"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from router.digest import carries_tools, is_follow_up, is_plain_text, question
from router.embedding.embedder import Embedder
from router.plan import Ask
from store.admission.cutting import cut
from store.records import Vector


@dataclass(frozen=True, slots=True)
class EmbeddedQuestion:
    """A request's question and its embedding. `refused` is a code for why there is no embedding; empty where there is."""

    refused: str = ""
    text: str = ""
    vector: Vector | None = None
    stages_s: dict[str, float] = field(default_factory=dict)
    bypassed: tuple[str, ...] = ()


class QuestionEmbedder:
    """Embeds the question of a request, for policies that compare requests by similarity."""

    def __init__(
        self, embedder: Embedder, *, with_tools: bool, follow_ups: bool, max_characters: int
    ) -> None:
        self._follow_ups = follow_ups
        self._embedder = embedder
        self._with_tools = with_tools
        self._max_characters = max_characters

    async def embed(self, ask: Ask) -> EmbeddedQuestion:
        """Never raises: a request without an embedding has a reason in `refused`, and `bypassed` names a failed stage."""
        chat = ask.chat
        if ask.anonymous:
            return EmbeddedQuestion("anonymous")
        if not is_plain_text(chat.messages):
            return EmbeddedQuestion("not_plain_text")
        if carries_tools(chat) and not self._with_tools:
            return EmbeddedQuestion("tools")
        if is_follow_up(chat.messages) and not self._follow_ups:
            return EmbeddedQuestion("follow_up")
        text = cut(question(chat.messages), self._max_characters)
        if not text:
            return EmbeddedQuestion("no_question")
        stages: dict[str, float] = {}
        began = time.perf_counter()
        try:
            vector = await self._embedder.embed(text)
        except Exception as error:
            # Late, full or broken: the request must not wait for it, let alone fail.
            return EmbeddedQuestion("no_embedding", text, None, stages, (f"embed:{type(error).__name__}",))
        finally:
            stages["embed"] = time.perf_counter() - began
        return EmbeddedQuestion("", text, vector, stages)
