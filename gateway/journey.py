"""What is noted of a request along its way. At its end the notes become a frozen value (router.finished)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engines.chat import Usage
from engines.engine import UNPRICED, Price
from engines.trail import Tried
from router.asked import Arrival
from router.bill import Bill
from router.finished import Ended, Outcome

if TYPE_CHECKING:
    from gateway.errors import Ending


_ID_CHARACTERS = 24
_IDS_AT_ONCE = 256


def _ids() -> Iterator[str]:
    """Unguessable ids. Asking the system for each one lets another thread take the interpreter in mid-request."""
    while True:
        drawn = secrets.token_hex(_IDS_AT_ONCE * _ID_CHARACTERS // 2)
        yield from (drawn[at : at + _ID_CHARACTERS] for at in range(0, len(drawn), _ID_CHARACTERS))


_new_id = _ids().__next__


def arrival(method: str, path: str) -> Arrival:
    """A request that arrives now; nobody knows yet whose it is. For the event loop's thread only."""
    return Arrival(_new_id(), time.perf_counter(), time.time(), method, path)


@dataclass(slots=True)
class Journey:
    """Times and bypassed stages of one request. Times are seconds of time.perf_counter.

    The fields from `outcome` on are for requests that never reach the pipeline: whoever answers them notes how.
    """

    arrival: Arrival
    stages_s: dict[str, float] = field(default_factory=dict)
    """Seconds by stage."""
    bypassed: list[str] = field(default_factory=list)
    """Stages that were late or broken, and left out."""
    asked_at: float = 0.0
    """When an engine was first asked."""
    waited_s: float = 0.0
    """Spent waiting for the head of an engine's answer."""
    head_at: float = 0.0
    """When our own head was ready to be sent."""
    first_chunk_at: float | None = None
    """When the first chunk of a stream was ready to be sent."""
    sent_all: bool = False
    """The reader left after the last event of its stream had been sent: that is no abort."""
    outcome: Outcome = Outcome.FAILED
    status: int = 0
    engine: str = ""
    model: str = ""
    deployment: str = ""
    """The model that its path named, as Azure's do; it counts, whatever the body says."""
    error: str = ""
    policy: str = ""
    reason: str = ""
    failed_over: Tried | None = None
    """See router.finished.Ended."""
    trail: tuple[Tried, ...] = ()
    stored: bool = True
    price: Price = UNPRICED
    usage: Usage | None = None
    cost_usd: float | None = 0.0
    bill: Bill | None = None
    """See router.finished.Ended."""
    in_pipeline: bool = False
    """The pipeline has the request, and reports its end."""

    def stage(self, name: str, began: float) -> None:
        """Note that stage `name`, begun at `began`, has just ended."""
        self.stages_s[name] = self.stages_s.get(name, 0.0) + time.perf_counter() - began

    def overhead_ms(self) -> float:
        """Milliseconds of our own so far, for the response header; call it when the head is about to be sent."""
        self.head_at = time.perf_counter()
        return (self.head_at - self.arrival.began - self.waited_s) * 1000

    def answered(self, status: int, outcome: Outcome = Outcome.ANSWERED) -> None:
        """Note that the request was answered with this status."""
        self.outcome, self.status = outcome, status

    def failed(self, end: Ending) -> None:
        """Note that the request failed."""
        self.outcome = end.outcome
        if end.status:
            self.status, self.error = end.status, end.error
        if end.engine is not None:
            self.engine = end.engine

    def ended(self) -> Ended:
        """How the request ended, now, without the pipeline."""
        return Ended(
            arrival=self.arrival,
            outcome=self.outcome,
            status=self.status,
            engine=self.engine,
            model=self.model,
            error=self.error,
            policy=self.policy,
            reason=self.reason,
            stages_s=self.stages_s,
            bypassed=self.bypassed,
            failed_over=self.failed_over,
            trail=self.trail,
            asked_at=self.asked_at,
            waited_s=self.waited_s,
            head_at=self.head_at,
            first_chunk_at=self.first_chunk_at,
            ended_at=time.perf_counter(),
            stored=self.stored,
            price=self.price,
            usage=self.usage,
            cost_usd=self.cost_usd,
            bill=self.bill,
        )
