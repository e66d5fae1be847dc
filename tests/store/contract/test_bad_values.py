"""Values that no column holds are refused with the same error by either database, and nothing is left of their jobs."""

from __future__ import annotations

import math

import pytest

from store import Store
from store.decisions.texts import RequestTexts
from store.decisions.usage import Amounts, Used
from store.errors import ValueRefused
from store.people.audit import AuditRecord
from tests.store.rows import request_record

BEYOND = 2**63
HALF = "half \ud800 a pair"
NUL = "before\0after"


@pytest.mark.parametrize(
    ("field", "value"),
    [("prompt_tokens", BEYOND), ("prompt_tokens", -BEYOND - 1), ("total_ms", math.nan), ("model", HALF)],
)
def test_a_row_with_such_a_value_is_refused_alone(store: Store, field: str, value: object) -> None:
    log = store.decisions.requests
    before = log.record(request_record(1))
    refused = log.record(request_record(2, **{field: value}))
    after = log.record(request_record(3))
    assert (before.result(30), after.result(30)) == (None, None)
    with pytest.raises(UnicodeEncodeError if value == HALF else ValueRefused):
        refused.result(30)
    assert [row.id for row in log.recent()] == ["req-3", "req-1"]
    (usage,) = store.decisions.usage.sums()
    assert usage.amounts.requests == 2


def test_the_largest_and_the_smallest_numbers_come_back(store: Store) -> None:
    log = store.decisions.requests
    log.record(request_record(1, prompt_tokens=BEYOND - 1, total_ms=1.7976931348623157e308)).result(30)
    log.record(request_record(2, tenant="b2", started_at_s=5e-324, first_chunk_ms=math.inf)).result(30)
    first, second = log.get("req-1"), log.get("req-2")
    assert first is not None and second is not None
    assert (first.prompt_tokens, first.total_ms) == (BEYOND - 1, 1.7976931348623157e308)
    assert (second.started_at_s, second.first_chunk_ms) == (5e-324, math.inf)


def test_a_time_that_is_no_number_is_no_time(store: Store) -> None:
    store.decisions.requests.record(request_record(1, first_chunk_ms=math.nan)).result(30)
    found = store.decisions.requests.get("req-1")
    assert found is not None and found.first_chunk_ms is None


@pytest.mark.parametrize("value", [BEYOND, HALF])
def test_nothing_is_found_by_such_a_value(store: Store, value: int | str) -> None:
    if isinstance(value, int):
        with pytest.raises(ValueRefused):
            store.decisions.requests.recent(limit=value)
    else:
        with pytest.raises(UnicodeEncodeError):
            store.decisions.requests.get(value)


def test_a_sum_beyond_64_bits_is_refused_and_stays_as_it_was(store: Store) -> None:
    usage = store.decisions.usage
    usage.book(Used(1000.0, "a1", Amounts(requests=1, prompt_tokens=BEYOND - 1), line="judge")).result(30)
    with pytest.raises(ValueRefused):
        usage.book(Used(1000.0, "a1", Amounts(requests=1, prompt_tokens=BEYOND), line="judge")).result(30)
    (found,) = usage.sums()
    assert found.amounts.requests == 1 and found.amounts.prompt_tokens == BEYOND - 1


def test_a_log_has_another_character_for_nul(store: Store) -> None:
    """PostgreSQL keeps no U+0000 in a text."""
    store.decisions.requests.record(request_record(1, model=NUL)).result(30)
    texts = RequestTexts("a1", "req-1", "", 1000.0, NUL, NUL, messages=({"role": "user", "content": NUL},))
    store.decisions.texts.keep(texts).result(30)
    store.audit.note(AuditRecord(1000.0, "ann", NUL, NUL, "done", NUL, {"said": NUL})).result(30)
    plain = NUL.replace("\0", "\ufffd")
    row, kept = store.decisions.requests.get("req-1"), store.decisions.texts.get("a1", "req-1")
    assert row is not None and row.model == plain
    assert kept is not None and (kept.question, kept.answer) == (plain, plain)
    (noted,) = store.audit.page()
    assert (noted.action, noted.target, noted.address, noted.detail) == (plain, plain, plain, {"said": NUL})
