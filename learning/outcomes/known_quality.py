"""When it becomes known how good an answer was, the gain of the examples it was made with is corrected.

Each use counted as one of UNJUDGED quality (gateway.keepers.use); what is added here makes it one of the mean of all that is
known of it by then. Blocks: for a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from learning.replay.gain import correction, model_cost
from store.records import Example, OutcomeRecord

Known = Callable[[str, str, Sequence[OutcomeRecord]], None]
"""(tenant, request id, outcomes of it that were just committed)."""


class Outcomes(Protocol):
    """What is needed of store.decisions.outcomes.Outcomes."""

    def of(self, tenant: str, request_id: str) -> list[OutcomeRecord]: ...


class Ledger(Protocol):
    """What is needed of store.examples.accounting.Ledger."""

    def note_gain(self, ids: Sequence[int], amount: float) -> None: ...


class Bank(Protocol):
    """What is needed of store.examples.bank.ExampleBank."""

    def by_ids(self, tenant: str, ids: Sequence[int], *, serving: bool = ...) -> Sequence[Example]: ...


class KnownQuality:
    """Call it with outcomes after they are committed."""

    def __init__(
        self,
        outcomes: Outcomes,
        ledger: Ledger,
        bank: Bank,
        output_usd_per_mtok: Mapping[str, float],
    ) -> None:
        """`output_usd_per_mtok`: of every engine, by name."""
        self._outcomes = outcomes
        self._ledger = ledger
        self._bank = bank
        self._prices = dict(output_usd_per_mtok)
        self._dearest = max(self._prices.values(), default=0.0)

    def __call__(self, tenant: str, request_id: str, new: Sequence[OutcomeRecord]) -> None:
        """Correct the gains. An answer that no client got was no use of its examples, and changes nothing."""
        keys = {outcome.key for outcome in new if outcome.served and outcome.example_ids}
        if not keys:
            return
        said = [o for o in self._outcomes.of(tenant, request_id) if o.served and o.example_ids]
        if not said:
            return
        cost = model_cost(self._prices.get(said[0].engine, self._dearest), self._dearest)
        amount = correction(cost, [o.quality for o in said if o.key not in keys], [o.quality for o in said])
        # Only the tenant's own: what is said here must not change what another tenant lent.
        own = [e.id for e in self._bank.by_ids(tenant, said[0].example_ids, serving=False)]
        if own and amount:
            self._ledger.note_gain(own, amount)
