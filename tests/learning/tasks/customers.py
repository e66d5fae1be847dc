"""What customers write, and what they want: inputs with labels, embedded by the real embedder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from learning.tasks.training import Labelled
from router.embedding.embedder import Embedder
from store.records import Vector
from tests.flow.line import MODELS

_SENTENCES = {
    "refund": (
        "I want my money back for the {}",
        "Please refund the {} I sent back",
        "When is the {} paid back to me?",
    ),
    "delivery": (
        "Where is the {} I ordered?",
        "My parcel with the {} has not arrived",
        "The courier lost the {}",
    ),
    "account": (
        "I cannot sign in to buy a {}",
        "Change my password, I ordered a {}",
        "My login shows no {} any more",
    ),
}
_THINGS = (
    "blue kettle", "phone case", "garden chair", "pair of boots", "winter coat", "desk lamp", "bicycle pump",
    "coffee mill", "rain jacket", "tea set", "board game", "yoga mat", "guitar string", "paper shredder",
    "dog lead", "fish tank", "cake tin", "wall clock", "sun hat", "wooden spoon",
)  # fmt: skip


@cache
def vector(text: str) -> Vector:
    """Its embedding."""
    with _embedder() as embedder:
        return embedder.embed_blocking(text)


@cache
def vectors() -> dict[str, Vector]:
    """Of all that customers write."""
    with _embedder() as embedder:
        return {text: embedder.embed_blocking(text) for text, _ in texts()}


@contextmanager
def _embedder() -> Iterator[Embedder]:
    embedder = Embedder.open("package", MODELS, deadline_ms=60_000)
    try:
        yield embedder
    finally:
        embedder.close()


def texts() -> list[tuple[str, str]]:
    """(input, label), the labels in turn."""
    return [
        (sentence.format(thing), label)
        for number, thing in itertools.product(range(3), _THINGS)
        for label, sentences in _SENTENCES.items()
        for sentence in [sentences[number]]
    ]


@cache
def labelled() -> list[Labelled]:
    """All of them, a second apart."""
    return [
        Labelled(text, vectors()[text], label, at_s=float(n))
        for n, (text, label) in enumerate(texts(), start=1)
    ]
