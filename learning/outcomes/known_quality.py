"""Corrects the gain of the examples that an answer was made with, once the answer's quality is known.

Each use was counted with the quality UNJUDGED (gateway.keepers.use); the correction makes it the mean of the qualities known
so far. Blocks: for a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from learning.replay.gain import correction, model_cost
from store.decisions.outcomes import Outcomes
from store.examples.accounting import Ledger
from store.examples.bank import ExampleBank
from store.records import OutcomeRecord

OnOutcomes = Callable[[str, str, Sequence[OutcomeRecord]], None]
"""Called with tenant, request id and the outcomes of that request that were just committed."""


class KnownQuality:
    """An OnOutcomes: call it with outcomes after they are committed."""

    def __init__(
        self,
        outcomes: Outcomes,
        ledger: Ledger,
        bank: ExampleBank,
        output_usd_per_mtok: Mapping[str, float],
    ) -> None:
        """`output_usd_per_mtok`: price of every engine, by name."""
        self._outcomes = outcomes
        self._ledger = ledger
        self._bank = bank
        self._prices = dict(output_usd_per_mtok)
        self._dearest = max(self._prices.values(), default=0.0)

    def __call__(self, tenant: str, request_id: str, new: Sequence[OutcomeRecord]) -> None:
        """Corrects the gains. An answer that no client got was no use of its examples, and changes nothing."""
        keys = {outcome.key for outcome in new if outcome.served and outcome.example_ids}
        if not keys:
            return
        known = [o for o in self._outcomes.of(tenant, request_id) if o.served and o.example_ids]
        if not known:
            return
        cost = model_cost(self._prices.get(known[0].engine, self._dearest), self._dearest)
        amount = correction(cost, [o.quality for o in known if o.key not in keys], [o.quality for o in known])
        # Only the tenant's own examples: outcomes must not change what another tenant lent.
        own = [e.id for e in self._bank.by_ids(tenant, known[0].example_ids, serving=False)]
        if own and amount:
            self._ledger.note_gain(own, amount)
