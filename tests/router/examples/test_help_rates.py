"""What a scorer promises is brought to how often a tenant's bank holds what is asked for."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.examples.help_rates import EVERYBODY, LATELY, STRANGERS, Effects, HelpRates

SHARES = st.floats(0.0, 1.0)


def best(
    rates: HelpRates, helps: float, *, familiar: bool = False, tenant: str = "t", scorer: str = "s"
) -> float:
    return rates.corrected(tenant, scorer, [(0.0, 0.0), (helps, 0.05)], familiar=familiar)[1][0]


def test_where_strangers_are_never_helped_small_promises_shrink_and_where_they_are_they_stay() -> None:
    barren, fertile = HelpRates(), HelpRates()
    for _ in range(LATELY):
        best(barren, 0.005)
        best(fertile, 0.8)
    assert best(barren, 0.2) < 0.02, "one doubtful promise among hundreds of requests that found nothing"
    assert best(barren, 0.95) > 0.4, "and one that is quite sure"
    assert best(fertile, 0.2) == 0.2


def test_a_bank_that_learns_what_is_asked_is_soon_believed_again() -> None:
    rates = HelpRates()
    for _ in range(LATELY):
        best(rates, 0.005)
    seen = [best(rates, 0.9) for _ in range(40)]
    assert seen[0] < 0.4 and seen[-1] > 0.8


def test_a_new_tenants_strangers_are_doubted_a_little_and_what_is_mentioned_is_not() -> None:
    assert 0.05 < best(HelpRates(), 0.2) < 0.2
    assert best(HelpRates(), 0.2, familiar=True) == 0.2


def test_in_a_stream_of_strangers_what_is_mentioned_is_doubted_too() -> None:
    rates = HelpRates()
    for _ in range(LATELY):
        best(rates, 0.005)
    assert best(rates, 0.2, familiar=True) < 0.02


def test_requests_that_are_mentioned_say_nothing_of_strangers() -> None:
    rates = HelpRates()
    before = best(rates, 0.2)
    for _ in range(LATELY):
        best(rates, 0.9, familiar=True)
    assert best(rates, 0.2) == pytest.approx(before, rel=0.5)
    assert best(rates, 0.2) < 0.2


def test_tenants_and_scorers_are_kept_apart() -> None:
    rates = HelpRates()
    for _ in range(LATELY):
        best(rates, 0.005)
    new = best(HelpRates(), 0.2)
    assert best(rates, 0.2, tenant="other") == new
    assert best(rates, 0.2, scorer="other") == new
    assert best(rates, 0.2) < new


def test_the_tenants_seen_longest_ago_are_forgotten() -> None:
    rates = HelpRates(tenants=2)
    for _ in range(LATELY):
        best(rates, 0.005, tenant="a")
    for tenant in ("b", "c"):
        best(rates, 0.5, tenant=tenant)
    assert best(rates, 0.2, tenant="a") == best(HelpRates(), 0.2)
    with pytest.raises(ValueError, match="tenants"):
        HelpRates(tenants=0)


def test_at_the_share_at_which_scorers_learn_nothing_is_changed() -> None:
    for share, familiar in ((STRANGERS, False), (EVERYBODY, True)):
        rates = HelpRates()
        # Most requests are clear cases.
        for n in range(2 * LATELY):
            best(rates, 0.95 if n % 10 < 20 * share.learnt else 0.0, familiar=familiar)
        assert best(rates, 0.3, familiar=familiar) == 0.3


@given(st.lists(st.tuples(st.lists(st.tuples(SHARES, SHARES), max_size=5), st.booleans()), max_size=30))
def test_corrected_shares_are_shares_in_the_same_order_and_never_more(
    requests: list[tuple[Effects, bool]],
) -> None:
    rates = HelpRates()
    for effects, familiar in requests:
        found = rates.corrected("t", "s", effects, familiar=familiar)
        assert [harms for _, harms in found] == [harms for _, harms in effects]
        assert all(0.0 <= now <= was + 1e-12 for (now, _), (was, _) in zip(found, effects, strict=True))
        order = sorted(range(len(effects)), key=lambda n: effects[n][0])
        assert all(found[a][0] <= found[b][0] + 1e-12 for a, b in itertools.pairwise(order))


def test_no_candidates_say_nothing() -> None:
    rates = HelpRates()
    for _ in range(LATELY):
        assert rates.corrected("t", "s", [], familiar=False) == []
    assert best(rates, 0.2) == best(HelpRates(), 0.2)
