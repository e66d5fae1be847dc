"""Tells the gates of all outcomes in the order of their log, so that workers and restarts come to the same state.

An outcome counts for the region that its request was in when it was decided, as its choice noted. Judgements and equal
answers count, and what people said of an answer that they got from a small engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import structlog

from learning.poller import LOOK_EVERY_S, Poller
from router.plan import Action
from router.proving.gate import OF_REFERENCE, Gate, Opening
from router.proving.regions import Compared
from store.decisions.choices import Choices
from store.decisions.outcomes import Outcomes
from store.records import OutcomeRecord

log = structlog.get_logger(__name__)

_AT_ONCE = 500
_PAUSE_S = 0.005
"""Between batches, so that requests are answered while many outcomes of old are read."""
_SOURCES = frozenset({"judge", "user"})


class ProofFollower(Poller):
    """Polls on its own thread between `start` and `stop`; until the outcomes of old are told nothing is open."""

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
        self._told = -1
        self._places: dict[str, int] = {}
        """By served model, the last outcome that its gate was told of."""

    def caught_up(self, timeout_s: float = 5.0) -> bool:
        """Waits until everything noted so far is told, and returns whether it is. For tests and tools."""
        wanted = self._outcomes.last_id()
        return self._waited(lambda: self._told >= wanted, timeout_s)

    def look(self) -> None:
        """Tells what was noted since the last time; see Poller."""
        live = self._told >= 0
        last = self._outcomes.last_id()
        if self._told < last:
            for model, gate in self._gates.items():
                self._tell(model, gate, last, live=live)
        if not self._stopping.is_set():
            self._told = last

    def _tell(self, model: str, gate: Gate, last: int, *, live: bool) -> None:
        while not self._stopping.is_set():
            found = self._outcomes.after(self._places.get(model, 0), _AT_ONCE, model=model)
            for outcome in found:
                self._places[model] = outcome.id
                for opening in self._counted(gate, outcome):
                    if self._says:
                        _say(model, opening, live=live)
            if len(found) < _AT_ONCE:
                # Nothing up to here is this model's: it need not be looked through again.
                self._places[model] = max(self._places.get(model, 0), last)
                return
            self._stopping.wait(_PAUSE_S)

    def _counted(self, gate: Gate, outcome: OutcomeRecord) -> list[Opening]:
        if outcome.source not in _SOURCES or (outcome.source == "user" and not outcome.served):
            return []
        detail = json.loads(outcome.detail)
        by_small = outcome.engine in gate.small
        if not by_small and "reference" not in detail and detail.keys().isdisjoint(OF_REFERENCE):
            return []
        choice = self._choices.get(outcome.tenant, outcome.request_id)
        if choice is None or choice.vector is None or not choice.scope:
            return []
        if not by_small:
            gate.saw(outcome.tenant, choice.scope, choice.noted, detail, outcome.latency_s or None)
            return []
        action = Action(outcome.engine, bool(outcome.example_ids))
        told = compared(outcome, detail)
        if told.said is not None and not action.with_examples and detail.get("of") not in gate.small:
            gate.saw(outcome.tenant, choice.scope, choice.noted, {"right": told.said})
        return gate.add(
            outcome.tenant, choice.scope, choice.vector, choice.noted, action, told, outcome.latency_s or None
        )


def compared(outcome: OutcomeRecord, detail: Mapping[str, Any]) -> Compared:
    """What an outcome tells of a small engine's answer."""
    loss, said = detail.get("loss"), detail.get("said")
    return Compared(outcome.quality if said is None else None, loss, said)


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
