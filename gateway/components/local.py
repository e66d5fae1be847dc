"""The house's own embedder as a component, and a reranker by its vectors and by words.

Both use the embedder that requests' examples are found with. Requests go first, between any two texts. Texts are embedded
one by one, as the embedder does it: nothing is gained by a batch. It reads the first and the last of 256 tokens.
"""

from __future__ import annotations

import asyncio
import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

from cachetools import LRUCache

from engines.components.component import ComponentError, ComponentSpec
from engines.components.registry import Member
from engines.components.running import Answers, Portion
from engines.components.tokens import cut_long
from engines.errors import Kind
from router.embedding.embedder import Embedder, EmbedderError
from router.examples.rarity import Rarity

if TYPE_CHECKING:
    from store.records import Vector

_WORD = re.compile(r"\w+")
_KEPT = 4096
"""Vectors of workflows' texts, 1.5 KiB each: what was ingested is often reranked."""


class LocalEmbedder:
    """Embeds and reranks. Its vectors have length 1.

    `open_`: gives the embedder when it is first needed, which may block for seconds; raises ValueError or OSError with a
    remedy. Who opened it closes it.
    """

    def __init__(self, name: str, open_: Callable[[], Embedder]) -> None:
        self.name = name
        self._open = open_
        self._opening = threading.Lock()
        self._opened: Embedder | None = None
        self._vectors: LRUCache[bytes, Vector] = LRUCache(_KEPT)
        """By a digest: no text is kept."""

    def member(self, spec: ComponentSpec) -> Member:
        """As the registry takes it."""
        return Member(
            spec.name,
            spec.limits,
            {"embed": self.embed, "rerank": self.rerank},
            self.identity,
            self.offsets,
            one_by_one=True,
        )

    def identity(self) -> str:
        """See engines.components.component.Components."""
        return f"local {self._embedder().version}"

    async def embed(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[Vector]]:
        """See engines.components.running.Ask."""
        return [[await self._vector(text) for text in portion.items] for portion in portions]

    async def rerank(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[float]]:
        """See engines.components.running.Ask. A score, 0 to 1 or a little less, is half the cosine of query and text, half
        the share of the query's words that the text has, each weighed by how rare it is. It knows no word order."""
        return [[await self._score(portion.question, text) for text in portion.items] for portion in portions]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """See engines.components.component.Components."""
        return cut_long(self._embedder().offsets(text))

    async def _score(self, query: str, text: str) -> float:
        cosine = float((await self._vector(query)) @ (await self._vector(text)))
        return 0.5 * cosine + 0.5 * self._shared_words(query, text)

    def _shared_words(self, query: str, text: str) -> float:
        weights = self._rarity.of(_words(query))
        most = sum(weights.values())
        if not most:
            return 0.0
        there = set(_words(text))
        return sum(weight for word, weight in weights.items() if word in there) / most

    async def _vector(self, text: str) -> Vector:
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if (known := self._vectors.get(key)) is not None:
            return known
        try:
            opened = self._opened
            embedder = await asyncio.to_thread(self._embedder) if opened is None else opened
            vector = await embedder.embed_later(text)
        except EmbedderError as error:
            raise self._error(f"did not embed: {error}") from error
        self._vectors[key] = vector
        return vector

    def _embedder(self) -> Embedder:
        with self._opening:
            if self._opened is None:
                try:
                    self._opened = self._open()
                except (ValueError, OSError) as error:
                    raise self._error(f"cannot be opened: {error}") from error
            return self._opened

    def _error(self, what: str) -> ComponentError:
        return ComponentError(f"The component '{self.name}' {what}.", component=self.name, kind=Kind.OPEN)

    @cached_property
    def _rarity(self) -> Rarity:
        return Rarity.read(self._embedder().tokenizer_file)


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
