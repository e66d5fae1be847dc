"""Records what is known of a request: noted on its way, complete at its end, for the log, the metrics, the recorder
and the judge. Nobody on the event loop writes to it once it was handed over."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from engines.answers.answer import Assembled, Body
from engines.chat import ChatRequest, Usage
from engines.engine import UNPRICED, Price
from engines.trail import Tried
from router.asked import Admitted, Arrival, Asked
from router.bill import Bill
from router.plan import Attempt, Plan


class Outcome(Enum):
    """The end of a request."""

    HIT = "hit"
    """Answered from memory; no engine was asked."""
    ANSWERED = "answered"
    """An engine answered in full with a status below 400."""
    UPSTREAM_ERROR = "upstream_error"
    """An engine answered in full with an error, which was passed on."""
    REFUSED = "refused"
    """The request was wrong, or not allowed."""
    UNAVAILABLE = "unavailable"
    """The request may be right, and the gateway could not take it just then: its store is busy or down."""
    FAILED = "failed"
    """No engine could answer, or its answer broke off."""
    ABORTED = "aborted"
    """The client left before the last event of its stream was sent, or before the end of another answer."""


class Ending(NamedTuple):
    """The end of a request that raised something."""

    outcome: Outcome
    status: int
    """0 if nothing was sent because of it: the reader has left."""
    error: str
    engine: str | None = None
    """Which engine failed; None if the error tells of none."""
    told: str = ""
    """The message for its client."""


@dataclass(slots=True, kw_only=True, eq=False)
class Journey:
    """The facts of any request. Times are seconds of time.perf_counter."""

    arrival: Arrival = field(kw_only=False)
    admitted: Admitted = field(init=False, repr=False)
    """The same once it was let in; before that there is none. What leads anywhere goes by this one."""
    in_pipeline: bool = False
    """The pipeline has the request, and reports its end with a record of its own."""
    deployment: str = ""
    """The model that its path named, as Azure's do; it counts, whatever the body says."""
    below: str | None = None
    """Below what of the server's root its path is (`/v2`); None: below its base URL, as most are."""
    outcome: Outcome = Outcome.FAILED
    status: int = 0
    """Sent to the client; 0 if it left before there was one."""
    engine: str = ""
    """Which engine answered, or failed to; empty if none was asked."""
    model: str = ""
    error: str = ""
    """In words of ours, or the code of a refusal: for logs."""
    told: str = ""
    """The message of its failure for its client. May quote what was asked: not for logs and rows."""
    policy: str = ""
    reason: str = ""
    """A short code: why this engine, or this remembered answer."""
    stages_s: dict[str, float] = field(default_factory=dict)
    """Seconds by stage."""
    bypassed: list[str] = field(default_factory=list)
    """Stages that were late or broken, and left out."""
    failed_over: Tried | None = None
    """The engine that was decided on, and why another one answered, or gave a part of the answer."""
    instead_of: Tried | None = None
    """The engine that would have been decided on had it not been down then; None if that changed nothing."""
    trail: tuple[Tried, ...] = ()
    """The engines that were asked or could not be, in order."""
    asked_at: float = 0.0
    """When an engine was first asked; 0 if none was."""
    waited_s: float = 0.0
    """Spent waiting for the head of an engine's answer."""
    head_at: float = 0.0
    """When our own head was ready to be sent."""
    first_chunk_at: float | None = None
    """When the first chunk of a stream was ready to be sent."""
    sent_all: bool = False
    """The reader left after the last event of its stream had been sent: that is no abort."""
    ended_at: float = 0.0
    stored: bool = True
    """True if there may be a row of it: `Cache-Control: no-store` forbids it, and leaves the sums."""
    price: Price = UNPRICED
    """The price of the engine that answered, or that gave the end of the answer."""
    usage: Usage | None = None
    """The tokens that an engine was paid for; None for a hit, and if nobody can say."""
    cost_usd: float | None = 0.0
    """The pay of all engines that had a part in it; 0 for a hit and a refusal; None: unpriced, or nobody can say."""
    beside_usd: float = 0.0
    """The part of it for answers that were not given: those that a cascade asked for."""
    billed: bool = False
    """It is known what it used, as far as it ever will be."""
    guardrail: str = ""
    """Which guardrail blocked it or its answer, replaced its answer, or gave no verdict that it needed."""
    bill: Bill | None = None
    """The part of its sender's limits that it had reserved."""

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
            self.status, self.error, self.told = end.status, end.error, end.told
        if end.engine is not None:
            self.engine = end.engine

    def end(self) -> None:
        """Note that the request has ended, now, without the pipeline."""
        self.ended_at = time.perf_counter()
        unbilled = self.outcome is Outcome.ABORTED and not self.billed and self.arrival.method == "POST"
        if unbilled and self.asked_at:
            # Its reader left before an answer began: nobody can say what was generated by then.
            self.cost_usd = None

    @property
    def stood_in_for(self) -> Tried | None:
        """Return the try whose place the engine that answered took: its answer is neither offloaded nor saved."""
        return self.failed_over or self.instead_of

    @property
    def total_s(self) -> float:
        """Seconds from beginning to end."""
        return self.ended_at - self.arrival.began

    @property
    def first_chunk_s(self) -> float | None:
        """Seconds until the first chunk of a stream; None if nothing was streamed."""
        return None if self.first_chunk_at is None else self.first_chunk_at - self.arrival.began

    @property
    def overhead_s(self) -> float:
        """Seconds of our own before our head was sent: all but the wait for an engine."""
        return (self.head_at or self.ended_at) - self.arrival.began - self.waited_s


