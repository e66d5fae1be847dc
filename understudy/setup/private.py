"""From the settings to what builds private banks, over an open memory and engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engines.engine import Engine
from learning.private.budget import PrivacyBudget
from learning.private.build import Mechanism, PrivateBuilder, PrivateWriter
from learning.private.words import Bounds
from router.examples.rarity import Rarity
from store.admission.cutting import cut
from store.examples.private_bank import PrivateBank
from store.records import Vector
from store.sqlite.power_cut import sync_log
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.private import PrivateSettings
from understudy.settings.reach import out_of_reach
from understudy.setup.admission import admission

_COMMON_BELOW = 0.5
"""Rarity of a word that says nothing of a subject: the hundred or two that are in every text."""


class CannotBuild(Exception):
    """The settings lack what a private bank needs. The text says what."""


def mechanism(settings: PrivateSettings) -> Mechanism:
    """What the settings release, and within which budget."""
    return Mechanism(
        PrivacyBudget(settings.epsilon, settings.delta),
        settings.releases,
        Bounds(settings.cells, settings.words),
        settings.planes,
        settings.least_words,
    )


def builder(config: Config, memory: Memory) -> PrivateBuilder:
    """Over a memory with an embedder. Raises CannotBuild."""
    embedder = memory.embedder
    if embedder is None:
        raise CannotBuild("there is no embedder: leave memory.examples.enabled on")
    rarity = Rarity.read(embedder.tokenizer_file)
    return PrivateBuilder(
        PrivateBank(memory.store.db),
        mechanism(config.private),
        _embed(config, memory),
        lambda word: rarity(word) < _COMMON_BELOW,
        embedder.dimensions,
        lambda: sync_log(memory.store.db),
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
        admission(config.memory.examples),
        engines[generator],
        engines[reference],
        _embed(config, memory),
        memory.embedder.version,
        config.private.questions,
    )


def reference_of(config: Config) -> str:
    """The engine whose answers become examples. Raises CannotBuild where that is not one."""
    if config.replay.engine is not None:
        return config.replay.engine
    references = {model.engines[-1] for model in config.models.values()}
    if len(references) != 1:
        raise CannotBuild("models have several reference engines, or none: name one with --engine")
    return references.pop()


def check_reach(config: Config, *engines: str) -> None:
    """Raises CannotBuild where a process beside the gateway cannot ask one of them."""
    for beyond in filter(None, (out_of_reach(config, engine) for engine in engines)):
        raise CannotBuild(beyond)


def _embed(config: Config, memory: Memory) -> Callable[[str], Vector]:
    assert config.memory is not None and memory.embedder is not None
    characters, embedder = config.memory.examples.embedding.max_characters, memory.embedder
    return lambda text: embedder.embed_blocking(cut(text, characters))
