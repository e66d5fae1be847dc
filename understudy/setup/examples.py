"""Puts together what the examples' endpoints work on, out of an open memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from learning.bank.example_store import ExampleStore
from understudy.setup.admission import admission

if TYPE_CHECKING:
    from understudy.memory import Memory
    from understudy.settings.memory import ExampleSettings

_FOLLOWED_WITHIN_S = 2.0


def example_store(memory: Memory, settings: ExampleSettings) -> ExampleStore:
    """An example store over `memory`, which must have an embedder and indexes."""
    store = memory.store
    assert memory.embedder is not None and store.indexes is not None and store.follower is not None
    return ExampleStore(
        bank=store.examples,
        find=store.examples.by_request,
        admission=admission(settings),
        embedder=memory.embedder,
        nearest=store.indexes.nearest,
        followed=partial(store.follower.wait_for, timeout_s=_FOLLOWED_WITHIN_S),
        standing=store.examples.contributors.standings(good_quality=settings.admission.good_quality).of,
        secret=store.secret,
    )
