"""Keeps count of what examples were good for."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.keepers.keeper import Kept
from learning.replay.gain import UNJUDGED, gain, model_cost
from router.finished import Finished
from store.examples.accounting import Ledger


class UseKeeper:
    """Keeps count of what examples were good for. Only counted here; housekeeping writes it.

    Nobody knows yet how good the answer was: learning.outcomes.known_quality corrects the gain when somebody does.
    """

    def __init__(self, ledger: Ledger, dearest_usd_per_mtok: float) -> None:
        self._ledger = ledger
        self._dearest = dearest_usd_per_mtok

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper."""
        if (ids := finished.example_ids) and finished.failed_over is None:
            cost = model_cost(finished.price.output_usd_per_mtok or 0.0, self._dearest)
            self._ledger.note_use(ids)
            self._ledger.note_gain(ids, gain(cost, UNJUDGED))
        yield from ()
