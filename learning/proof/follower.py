"""Tells the gates of all outcomes in the order of their log, so that workers and restarts come to the same state.

An outcome counts for the region that its request was in when it was decided, as its choice noted. Judgements and equal
answers count, and what people said of an answer that they got from a small engine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import structlog

from router.plan import Action
from router.proving.gate import Gate, Opening
from store.decisions.choices import Choices
from store.decisions.outcomes import Outcomes
from store.records import OutcomeRecord

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 0.25
_AT_ONCE = 500
_PAUSE_S = 0.005
"""Between batches, so that requests are answered while many outcomes of old are read."""
_SOURCES = frozenset({"judge", "user"})


class ProofFollower:
    """Polls on its own thread between `start` and `stop`; until the outcomes of old are told nothing is open."""

    def __init__(
        self,
        outcomes: Outcomes,
        choices: Choices,
        gates: Mapping[str, Gate],
        *,
        look_every_s: float = _LOOK_EVERY_S,
        says: bool = True,
    ) -> None:
        """`gates` by served model. `says`: whether what opens and closes is written to the log."""
        self._says = says
        self._outcomes = outcomes
        self._choices = choices
        self._gates = dict(gates)
        self._look_every_s = look_every_s
        self._told = -1
        self._places: dict[str, int] = {}
        """By served model, the last outcome that its gate was told of."""
        self._stopping = threading.Event()
        self._look = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proof", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. The gates keep what they know."""
        self._stopping.set()
        self._look.set()
        if self._thread.is_alive():
            self._thread.join()

    def caught_up(self, timeout_s: float = 5.0) -> bool:
        """Waits until everything noted so far is told, and returns whether it is. For tests and tools."""
        self._look.set()
        wanted, end = self._outcomes.last_id(), time.monotonic() + timeout_s
        while self._told < wanted and time.monotonic() < end:
            time.sleep(0.005)
        return self._told >= wanted

    def tell_new(self) -> None:
        """Tells what was noted since the last time. Blocks: for this thread, or for who has none."""
        live = self._told >= 0
        last = self._outcomes.last_id()
        if self._told < last:
            for model, gate in self._gates.items():
                self._tell(model, gate, last, live=live)
        if not self._stopping.is_set():
            self._told = last

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.tell_new()
            except Exception as error:
                log.error("proof_failed", error=error)
            self._look.wait(self._look_every_s)
            self._look.clear()

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
        by_small = outcome.source in _SOURCES and outcome.engine in gate.small
        if not by_small or (outcome.source == "user" and not outcome.served):
            return []
        choice = self._choices.get(outcome.tenant, outcome.request_id)
        if choice is None or choice.vector is None or not choice.scope:
            return []
        action = Action(outcome.engine, bool(outcome.example_ids))
        return gate.add(outcome.tenant, choice.scope, choice.vector, choice.noted, action, outcome.quality)


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
        region=turned.region,
        compared=turned.compared,
        lower=round(turned.lower, 3),
        upper=round(turned.upper, 3),
    )
