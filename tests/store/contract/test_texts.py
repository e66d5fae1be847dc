"""Texts of requests: found by their words and their request, bounded, and gone with whoever asked."""

from __future__ import annotations

from typing import Any

import pytest

from store import Store
from store.decisions.texts import RequestTextLog, RequestTexts, SentExample
from tests.store.rows import request_record


def texts(number: int, **changes: Any) -> RequestTexts:
    fields: dict[str, Any] = {
        "tenant": "a1",
        "request_id": f"req-{number}",
        "contributor": "key_1/ann",
        "at_s": 1000.0 + number,
        "question": f"How many legs has insect{number}?",
        "answer": f"Six, says book{number}.",
        "messages": ({"role": "user", "text": f"How many legs has insect{number}?"},),
        "left_out": 2,
        "replaced": ("EMAIL",),
        "sent_at": 0,
        "sent": (SentExample(7, "abc"), SentExample(3, "def")),
        "finish_reason": "stop",
        "same": bytes([number]),
    }
    return RequestTexts(**(fields | changes))


@pytest.fixture
def log(store: Store) -> RequestTextLog:
    return store.decisions.texts


def test_what_is_kept_comes_back_as_it_was_and_only_to_its_tenant(log: RequestTextLog) -> None:
    log.keep(texts(1)).result(30)
    assert log.get("a1", "req-1") == texts(1)
    assert log.get("b2", "req-1") is None and log.get("a1", "req-2") is None


def test_the_latest_come_with_who_asked_and_without_repeats(store: Store, log: RequestTextLog) -> None:
    for number in (1, 2, 3):
        row = request_record(number, key_id=f"key_{number}", end_user="ann")
        store.decisions.requests.record(row).result(30)
    log.keep(texts(1), texts(2), texts(3, messages=None)).result(30)
    assert log.latest(5) == [(texts(2), "key_2", "ann"), (texts(1), "key_1", "ann")]
    assert log.latest(1) == [(texts(2), "key_2", "ann")]


def test_a_second_one_of_the_same_request_changes_nothing(log: RequestTextLog) -> None:
    log.keep(texts(1)).result(30)
    log.keep(texts(1, answer="Eight.")).result(30)
    assert log.get("a1", "req-1") == texts(1)


def repeats(store: Store, **changes: Any) -> None:
    """Of the first request: another one of its tenant, and one of another tenant."""
    for number, tenant in ((2, "a1"), (3, "b2")):
        again = {"tenant": tenant, "outcome": "hit", "exact_key": bytes([1]), "no_text": "of_key"} | changes
        store.decisions.requests.record(request_record(number, **again)).result(30)


def test_a_repeat_shows_the_first_ones_texts_but_never_another_tenants(
    store: Store, log: RequestTextLog
) -> None:
    log.keep(texts(1)).result(30)
    repeats(store)
    assert log.get("a1", "req-2") == texts(1)
    assert log.get("b2", "req-3") is None and log.get("b2", "req-2") is None


def test_who_asked_again_is_kept_and_the_texts_are_the_first_ones(store: Store, log: RequestTextLog) -> None:
    log.keep(texts(1), RequestTexts("a1", "req-2", "", 1.0, same=bytes([1]))).result(30)
    repeats(store)
    assert log.get("a1", "req-2") == texts(1)


@pytest.mark.parametrize("whose", ["key", "user"])
def test_who_is_forgotten_asked_nothing_that_others_asked_too(
    store: Store, log: RequestTextLog, whose: str
) -> None:
    log.keep(texts(1)).result(30)
    repeats(store, key_id="key_2", end_user="bob")
    requests = store.decisions.requests
    forgotten = requests.forget_key("a1", "key_2") if whose == "key" else requests.forget_user("a1", "bob")
    assert forgotten.result(30) == 1
    assert log.get("a1", "req-2") is None and log.previews(["req-2"]) == {}
    assert log.repeats([place for place, _ in log.search("legs")]) == {}
    row = requests.get("req-2")
    assert row is not None and row.no_text == "forgotten" and log.get("a1", "req-1") == texts(1)


def test_of_a_repeat_whose_own_texts_may_not_be_kept_none_are_shown(
    store: Store, log: RequestTextLog
) -> None:
    log.keep(texts(1)).result(30)
    repeats(store, no_text="opted_out_key")
    assert log.get("a1", "req-2") is None and log.previews(["req-2"]) == {}


def test_words_find_requests_latest_first_and_page_by_page(log: RequestTextLog) -> None:
    for number in range(1, 5):
        log.keep(texts(number)).result(30)
    found = log.search("legs ")
    assert [id for _, id in found] == ["req-4", "req-3", "req-2", "req-1"]
    assert [id for _, id in log.search("legs ", before=found[1][0], limit=1)] == ["req-2"]
    assert [id for _, id in log.search("book3")] == ["req-3"] and log.search("") == []


def test_previews_are_cut_and_a_repeat_has_the_first_ones(store: Store, log: RequestTextLog) -> None:
    store.decisions.requests.record(request_record(1)).result(30)
    repeats(store)
    log.keep(texts(1)).result(30)
    assert log.previews(["req-1", "req-2", "req-3", "?"], 8) == {"req-1": "How many", "req-2": "How many"}


def test_nobody_in_particular_cannot_be_forgotten(log: RequestTextLog) -> None:
    with pytest.raises(ValueError, match="nobody"):
        log.forget_contributor("a1", "")
