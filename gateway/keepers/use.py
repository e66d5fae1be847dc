"""Keeps count of what examples were good for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from engines.finished import Assembled
from gateway.answer import Answer
from gateway.journey import Journey
from gateway.keepers.keeper import Keeping
from learning.replay.gain import UNJUDGED, gain, model_cost


class Ledger(Protocol):
    """What is needed of store.examples.accounting.Ledger."""

    def note_use(self, ids: Sequence[int]) -> None: ...

    def note_gain(self, ids: Sequence[int], amount: float) -> None: ...


class UseKeeper:
    """Keeps count of what examples were good for. Only counted here; housekeeping writes it.

    Nobody knows yet how good the answer was: learning.outcomes.known_quality corrects the gain when somebody does.
    """

    def __init__(self, ledger: Ledger, dearest_usd_per_mtok: float) -> None:
        self._ledger = ledger
        self._dearest = dearest_usd_per_mtok

    def keep(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> Iterator[Keeping]:
        """See Keeper."""
        if journey.example_ids:
            cost = model_cost(answer.price.output_usd_per_mtok, self._dearest)
            self._ledger.note_use(journey.example_ids)
            self._ledger.note_gain(journey.example_ids, gain(cost, UNJUDGED))
        yield from ()
