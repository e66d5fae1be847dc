"""Keeps count of what examples were good for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from gateway.answer import Answer
from gateway.assemble import Assembled
from gateway.journey import Journey
from gateway.keepers.keeper import Keeping

_UNJUDGED = 0.5
"""The quality of an answer that nobody judged, halfway between worthless and perfect."""


class Ledger(Protocol):
    """What is needed of store.accounting.Ledger."""

    def note_use(self, ids: Sequence[int]) -> None: ...

    def note_gain(self, ids: Sequence[int], amount: float) -> None: ...


class UseKeeper:
    """Keeps count of what examples were good for. Only counted here; housekeeping writes it."""

    def __init__(
        self, ledger: Ledger, dearest_usd_per_mtok: float, gain: Callable[[float, float], float]
    ) -> None:
        self._ledger = ledger
        self._dearest = dearest_usd_per_mtok
        self._gain = gain

    def keep(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> Iterator[Keeping]:
        """See Keeper."""
        if journey.example_ids:
            price = answer.price.output_usd_per_mtok
            cost = min(1.0, price / self._dearest) if self._dearest else 1.0
            self._ledger.note_use(journey.example_ids)
            self._ledger.note_gain(journey.example_ids, self._gain(cost, _UNJUDGED))
        yield from ()
