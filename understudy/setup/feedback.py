"""Puts together what the feedback endpoint works on, out of an open memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.handlers.feedback import Desk
from gateway.limits.feedback_rate import FeedbackRate
from learning.outcomes.known_quality import Known
from learning.outcomes.target import Targets
from store.examples.rows import by_request
from store.records import Example
from store.sqlite.power_cut import sync_log

if TYPE_CHECKING:
    from gateway.handlers.examples import Shelf
    from store.sqlite.database import Database
    from understudy.memory import Memory


def desk(
    memory: Memory,
    shelf: Shelf | None,
    *,
    window_s: float,
    per_minute: int,
    max_bytes: int,
    survive_power_cut: bool,
    known: Known | None = None,
    settle_s: float = 2.0,
) -> Desk:
    """A desk over `memory`. `shelf` is where corrections become examples; None where none are kept.

    `settle_s`: how long the recorder may be behind the answers it records.
    """
    store = memory.store
    return Desk(
        answers=Targets(store.choices, memory.requests, settle_s=settle_s),
        log=store.feedback,
        rate=FeedbackRate(per_minute),
        examples=store.examples,
        judgements=store.examples.ledger,
        example_of=partial(_example_of, store.db),
        shelf=shelf,
        secret=store.secret,
        window_s=window_s,
        max_bytes=max_bytes,
        known=known,
        sync=partial(sync_log, store.db) if survive_power_cut else None,
    )


def _example_of(db: Database, tenant: str, request_id: str) -> Example | None:
    return by_request(db.read(), tenant, request_id)
