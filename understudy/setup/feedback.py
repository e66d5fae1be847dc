"""Puts together what the feedback endpoint works on, out of an open memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from learning.outcomes.feedback_intake import FeedbackIntake
from learning.outcomes.known_quality import KnownQuality, OnOutcomes
from learning.outcomes.target import Targets
from store.examples.rows import by_request
from store.records import Example
from store.sqlite.power_cut import sync_log

if TYPE_CHECKING:
    from learning.bank.example_store import ExampleStore
    from store.sqlite.database import Database
    from store.store import Memory as Store
    from understudy.memory import Memory
    from understudy.settings.config import Config


def feedback_intake(
    memory: Memory,
    corrections: ExampleStore | None,
    *,
    window_s: float,
    survive_power_cut: bool,
    known: OnOutcomes | None = None,
    settle_s: float = 2.0,
) -> FeedbackIntake:
    """Takes feedback over `memory`. `corrections` is where corrections become examples; None where none are kept.

    `settle_s`: how long the recorder may be behind the answers it records.
    """
    store = memory.store
    return FeedbackIntake(
        answers=Targets(store.choices, memory.requests, settle_s=settle_s),
        log=store.feedback,
        examples=store.examples,
        judgements=store.examples.ledger,
        example_of=partial(_example_of, store.db),
        corrections=corrections,
        secret=store.secret,
        window_s=window_s,
        on_outcomes=known,
        sync=partial(sync_log, store.db) if survive_power_cut else None,
    )


def _example_of(db: Database, tenant: str, request_id: str) -> Example | None:
    return by_request(db.read(), tenant, request_id)


def known_quality(store: Store, config: Config) -> KnownQuality:
    """What corrects the gains of examples once the quality of an answer is known, over an open store."""
    prices = {name: engine.price.output_usd_per_mtok for name, engine in config.engines.items()}
    return KnownQuality(store.outcomes, store.examples.ledger, store.examples, prices)
