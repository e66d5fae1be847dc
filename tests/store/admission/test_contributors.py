"""What one contributor may put into a bank that others read, and when the others see it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from store.admission.contributors import Contributor, ContributorLimits, held_until_s, may_judge, refusal

LIMITS = ContributorLimits(most_examples=100, max_per_hour=10, quarantine_h=24, trusted_after=5)
HOUR_S = 3600.0
NOW_S = 1_000 * HOUR_S
OLD = Contributor(examples=50, last_hour=1, first_seen_s=0, bank_first_seen_s=0, others=2)
NEW = replace(OLD, first_seen_s=NOW_S - HOUR_S)


def test_one_contributor_never_exceeds_the_cap() -> None:
    assert refusal(OLD, LIMITS) is None
    assert refusal(replace(OLD, examples=100), LIMITS) == "contributor_cap"
    assert refusal(replace(OLD, last_hour=10), LIMITS) == "contributor_rate"


def test_no_cap_means_no_cap() -> None:
    unlimited = replace(LIMITS, max_per_hour=None)
    assert refusal(replace(OLD, last_hour=10**9), unlimited) is None


def test_who_is_alone_is_neither_capped_nor_held() -> None:
    alone = replace(NEW, examples=10**9, last_hour=10**9, others=0)
    assert refusal(alone, LIMITS) is None
    assert held_until_s(alone, LIMITS, NOW_S) is None


def test_a_newcomer_is_not_served_to_others_before_the_period_is_over() -> None:
    assert held_until_s(NEW, LIMITS, NOW_S) == NEW.first_seen_s + 24 * HOUR_S
    assert held_until_s(NEW, LIMITS, NEW.first_seen_s + 24 * HOUR_S) is None


def test_founders_are_not_newcomers() -> None:
    assert held_until_s(replace(NEW, bank_first_seen_s=NEW.first_seen_s - 23 * HOUR_S), LIMITS, NOW_S) is None


def test_a_newcomers_word_counts_for_no_example_however_few_the_others_are() -> None:
    assert may_judge(OLD, LIMITS, NOW_S)
    assert not may_judge(NEW, LIMITS, NOW_S)
    assert not may_judge(replace(NEW, others=0), LIMITS, NOW_S), "its praise would outlast its being alone"
    assert not may_judge(replace(NEW, examples=0, first_seen_s=NOW_S), LIMITS, NOW_S), "who never gave one"
    assert may_judge(replace(NEW, judged_good=5), LIMITS, NOW_S), "the judge, or others, found it good"
    assert may_judge(replace(NEW, bank_first_seen_s=NEW.first_seen_s), LIMITS, NOW_S), "a founder"


@pytest.mark.parametrize(("good", "bad", "held"), [(4, 0, True), (5, 0, False), (50, 1, True)])
def test_only_good_judgements_end_the_quarantine_early(good: int, bad: int, held: bool) -> None:
    judged = replace(NEW, judged_good=good, judged_bad=bad)
    assert (held_until_s(judged, LIMITS, NOW_S) is not None) == held
