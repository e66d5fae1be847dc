"""Verdicts on sampled answers: one per answer, gone with their tenant and contributor; the shares that are sampled."""

from __future__ import annotations

import pytest

from store import Store
from store.decisions.reviews import Answered, Review, Reviewed, Shares, is_sampled, share_of
from store.errors import ValueRefused
from tests.store.rows import choice_record, outcome_record, request_record

_AT_S = 5_000.0


def review(number: int, **changes: object) -> Review:
    fields = {
        "tenant": "a1",
        "request_id": f"req-{number}",
        "at_s": _AT_S + number,
        "user": "ann",
        "verdict": "good",
        "probability": 0.25,
    }
    return Review(**(fields | changes))  # type: ignore[arg-type]


def test_the_first_verdict_on_an_answer_stays_until_its_reviewer_takes_it_back(store: Store) -> None:
    reviews = store.outcomes.reviews
    assert reviews.note(review(1)).result(30)
    assert not reviews.note(review(1, verdict="bad", user="ben")).result(30)
    assert reviews.of("a1", "req-1") == review(1) and reviews.of("a2", "req-1") is None
    assert not reviews.withdraw("a1", "req-1", "ben").result(30)
    assert reviews.withdraw("a1", "req-1", "ann").result(30) and reviews.of("a1", "req-1") is None
    for wrong in ({"verdict": "fine"}, {"probability": 0.0}):
        with pytest.raises(ValueRefused):
            reviews.note(review(2, **wrong)).result(30)


def test_what_can_be_reviewed_are_the_answers_of_engines_that_were_decided_on(store: Store) -> None:
    reviews, log = store.outcomes.reviews, store.decisions.requests
    changes = (
        {},
        {"outcome": "hit"},
        {"outcome": "failed"},
        {"failed_over": "large; server"},
        {"tenant": "a2"},
    )
    for number, change in enumerate(changes):
        log.record(request_record(number, **change)).result(30)
    found = reviews.answered(since_s=0.0, limit=100)
    assert [(each.tenant, each.request_id) for each in found] == [("a2", "req-4"), ("a1", "req-0")]
    assert len(reviews.answered(since_s=0.0, limit=1)) == 1
    reviews.note(review(0)).result(30)
    assert reviews.known(found) == {("a1", "req-0")}


def test_a_verdict_is_shown_beside_the_judges(store: Store) -> None:
    for number in (1, 2):
        store.decisions.choices.record(choice_record(number)).result(30)
        store.outcomes.reviews.note(review(number, verdict=("good", "bad")[number - 1])).result(30)
    store.outcomes.note(outcome_record(1, source="judge", quality=0.75)).result(30)
    store.outcomes.note(outcome_record(2, source="user", quality=0.5)).result(30)
    assert store.outcomes.reviews.given() == [
        Reviewed("a1", "req-2", _AT_S + 2, "ann", "bad", 0.25, "gpt-4o", "small", None),
        Reviewed("a1", "req-1", _AT_S + 1, "ann", "good", 0.25, "gpt-4o", "small", 0.75),
    ]


def test_a_verdict_names_the_engine_of_an_answer_that_no_router_decided_on(store: Store) -> None:
    store.decisions.requests.record(request_record(3, model="demo", engine="large")).result(30)
    store.decisions.requests.record(request_record(4, tenant="a2", model="demo", engine="large")).result(30)
    for number in (3, 4):
        store.outcomes.reviews.note(review(number)).result(30)
    found = [(each.model, each.engine) for each in store.outcomes.reviews.given()]
    assert found == [("", ""), ("demo", "large")], "another tenant's request is none of this one's"


def test_verdicts_are_those_of_a_tenant_and_a_time_however_many_others_there_are(store: Store) -> None:
    for number in range(4):
        store.outcomes.reviews.note(review(number, tenant=("a1", "a2")[number % 2])).result(30)

    def given(**wanted: object) -> list[str]:
        found = store.outcomes.reviews.given(**wanted)  # type: ignore[arg-type]
        return [each.request_id for each in found]

    assert given(tenant="a1", limit=1) == ["req-2"] and given(tenant="a2") == ["req-3", "req-1"]
    assert given(until_s=_AT_S + 1, limit=1) == ["req-0"] and given(since_s=_AT_S + 3) == ["req-3"]


def test_verdicts_go_with_their_tenant_their_contributor_and_their_time(store: Store) -> None:
    reviews = store.outcomes.reviews
    for number in range(4):
        store.decisions.choices.record(choice_record(number, contributor=f"key_{number}")).result(30)
        reviews.note(review(number)).result(30)
    reviews.note(review(9, tenant="a2")).result(30)
    assert reviews.trim(_AT_S + 1).result(30) == 1
    store.forget_contributors("a1", ["key_1"])
    assert [reviews.of("a1", f"req-{n}") is not None for n in range(4)] == [False, False, True, True]
    with pytest.raises(ValueError, match="nobody"):
        reviews.forget_contributor("a1", "")
    assert reviews.forget_tenant("a1").result(30) == 2 and reviews.of("a2", "req-9") is not None


def test_the_share_of_an_answer_is_the_one_in_force_when_it_was_asked(store: Store) -> None:
    reviews = store.outcomes.reviews
    assert reviews.shares() == [Shares()]
    reviews.choose(Shares(0.5, 0.1, from_s=100.0, user="ann")).result(30)
    reviews.choose(Shares(1.0, 0.0, from_s=200.0, user="ben")).result(30)
    shares = reviews.shares()
    assert [each.from_s for each in shares] == [0.0, 100.0, 200.0]

    def share(at_s: float, engine: str) -> float:
        return share_of(Answered("a1", "r", at_s, "m", engine), shares, "large")

    found = [(share(at_s, "small"), share(at_s, "large")) for at_s in (50.0, 100.0, 200.0)]
    before = Shares()
    assert found == [(before.offloaded, before.reference), (0.5, 0.1), (1.0, 0.0)]
    with pytest.raises(ValueRefused):
        reviews.choose(Shares(1.5, 0.0)).result(30)


def test_the_coin_keeps_its_share_and_says_the_same_at_every_look() -> None:
    answers = [Answered("a1", f"req-{n}", 0.0, "m", "small") for n in range(4_000)]
    sampled = {each.request_id for each in answers if is_sampled(b"secret", each, 0.1)}
    assert abs(len(sampled) / 4_000 - 0.1) < 0.02
    assert sampled == {each.request_id for each in answers if is_sampled(b"secret", each, 0.1)}
    assert sampled < {each.request_id for each in answers if is_sampled(b"secret", each, 0.2)}
    assert not any(is_sampled(b"secret", each, 0.0) for each in answers)
    assert all(is_sampled(b"secret", each, 1.0) for each in answers)
