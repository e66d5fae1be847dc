"""Examples that an engine keeps warm stand first and always in the same order, whatever else is sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.examples.combiner import combine
from router.examples.hot_examples import hot_first
from router.plan import Candidate
from tests.knobs import combiner_knobs
from tests.router.examples.test_combiner import candidate


def ids(chosen: tuple[Candidate, ...]) -> list[int]:
    return [c.example.id for c in chosen]


def test_hot_ones_stand_first_in_their_order_and_the_rest_by_age() -> None:
    chosen = [candidate(n, 0.3) for n in (7, 3, 9, 4)]
    assert ids(hot_first(chosen, {9: 0, 4: 1, 100: 2})) == [9, 4, 3, 7]
    assert ids(hot_first(chosen, {})) == [3, 4, 7, 9]


@given(st.sets(st.integers(1, 30), min_size=1, max_size=8), st.permutations(list(range(1, 31))))
def test_whoever_shares_the_hottest_shares_the_beginning(chosen: set[int], order: list[int]) -> None:
    places = {id: place for place, id in enumerate(order[:10])}
    stands = ids(hot_first([candidate(n, 0.3) for n in sorted(chosen, reverse=True)], places))
    assert sorted(stands) == sorted(chosen)
    hot = [id for id in stands if id in places]
    assert stands[: len(hot)] == sorted(hot, key=places.__getitem__)


def test_the_combiner_orders_by_heat_only_where_the_order_is_stable() -> None:
    given_ = [candidate(1, 0.4), candidate(2, 0.3), candidate(3, 0.2)]
    for order, expected in (("stable", [3, 1, 2]), ("helpful_last", [3, 2, 1])):
        knobs = combiner_knobs(min_gain=0.0, redundancy=0.0, distraction=0.0, order=order)  # type: ignore[arg-type]
        found = combine(given_, quality_alone=0.3, most=3, budget_tokens=10_000, knobs=knobs, hot={3: 0})
        assert ids(found.chosen) == expected
