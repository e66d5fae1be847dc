"""What shows that an engine is not the one that was compared."""

from __future__ import annotations

import random

from router.proving.fingerprint import Fingerprints, Lengths


def test_a_new_fingerprint_is_a_change_once_and_none_or_a_known_one_is_not() -> None:
    seen = Fingerprints()
    assert not any(seen.changed(each) for each in ["a"] * 30 + [""] * 30)
    assert [seen.changed(each) for each in ["b", "b", "a", "b"]] == [True, False, False, False]


def test_several_that_are_in_use_at_once_are_known_before_they_could_be_a_change() -> None:
    draw, seen = random.Random(3), Fingerprints()
    assert not any(seen.changed(draw.choice("abcdef")) for _ in range(2000))


def test_an_engine_with_a_new_one_every_time_or_often_is_not_closed_for_ever() -> None:
    always, often = Fingerprints(), Fingerprints()
    assert not any(always.changed(str(number)) for number in range(2000))
    assert sum(often.changed(str(number // 25)) for number in range(2000)) <= 7


def test_answers_that_become_much_longer_or_shorter_are_a_change_and_those_that_vary_are_not() -> None:
    draw = random.Random(5)
    longer, shorter, same = Lengths(), Lengths(), Lengths()
    for _ in range(2000):
        assert not same.changed(draw.uniform(0.2, 0.8))
    for _ in range(100):
        assert not longer.changed(draw.uniform(0.4, 0.6)) and not shorter.changed(draw.uniform(0.4, 0.6))
    assert any(longer.changed(draw.uniform(0.7, 0.9)) for _ in range(100))
    assert any(shorter.changed(draw.uniform(0.0, 0.2)) for _ in range(100))
