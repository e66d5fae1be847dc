"""From the settings to what builds private banks, over an open memory and engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engines.engine import Engine
from learning.private.budget import PrivacyBudget
from learning.private.build import Mechanism, PrivateBuilder, PrivateWriter
from learning.private.words import Bounds
from router.examples.rarity import Rarity
from store.admission.cutting import EMBEDDED_CHARACTERS, cut
from store.records import Vector
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.private import PrivateSettings
from understudy.settings.reach import out_of_reach
from understudy.setup.examples import admission

_PLANES = 4
"""Random planes that divide questions: 2^4 topics."""
_LEAST_WORDS = 3
"""Words that must be told of a topic before it is asked about."""
_QUESTIONS = 5
"""Written per topic and release."""
_COMMON_BELOW = 0.5
"""Rarity of a word that says nothing of a subject: the hundred or two that are in every text."""


class CannotBuild(Exception):
    """The settings lack what a private bank needs. The text says what."""


def mechanism(settings: PrivateSettings) -> Mechanism:
    """What the settings release, and within which budget."""
    advanced = settings.advanced
    return Mechanism(
        PrivacyBudget(settings.epsilon, advanced.delta),
        advanced.releases,
        Bounds(),
        _PLANES,
        _LEAST_WORDS,
    )


def builder(config: Config, memory: Memory) -> PrivateBuilder:
    """Over a memory with an embedder. Raises CannotBuild."""
    embedder = memory.embedder
    if embedder is None:
        raise CannotBuild("there is no embedder: leave memory.examples.enabled on")
    rarity = Rarity.read(embedder.tokenizer_file)
    return PrivateBuilder(
        memory.store.examples.private,
        mechanism(config.private),
        _embed(memory),
        lambda word: rarity(word) < _COMMON_BELOW,
        embedder.dimensions,
        memory.store.sync,
    )


def writer(
    config: Config, memory: Memory, engines: Mapping[str, Engine], reference: str, generator: str
) -> PrivateWriter:
    """Over a memory with an index. Raises CannotBuild."""
    store = memory.store
    if memory.embedder is None or store.indexes is None or config.memory is None:
        raise CannotBuild("there is no embedder: leave memory.examples.enabled on")
    for name in (reference, generator):
        if name not in engines:
            raise CannotBuild(f"no engine is called {name!r}; known engines: {', '.join(sorted(engines))}")
    return PrivateWriter(
        store,
        admission(config.memory),
        engines[generator],
        engines[reference],
        _embed(memory),
        memory.embedder.version,
        _QUESTIONS,
    )


def reference_of(config: Config) -> str:
    """The engine whose answers become examples. Raises CannotBuild where that is not one."""
    if config.replay.advanced.engine is not None:
        return config.replay.advanced.engine
    references = {model.engines[-1] for model in config.models.values()}
    if len(references) != 1:
        raise CannotBuild("models have several reference engines, or none: name one with --engine")
    return references.pop()


def check_reach(config: Config, *engines: str) -> None:
    """Raises CannotBuild where a process beside the gateway cannot ask one of them."""
    for beyond in filter(None, (out_of_reach(config.engines, engine) for engine in engines)):
        raise CannotBuild(beyond)


def _embed(memory: Memory) -> Callable[[str], Vector]:
    embedder = memory.embedder
    assert embedder is not None
    return lambda text: embedder.embed_blocking(cut(text, EMBEDDED_CHARACTERS))
