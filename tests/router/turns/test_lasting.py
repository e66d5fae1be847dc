"""How many turns follow is learnt from how many did."""

from __future__ import annotations

import pytest

from router.turns.lasting import Lasting


def played(lengths: list[int]) -> Lasting:
    lasting = Lasting()
    for length in lengths:
        for turns in range(1, length + 1):
            lasting.has(turns)
    return lasting


def test_before_anything_is_known_every_second_conversation_ends() -> None:
    assert Lasting().more_turns(0) == pytest.approx(1.0)


def test_single_questions_are_not_followed() -> None:
    assert played([1] * 200).more_turns(0) < 0.05


def test_the_mean_number_of_further_turns_is_found() -> None:
    lasting = played([5] * 100)
    assert lasting.more_turns(0) == pytest.approx(4.0, abs=0.3)
    assert lasting.more_turns(3) == pytest.approx(1.0, abs=0.2)
    assert lasting.more_turns(4) < 0.2


def test_conversations_that_are_under_way_are_not_taken_to_go_on_for_ever() -> None:
    lasting = played([1] * 50)
    lasting.has(2)
    assert lasting.more_turns(0) < 0.2


def test_what_was_long_ago_is_forgotten() -> None:
    lasting = played([1] * 300 + [3] * 600)
    assert lasting.more_turns(0) > 1.5


def test_very_long_conversations_are_counted_like_long_ones() -> None:
    assert 1.0 < played([200]).more_turns(150) < 200.0


def test_the_share_that_a_smaller_engine_would_answer_is_learnt() -> None:
    lasting = Lasting()
    for number in range(200):
        lasting.decided(wanted=number % 4 == 0, in_tool_loop=False)
    assert lasting.share_wanted() == pytest.approx(0.25, abs=0.02)


def test_a_tool_loop_is_answered_by_who_begins_it() -> None:
    lasting = played([20] * 20)
    for number in range(1000):
        lasting.decided(wanted=False, in_tool_loop=number % 5 > 0)
    assert lasting.share_wanted() < 0.01
    assert lasting.ahead(0) == pytest.approx(4.0, abs=0.2), "the loop, and nothing after it"
