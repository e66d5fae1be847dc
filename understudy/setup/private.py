"""From the settings to what builds private banks, over an open memory and engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engines.engine import Engine
from learning.private.budget import Promise
from learning.private.build import Mechanism, PrivateBuilder, PrivateWriter
from learning.private.words import Bounds
from router.digest import NO_INSTRUCTIONS, asked_under
from router.examples.rarity import Rarity
from store.admission.cutting import EMBEDDED_CHARACTERS, cut
from store.examples.private_bank import PrivateBank
from store.records import Vector
from store.sqlite.power_cut import sync_log
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.private import PrivateSettings
from understudy.settings.reach import out_of_reach
from understudy.setup.examples import admission

_LEAST_WORDS = 3
"""Words that must be told of a topic before it is asked about."""
_QUESTIONS = 5
"""Written per topic and release."""
_COMMON_BELOW = 0.5
"""Rarity of a word that says nothing of a subject: the hundred or two that are in every text."""


class CannotBuild(Exception):
    """The settings lack what a private bank needs. The text says what."""


def mechanism(settings: PrivateSettings) -> Mechanism:
    """What the settings promise and tell."""
    advanced = settings.advanced
    return Mechanism(
        Promise(settings.epsilon, advanced.delta),
        advanced.releases,
        Bounds(advanced.cells, advanced.words),
        advanced.planes,
        _LEAST_WORDS,
    )


def builder(config: Config, memory: Memory) -> PrivateBuilder:
    """Over a memory with an embedder. Raises CannotBuild."""
    embedder = memory.embedder
    if embedder is None:
        raise CannotBuild("there is no embedder: leave memory.examples.enabled on")
    return PrivateBuilder(
        PrivateBank(memory.store.db),
        mechanism(config.private),
        _embed(memory),
        _is_common(Rarity.read(embedder.tokenizer_file)),
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
        PrivateBank(store.db),
        store.examples,
        admission(config.memory),
        engines[generator],
        engines[reference],
        _embed(memory),
        memory.embedder.version,
        store.indexes.nearest,
        _fields,
        book=store.replay.side_costs.book,
        count=_QUESTIONS,
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


def _is_common(rarity: Rarity) -> Callable[[str], bool]:
    return lambda word: rarity(word) < _COMMON_BELOW


def _fields(instructions: str, question: str) -> dict[str, Any]:
    return asked_under(instructions or NO_INSTRUCTIONS, question)
