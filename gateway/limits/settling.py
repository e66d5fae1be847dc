"""Settles what an ended request had reserved, by what it really used."""

from __future__ import annotations

from router.finished import Finished, Journey, Outcome

_THINKS_S = 5.0
"""An engine that takes longer for its first word than this after its answer's head is taken to reason meanwhile."""


def settle(ended: Journey) -> None:
    """Settle a request's bill, if it has one. Its usage and cost are known by now, where they ever are."""
    bill = ended.bill
    if bill is None:
        return
    if isinstance(ended, Finished) and ended.hit is not None:
        bill.settle(0.0, None)
    elif ended.usage is not None:
        bill.settle(ended.cost_usd, ended.usage)
    elif ended.outcome is Outcome.ANSWERED:
        # Too large to be read, or in a form that nobody here reads.
        bill.settle_unknown(began=True)
    elif ended.outcome is Outcome.ABORTED and ended.asked_at:
        # Of a stream something would be here if it had begun, unless it hides what it thinks. Any other answer was under
        # way, out of sight.
        streams = isinstance(ended, Finished) and ended.asked.chat.stream and not _silent(ended)
        bill.settle_unknown(began=not streams)
    elif ended.outcome is Outcome.FAILED and ended.head_at:
        bill.settle_unknown(began=ended.first_chunk_at is not None)
    else:
        bill.settle(0.0, None)


def _silent(ended: Finished) -> bool:
    """Whether its engine had begun to answer, and said nothing for so long that it was thinking."""
    return bool(ended.engine_head_at) and ended.ended_at - ended.engine_head_at > _THINKS_S
