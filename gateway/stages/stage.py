"""A stage of a request's way: it answers the request, or has the next one answer it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from engines.answers.answer import Body
from engines.engine import Price
from gateway.errors import ending
from gateway.forward import ChunkBuffer
from gateway.guardrails.contract import Withheld
from gateway.send import Send
from gateway.served_model import ServedModel
from router.asked import Asked
from router.finished import Finished, Outcome
from router.plan import Plan

if TYPE_CHECKING:
    from engines.candidates import Try
    from router.bill import Bill


class UnderWay:
    """A request on its way through the stages. What comes of it is noted in `record`."""

    __slots__ = (
        "alone",
        "detached",
        "ended",
        "kept",
        "model",
        "record",
        "reserve",
        "send",
        "shared",
        "spends",
        "steered",
    )

    def __init__(
        self,
        asked: Asked,
        model: ServedModel,
        send: Send,
        ended: Callable[[Finished], None],
        reference_price: Price,
    ) -> None:
        arrival, chat = asked.arrival, asked.chat
        self.record = Finished(
            arrival,
            asked=asked,
            model=chat.model,
            stored=not asked.controls.no_store,
            remember=model.remember and not chat.state,
            reference_price=reference_price,
        )
        self.model = model
        self.send = send
        self.shared: Send | None = None
        """Takes what engines say for others, too, who asked the same."""
        self.alone = False
        """Its answer is changed for it before it is sent: nobody else gets it as it came."""
        self.kept = ChunkBuffer(asked.max_kept_bytes)
        self.ended = ended
        self.detached = False
        """It goes on in a task of its own, which reports its end."""
        self.spends = False
        """What its engines charge is counted against a limit."""
        self.reserve: Callable[[Sequence[Try]], Awaitable[Bill | None]] | None = None
        """Sets aside what any of these may cost. Raises LimitReached."""
        self.steered: Callable[[Plan, str], Plan] | None = None
        """Changes a plan, given the name of the reference engine."""

    async def to_its_end(self, first: Next) -> None:
        """Have it answered, and report its end."""
        try:
            await answered(self, first)
        except BaseException as error:
            self.failed(error)
            raise
        finally:
            self.finish()

    def failed(self, error: BaseException) -> None:
        """Note that no answer began, or its reader left."""
        record = self.record
        if isinstance(error, Withheld):
            record.withhold(error.guardrail)
        end = ending(error, gone=self.send.gone, sent_all=record.sent_all)
        if record.hit is not None and end.outcome is Outcome.ANSWERED:
            # Another request's answer, all of which was sent.
            end = end._replace(outcome=Outcome.HIT)
        record.failed(end)

    def finish(self) -> None:
        """Report what came of it."""
        record, kept = self.record, self.kept
        if record.plan is not None and record.plan.late is not None:
            record.plan = record.plan.with_late()
        record.body = Body(kept.chunks, kept.size_bytes, kept.content_type, kept.encoded, kept.passed)
        record.ended_at = time.perf_counter()
        self.ended(record)


Next = Callable[[UnderWay], Awaitable["Next | None"]]
"""Who answers next."""


class Stage(Protocol):
    """One feature. Made at start, for each served model that uses it."""

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """Answer the request, and give None; or give `next`, which is to answer it. A stage that has more to do once it is
        answered awaits `answered(request, next)` instead: only that costs a frame.

        Raises RequestError, ClientGone, and EngineError if no answer began.
        """
        ...


async def answered(request: UnderWay, next: Next) -> None:
    """Have the request answered by `next` and those behind it."""
    step: Next | None = next
    while step is not None:
        step = await step(request)


def chained(stages: Sequence[Stage]) -> Next:
    """All of them as one, the first outermost; the last never asks for a next one."""
    first: Next = _nobody
    for stage in reversed(stages):
        first = partial(stage.answer, next=first)
    return first


async def _nobody(request: UnderWay) -> Next | None:
    raise AssertionError("the last stage answers")
