"""Tells the gates of all outcomes.

An outcome counts for the region that its request was in when it was decided, as its choice noted. Judgements and equal
answers count, and what people said of an answer that they got from a small engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog

from learning.guarantee.follower import AT_ONCE, LogFollower
from router.plan import Action
from router.proving.gate import OF_REFERENCE, WITHOUT_VECTOR, Gate, Opening
from router.proving.regions import Compared
from store.changes import LOOK_EVERY_S
from store.decisions.choices import Choices
from store.decisions.outcomes import Outcomes
from store.records import OutcomeRecord

log = structlog.get_logger(__name__)


class ProofFollower(LogFollower[str, Gate]):
    """Until the outcomes of old are told nothing is open."""

    def __init__(
        self,
        outcomes: Outcomes,
        choices: Choices,
        gates: Mapping[str, Gate],
        *,
        look_every_s: float = LOOK_EVERY_S,
        says: bool = True,
    ) -> None:
        """`gates` by served model. `says`: whether what opens and closes is written to the log."""
        super().__init__("proof", look_every_s)
        self._says = says
        self._outcomes = outcomes
        self._choices = choices
        self._gates = dict(gates)

    def _last_id(self) -> int:
        return self._outcomes.last_id()

    def _hearers(self) -> Iterable[tuple[str, Gate]]:
        return self._gates.items()

    def _rows(self, key: str, after: int) -> Sequence[OutcomeRecord]:
        return self._outcomes.after(after, AT_ONCE, model=key)

    def _tell(self, key: str, hearer: Gate, row: OutcomeRecord, *, live: bool) -> None:
        for opening in self._counted(hearer, row):
            if self._says:
                _say(key, opening, live=live)

    def _counted(self, gate: Gate, outcome: OutcomeRecord) -> list[Opening]:
        if not _counts(outcome):
            return []
        detail = json.loads(outcome.detail)
        by_small = outcome.engine in gate.small
        if not by_small and "reference" not in detail and detail.keys().isdisjoint(OF_REFERENCE):
            return []
        choice = self._choices.get(outcome.tenant, outcome.request_id)
        if choice is None or not choice.scope:
            return []
        if choice.vector is None and WITHOUT_VECTOR not in choice.noted:
            # Kept before scopes were left out where another engine stood in.
            return []
        if not by_small:
            gate.saw(outcome.tenant, choice.scope, choice.noted, detail, outcome.latency_s or None)
            return []
        action = Action(outcome.engine, bool(outcome.example_ids))
        told = compared(outcome, detail)
        if told.said is not None and not action.with_examples and detail.get("of") not in gate.small:
            gate.saw(outcome.tenant, choice.scope, choice.noted, {"right": told.said})
        return gate.add(
            outcome.tenant,
            choice.scope,
            choice.vector,
            choice.noted,
            action,
            told,
            outcome.latency_s or None,
            detail.get("fingerprint", ""),
        )


def _counts(outcome: OutcomeRecord) -> bool:
    return outcome.source == "judge" or (outcome.source == "user" and outcome.served)


def compared(outcome: OutcomeRecord, detail: Mapping[str, Any]) -> Compared:
    """Read from an outcome how good a small engine's answer was."""
    loss, said = detail.get("loss"), detail.get("said")
    quality = outcome.quality if said is None else None
    return Compared(quality, loss, said, detail.get("length"), at_s=outcome.at_s)


def _say(model: str, opening: Opening, *, live: bool) -> None:
    """One line for each region that opens or closes; what happened before the start is for those who look closely."""
    turned = opening.turned
    tell = log.info if live else log.debug
    tell(
        "offload_opened" if turned.opened else "offload_closed",
        model=model,
        tenant=opening.tenant,
        scope=opening.scope[:8],
        engine=opening.action.engine,
        examples=opening.action.with_examples,
        region=turned.way,
        compared=turned.compared,
        lower=round(turned.lower, 3),
        upper=round(turned.upper, 3),
    )
