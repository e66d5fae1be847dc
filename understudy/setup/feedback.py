"""Puts together what the feedback endpoint works on, out of an open memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from learning.outcomes.feedback_intake import FeedbackIntake
from learning.outcomes.known_quality import KnownQuality, OnOutcomes
from learning.outcomes.target import Targets

if TYPE_CHECKING:
    from learning.bank.example_store import ExampleStore
    from store import Store
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
        answers=Targets(store.decisions.choices, memory.requests, settle_s=settle_s),
        log=store.outcomes.feedback,
        examples=store.examples,
        judgements=store.examples.ledger,
        example_of=store.examples.by_request,
        corrections=corrections,
        secret=store.secret,
        window_s=window_s,
        on_outcomes=known,
        sync=store.sync if survive_power_cut else None,
    )


def known_quality(store: Store, config: Config) -> KnownQuality:
    """What corrects the gains of examples once the quality of an answer is known, over an open store."""
    prices = {name: engine.price.output_usd_per_mtok for name, engine in config.engines.items()}
    return KnownQuality(store.outcomes, store.examples.ledger, store.examples, prices)
