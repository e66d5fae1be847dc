"""Puts together what the examples' endpoints work on, out of an open memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from learning.bank.example_store import ExampleStore
from store.examples.contributors import Standings
from store.examples.rows import by_request
from store.records import Example
from understudy.setup.admission import admission

if TYPE_CHECKING:
    from store.sqlite.database import Database
    from understudy.memory import Memory
    from understudy.settings.memory import ExampleSettings

_FOLLOWED_WITHIN_S = 2.0


def example_store(memory: Memory, settings: ExampleSettings) -> ExampleStore:
    """An example store over `memory`, which must have an embedder and indexes."""
    store = memory.store
    assert memory.embedder is not None and store.indexes is not None and store.follower is not None
    return ExampleStore(
        bank=store.examples,
        find=partial(_find, store.db),
        admission=admission(settings),
        embedder=memory.embedder,
        nearest=store.indexes.nearest,
        followed=partial(store.follower.wait_for, timeout_s=_FOLLOWED_WITHIN_S),
        standing=Standings(store.db, good_quality=settings.admission.good_quality).of,
        secret=store.secret,
    )


def _find(db: Database, tenant: str, request_id: str) -> Example | None:
    return by_request(db.read(), tenant, request_id)
