"""Texts of requests: found by their words and their request, bounded, and gone with whoever asked."""

from __future__ import annotations

import pytest

from store.decisions.texts import RequestTextLog
from store.sqlite.database import Database
from tests.store.contract.test_texts import texts
from tests.store.sqlite.test_words import vocabulary


@pytest.fixture
def log(db: Database) -> RequestTextLog:
    return RequestTextLog(db)


def test_old_ones_go_first_and_then_as_many_as_the_cap_wants(db: Database, log: RequestTextLog) -> None:
    for number in range(1, 7):
        log.keep(texts(number)).result(30)
    one = log.total_bytes() // 6
    assert log.trim(1002.5, 10**9).result(30) == 2
    assert log.trim(0.0, 2 * one).result(30) == 2
    assert [id for _, id in log.search("legs ")] == ["req-6", "req-5"]
    assert log.total_bytes() == 2 * one
    db.drain(30)
    assert {"insect1", "insect4"}.isdisjoint(vocabulary(db, "request_words"))


@pytest.mark.parametrize("whose", ["tenant", "contributor"])
def test_who_is_forgotten_leaves_no_row_and_no_word(db: Database, log: RequestTextLog, whose: str) -> None:
    other = {"tenant": {"tenant": "b2"}, "contributor": {"contributor": "key_1/ben"}}[whose]
    for number in range(1, 4):
        log.keep(texts(number)).result(30)
    log.keep(texts(9, **other)).result(30)
    gone = log.forget_tenant("a1") if whose == "tenant" else log.forget_contributor("a1", "key_1/ann")
    assert gone.result(30) == 3
    db.drain(30)
    left = vocabulary(db, "request_words")
    assert "insect9" in left and {"insect1", "insect2", "book3"}.isdisjoint(left)
