"""The first stage of a policy: can examples help the request, what does it ask, and what is the embedding of that?

What it asks is its text without what all requests of its kind have in common: see router.embedding.templates.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from router.digest import (
    carries_tools,
    client_runs_tools,
    is_follow_up,
    is_plain_text,
    only_text,
    question,
    scope,
    scope_with_tools,
)
from router.embedding.embedder import Embedder
from router.embedding.templates import Digest, Templates
from router.plan import NO_EMBEDDING, Ask
from router.standalone import Standalone
from store.admission.cutting import EMBEDDED_CHARACTERS, cut
from store.records import Example, Vector

FollowUps = Literal["off", "standalone", "all"]
"""Which questions with turns before them are decided on by their likeness to others: see understudy.settings.memory."""
WithTools = Literal["off", "route", "examples"]
"""The treatment of requests that carry tools: see understudy.settings.models."""

_NOTHING = Digest("")
_LARGE_BYTES = 64 * 1024
"""A larger body is read on a thread: the event loop must not wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionKnobs:
    """Settings of which questions are compared with others, for policies' own to begin with."""

    with_tools: WithTools
    follow_ups: FollowUps
    max_characters: int = EMBEDDED_CHARACTERS


@dataclass(frozen=True, slots=True)
class EmbeddedQuestion:
    """A request's question and its embedding. `refused` is a code for why there is no embedding; empty if there is."""

    refused: str = ""
    text: str = ""
    """The request's own text, cut to what an embedding may be made of."""
    digest: Digest = _NOTHING
    """The part of it that was embedded."""
    scope: str = ""
    """The scope in which examples for it are looked for."""
    without_examples: bool = False
    """It carries tools, and is routed without any."""
    vector: Vector | None = None
    guessed: bool = False
    """True if the embedding was late, and `vector` is a guess of it: good for finding examples, and for nothing else."""
    stages_s: dict[str, float] = field(default_factory=dict)
    bypassed: tuple[str, ...] = ()


class QuestionEmbedder:
    """Embeds the question of a request, for policies that compare requests by similarity."""

    def __init__(
        self,
        embedder: Embedder,
        knobs: QuestionKnobs,
        templates: Templates | None = None,
        standalone: Standalone | None = None,
    ) -> None:
        """`standalone`: needed where `follow_ups` is that."""
        self._embedder = embedder
        self._knobs = knobs
        self._templates = templates
        self._standalone = standalone

    async def embed(self, ask: Ask) -> EmbeddedQuestion:
        """Never raises: a request without an embedding has a reason in `refused`, and `bypassed` names a failed stage."""
        chat = ask.chat
        if ask.anonymous:
            return EmbeddedQuestion("anonymous")
        offers = carries_tools(chat)
        routed = offers and self._knobs.with_tools == "route"
        if not (only_text(chat.messages) if routed else is_plain_text(chat.messages)):
            return EmbeddedQuestion("not_plain_text")
        if (offers and self._knobs.with_tools == "off") or (routed and not client_runs_tools(chat)):
            return EmbeddedQuestion("tools")
        alone = False
        if is_follow_up(chat.messages) and self._knobs.follow_ups != "all":
            alone = self._standalone is not None and await self._standalone.tells(chat.messages)
            if not alone:
                return EmbeddedQuestion("follow_up")
        if len(chat.body) > _LARGE_BYTES:
            found = await asyncio.to_thread(self._read, ask, alone)
        else:
            found = self._read(ask, alone)
        if found.refused:
            return found
        began = time.perf_counter()
        try:
            vector = await self._embedder.embed(found.digest.text)
            # Not by `replace`, which takes as long as the embedding of a text that is known.
            return EmbeddedQuestion(
                "",
                found.text,
                found.digest,
                found.scope,
                found.without_examples,
                vector,
                False,
                found.stages_s,
            )
        except Exception as error:
            # Late, full or broken: the request must not wait for it, let alone fail.
            return replace(found, refused=NO_EMBEDDING, bypassed=(f"embed:{type(error).__name__}",))
        finally:
            found.stages_s["embed"] = time.perf_counter() - began

    def with_guess(self, asked: EmbeddedQuestion) -> EmbeddedQuestion:
        """With a guess of its embedding, which was late or failed; as it is where none can be made."""
        vector = self._embedder.guessed(asked.digest.text)
        return asked if vector is None else replace(asked, refused="", vector=vector, guessed=True)

    async def embedded_later(self, asked: EmbeddedQuestion) -> EmbeddedQuestion:
        """With its embedding, which was late, made when no client waits for one. Raises EmbedderError."""
        if asked.vector is not None and not asked.guessed:
            return asked
        vector = await self._embedder.embed_later(asked.digest.text)
        return replace(asked, refused="", vector=vector, guessed=False)

    def _read(self, ask: Ask, alone: bool) -> EmbeddedQuestion:
        whole = question(ask.chat.messages, alone=alone)
        if not whole:
            return EmbeddedQuestion("no_question")
        text = cut(whole, self._knobs.max_characters)
        asked_under = scope(ask.chat, named=ask.named_scope, end_user=ask.end_user)
        routed = carries_tools(ask.chat) and self._knobs.with_tools == "route"
        if routed:
            # What is proven of a small engine with these tools rests on requests with them.
            asked_under = scope_with_tools(ask.chat, asked_under)
        digest = Digest(text)
        if self._templates is not None:
            digest = self._templates.asked(ask.tenant, asked_under, whole)
        return EmbeddedQuestion("", text, digest, asked_under, routed)

    def comparable(self, asked: EmbeddedQuestion) -> Callable[[Example], bool]:
        """Tells of an example whether its similarity to the request means anything."""
        if self._templates is None:
            return lambda example: True
        return partial(self._templates.comparable, asked.digest)
