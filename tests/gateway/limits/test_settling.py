"""What a request's reservation is settled at, by how it ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engines.chat import Usage
from gateway.limits.settling import settle
from router.bill import Bill
from router.finished import Journey, Outcome
from tests.finished import chat_request, finished

USED = Usage(10, 5)


class Noted:
    """A bill that notes how it was settled."""

    def __init__(self) -> None:
        self.by: list[object] = []

    def settle(self, usd: float | None, usage: Usage | None) -> None:
        self.by.append((usd, usage))

    def settle_unknown(self, *, began: bool) -> None:
        self.by.append("all" if began else "input")


def settled(ended: Journey) -> object:
    noted = Noted()
    bill: Bill = noted
    settle(replace(ended, bill=bill))
    (by,) = noted.by
    return by


STREAM = replace(chat_request(), stream=True)
CASES = [
    (finished(usage=USED, cost_usd=0.5), (0.5, USED)),
    (finished(usage=USED, cost_usd=None), (None, USED)),
    (finished(hit=b"{}", outcome=Outcome.HIT), (0.0, None)),
    (finished(hit=b"", outcome=Outcome.HIT), (0.0, None)),
    # Answered, and nobody could read it.
    (finished(asked_at=1.0), "all"),
    # The client left: before anything of a stream was here, with a part of it, and while a plain answer was under way.
    (finished(STREAM, outcome=Outcome.ABORTED, asked_at=1.0), "input"),
    (finished(STREAM, outcome=Outcome.ABORTED, asked_at=1.0, engine_head_at=2.0, ended_at=3.0), "input"),
    # It reasons, and hides it.
    (finished(STREAM, outcome=Outcome.ABORTED, asked_at=1.0, engine_head_at=2.0, ended_at=60.0), "all"),
    (finished(STREAM, outcome=Outcome.ABORTED, asked_at=1.0, usage=USED, cost_usd=0.2), (0.2, USED)),
    (finished(outcome=Outcome.ABORTED, asked_at=1.0), "all"),
    (finished(outcome=Outcome.ABORTED), (0.0, None)),
    (finished(outcome=Outcome.REFUSED), (0.0, None)),
    (finished(outcome=Outcome.UPSTREAM_ERROR, asked_at=1.0, head_at=2.0), (0.0, None)),
    (finished(outcome=Outcome.FAILED, asked_at=1.0), (0.0, None)),
    (finished(outcome=Outcome.FAILED, asked_at=1.0, head_at=2.0, first_chunk_at=3.0), "all"),
    (finished(outcome=Outcome.FAILED, asked_at=1.0, head_at=2.0, usage=USED, cost_usd=0.1), (0.1, USED)),
]


@pytest.mark.parametrize(("ended", "by"), CASES)
def test_by_how_it_ended(ended: Journey, by: object) -> None:
    assert settled(ended) == by


def test_a_request_without_a_bill_is_nobodys() -> None:
    settle(finished())