_NO_BODY = Body()


@dataclass(slots=True, kw_only=True, eq=False)
class Finished(Journey):
    """The facts of a chat completion. What an answer says and costs is known once the recorder has read it."""

    asked: Asked
    plan: Plan | None = None
    """The decision; None for an answer from memory, and for a request that ended before."""
    policy_version: str = ""
    probability: float = 1.0
    """With which this way of answering was chosen."""
    exact_key: bytes | None = None
    """The key under which the answer may be kept for exact repeats; None if it may not."""
    replay_forbidden: bool = False
    """The engine's answer says by `Cache-Control` that it is not for another request."""
    engine_head_at: float = 0.0
    """When the head of an engine's answer came; 0 if none did."""
    hit: bytes | None = None
    """The remembered body that was sent; None for a fresh answer. Empty: another request's was sent as it came (`body`)."""
    attempt: Attempt | None = None
    """The attempt at the engine that answered; None if none did."""
    came: ChatRequest | None = None
    """The request before limits changed it; None if they did not."""
    engine_got: ChatRequest | None = None
    """The request to the last engine; None if none was asked."""
    carried_on_by: tuple[str, ...] = ()
    """Engines that carried the answer on, one after the other, where the one before broke off."""
    from_reference: bool = False
    """The model's reference engine gave all of the answer, without examples of ours."""
    translated: bool = False
    """Its engine was asked in another API than its client."""
    remember: bool = True
    """True if the model's answers may become examples at all."""
    broken_off: tuple[tuple[Price, int], ...] = ()
    """Engines that broke off before it: the price of each, and how many tokens of the answer it gave."""
    reference_price: Price | None = None
    """The price of the engine that would have answered without us."""
    body: Body = _NO_BODY
    """The bytes that were sent."""
    reuse: object | None = None
    """The request's part in reusing answers for similar questions; only gateway.reuse reads it."""
    reused_example: int | None = None
    """The example whose answer was given to this similar question."""
    assembled: Assembled | None = None
    """The answer as one object; None if it cannot be read as one."""
    example_tokens: int = 0
    """The part of the prompt's tokens that examples of ours, sent along, account for."""
    examples_usd: float = 0.0
    """The part of `cost_usd`, likewise."""
    reference_cost_usd: float | None = None
    """The charge of the model's reference engine, had it answered; None if nobody can say."""

    def decided(self, policy: str, version: str = "", reason: str = "", probability: float = 1.0) -> None:
        """Note how the request is answered, and why."""
        self.policy, self.policy_version, self.reason = policy, version, reason
        self.probability = probability

    def withhold(self, guardrail: str) -> None:
        """A guardrail keeps what was asked or said from its client: nothing of it is remembered, judged or compared."""
        self.guardrail = guardrail
        self.asked = replace(self.asked, controls=replace(self.asked.controls, no_store=True))
        self.exact_key = self.reuse = None

    @property
    def row_allowed(self) -> bool:
        """Tell if there may be a row of it.

        What a guardrail withheld is as if its client had forbidden to keep it, but has a row.
        """
        return self.stored if self.guardrail else not self.asked.controls.no_store

    @property
    def complete(self) -> bool:
        """Tell if an engine's answer came to its end, and was no error."""
        return self.outcome is Outcome.ANSWERED

    @property
    def by_student(self) -> bool:
        """Tell if a task's student answered, and no engine was asked."""
        return self.attempt is not None and self.attempt.prediction is not None and not self.carried_on_by

    @property
    def by_stand_in(self) -> bool:
        """Tell if another engine than the chosen one answered, or several tries at it gave a part of the answer each."""
        return self.failed_over is not None or bool(self.carried_on_by)

    @property
    def example_ids(self) -> tuple[int, ...]:
        """The examples that were sent along."""
        return tuple(c.example.id for c in self.attempt.examples) if self.attempt is not None else ()
