"""Regions of one action under one scope: opened on proof, closed on change, divided where the whole is not good enough."""

from __future__ import annotations

import random

import numpy as np
import pytest

from router.guarantee.ledger import SHARES
from router.proving.neighbours import Near
from router.proving.regions import Compared, Region, Regions

VECTOR = np.array([1.0, 0.0], np.float32)
GOOD, BAD = Near(0.95, 1.0), Near(0.8, 0.2)


def region() -> Region:
    return Region("all", 0.95, 0.05)


def test_a_region_opens_once_and_says_what_it_rests_on() -> None:
    made = region()
    turned = [t for _ in range(150) if (t := made.add(Compared(1.0))) is not None]
    assert len(turned) == 1 and turned[0].opened and made.open
    assert turned[0].lower >= 0.95 and 60 <= turned[0].compared <= 110


def test_a_region_that_closes_must_be_proven_again_with_more_evidence() -> None:
    made = region()
    first = next(t for _ in range(500) if (t := made.add(Compared(1.0))) is not None)
    closed = next(t for _ in range(500) if (t := made.add(Compared(0.0))) is not None)
    assert not closed.opened and not made.open
    again = next(t for _ in range(500) if (t := made.add(Compared(1.0))) is not None)
    assert again.opened and again.compared > first.compared


def test_samples_go_where_a_decision_hangs_on_them() -> None:
    fresh, hopeless, opened = region(), region(), region()
    for _ in range(10):
        hopeless.add(Compared(0.0))
    for _ in range(150):
        opened.add(Compared(1.0))
    assert fresh.share == 1.0
    assert hopeless.share == pytest.approx(0.2) and hopeless.expected_more is None
    assert opened.share == SHARES[0]


def test_a_region_given_up_is_probed_and_opens_when_the_engine_has_become_good() -> None:
    made = region()
    for _ in range(60):
        made.add(Compared(0.0))
    assert made.hopeless
    for _ in range(300):
        made.add(Compared(1.0))
    assert made.open


def fed(regions: Regions, count: int, *, seed: int = 0, good: float = 0.995, bad: float = 0.5) -> None:
    """Half of the requests have examples that make the engine good, half do not."""
    rng = random.Random(seed)
    for number in range(count):
        near, chance = (GOOD, good) if number % 2 else (BAD, bad)
        rank = regions.rank(VECTOR, near)
        regions.add(rank, VECTOR, near, Compared(float(rng.random() < chance)))


def test_a_scope_that_is_good_in_part_is_divided_and_opens_in_that_part() -> None:
    regions = Regions(0.95, 0.05)
    fed(regions, 1500)
    assert regions.divided
    assert regions.of(regions.rank(VECTOR, GOOD)).open
    assert not regions.of(regions.rank(VECTOR, BAD)).open


def test_a_scope_that_is_good_as_a_whole_is_not_divided() -> None:
    regions = Regions(0.95, 0.05)
    fed(regions, 1000, bad=0.995)
    assert not regions.divided and regions.whole.open


def test_a_scope_is_compared_evenly_until_it_is_divided() -> None:
    regions = Regions(0.95, 0.05)
    fed(regions, 4)
    assert regions.share(0.0) == regions.share(0.99)
    fed(regions, 1500)
    assert regions.share(0.0) != regions.share(0.99)


def test_what_was_known_is_forgotten_when_the_whole_closes() -> None:
    regions = Regions(0.95, 0.05)
    fed(regions, 1000, bad=0.995)
    assert regions.whole.open
    fed(regions, 20, good=0.0, bad=0.0)
    assert not regions.whole.open and regions.rank(VECTOR, GOOD) == 0.0, "nothing good is expected"


def told(made: Region, loss: float, said: float, times: int = 1) -> None:
    for _ in range(times):
        made.add(Compared(loss=loss, said=said))


def test_a_right_answer_beside_a_wrong_one_of_the_references_proves_more_than_an_equal_one() -> None:
    made = region()
    for _ in range(8):
        told(made, 0.0, 1.0, 4)
        told(made, -1.0, 0.0)
    assert made.open, "though answers agree in four of five only"


def test_who_only_complains_of_the_reference_proves_nothing() -> None:
    made = region()
    told(made, 0.0, 0.0, 500)
    assert not made.open and made.most_lost == 1.0


def test_what_people_say_counts_before_anything_else() -> None:
    made = region()
    for _ in range(150):
        made.add(Compared(1.0))
    assert made.open
    told(made, 1.0, 1.0, 20)
    assert not made.open


def test_an_action_may_be_tried_before_it_is_proven_and_not_while_it_is_in_doubt() -> None:
    made = region()
    for _ in range(60):
        made.add(Compared(1.0))
    assert made.may_try and not made.open and made.most_lost < 0.1
    for _ in range(3):
        made.add(Compared(0.0))
    assert not made.may_try


def test_answers_in_other_words_raise_no_doubt_where_people_say_that_they_are_good() -> None:
    made = region()
    told(made, 0.0, 1.0, 60)
    told(made, -0.5, 0.5, 20)
    assert made.open
    for _ in range(15):
        made.add(Compared(0.4))
    assert made.open and made.in_doubt is None
    while made.open and made.in_doubt is None:
        told(made, 1.0, 1.0)
    assert made.kinds["graded"].compared < 100, "what people say raises it"


def test_people_who_found_a_way_bad_with_few_examples_do_not_keep_it_shut_with_many() -> None:
    regions = Regions(0.95, 0.05)
    regions.grown(100)
    for _ in range(20):
        regions.add(0.95, VECTOR, GOOD, Compared(loss=0.0, said=1.0))
    for _ in range(60):
        regions.add(0.95, VECTOR, GOOD, Compared(loss=1.0, said=0.9))
    assert regions.whole.expected_more is None
    regions.grown(200)
    assert regions.whole.expected_more is not None and not regions.divided
