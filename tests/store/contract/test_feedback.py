from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from store import Store
from store.decisions.outcomes import EnoughFeedback, FeedbackLog, FeedbackRecord
from tests.store.rows import choice_record, outcome_record


def said(number: int, **changes: Any) -> FeedbackRecord:
    fields: dict[str, Any] = {
        "tenant": "a1",
        "key": f"key {number}",
        "content_digest": "digest",
        "request_id": f"req-{number}",
        "contributor": "key_1/ann",
        "at_s": 1000.0 + number,
        "score": 0.25,
        "thumb": "up",
        "preferred_over": "req-0",
        "correction": "demo-1",
        "comment": "Quite right.",
    }
    return FeedbackRecord(**(fields | changes))


@pytest.fixture
def log(store: Store) -> FeedbackLog:
    return store.outcomes.feedback


def test_feedback_comes_back_as_it_was_given_with_the_outcomes_that_follow(
    log: FeedbackLog, store: Store
) -> None:
    for number, changes in enumerate(({}, {"score": None, "thumb": "", "comment": ""}), start=1):
        given = said(number, **changes)
        kept, new = log.give(given, [outcome_record(number), outcome_record(number, key="thumb")]).result(30)
        assert new and kept == replace(given, id=kept.id) == log.find("a1", given.key)
        assert log.of("a1", given.request_id) == [kept]
        assert len(store.outcomes.of("a1", given.request_id)) == 2
    assert log.find("a1", "key 9") is None and log.of("b2", "req-1") == []


def test_there_is_a_most_per_answer_however_many_come_at_once(log: FeedbackLog, store: Store) -> None:
    giving = [
        log.give(said(number, request_id="req-1"), [outcome_record(1, key=f"score:{number}")], most=3)
        for number in range(9)
    ]
    refused = [given for given in giving if isinstance(given.exception(30), EnoughFeedback)]
    assert len(refused) == 6 and len(log.of("a1", "req-1")) == len(store.outcomes.of("a1", "req-1")) == 3
    _, new = log.give(said(0, request_id="req-1"), [], most=3).result(30)
    assert not new, "what was kept is still acknowledged"


def test_the_same_key_again_gives_the_first_back_and_no_outcome(log: FeedbackLog, store: Store) -> None:
    first, _ = log.give(said(1), [outcome_record(1)]).result(30)
    again, new = log.give(said(1, comment="No!"), [outcome_record(1, key="another")]).result(30)
    assert again == first and not new
    assert len(store.outcomes.of("a1", "req-1")) == 1
    _, theirs = log.give(said(1, tenant="b2"), []).result(30)
    assert theirs, "keys of one tenant mean nothing to another"


def test_feedback_is_never_kept_without_its_outcomes(log: FeedbackLog) -> None:
    with pytest.raises(ValueError, match="quality"):
        log.give(said(1), [outcome_record(1, quality=2.0)])
    with pytest.raises(Exception, match="NOT NULL"):
        log.give(said(1), [outcome_record(1, engine=None)]).result(30)
    assert log.find("a1", "key 1") is None


def test_feedback_goes_with_its_choice_its_giver_its_tenant_and_its_age(
    log: FeedbackLog, store: Store
) -> None:
    choices = store.decisions.choices
    for number in range(6):
        choices.record(choice_record(number, contributor="ann" if number == 4 else "bob")).result(30)
        log.give(said(number, contributor="ann" if number == 3 else "bob"), []).result(30)
    log.give(said(9, tenant="b2"), []).result(30)

    def left() -> list[int]:
        return [n for n in (*range(6), 9) if log.find("b2" if n == 9 else "a1", f"key {n}")]

    assert choices.trim(1001.0).result(30) == 1 and left() == [1, 2, 3, 4, 5, 9]
    assert log.trim(1002.0).result(30) == 1 and left() == [2, 3, 4, 5, 9]
    assert log.forget_contributor("a1", "ann").result(30) == 2 and left() == [2, 5, 9]
    with pytest.raises(ValueError, match="nobody"):
        log.forget_contributor("a1", "")
    assert log.forget_tenant("a1").result(30) == 2 and left() == [9]


def test_who_corrected_is_known_by_what_the_correction_became(store: Store) -> None:
    log = store.outcomes.feedback
    log.give(said(1, correction="demo-1", author="ann"), []).result(30)
    found = log.that_made("a1", "demo-1")
    assert found is not None and (found.author, found.request_id) == ("ann", said(1).request_id)
    assert log.that_made("b2", "demo-1") is None and log.that_made("a1", "") is None
