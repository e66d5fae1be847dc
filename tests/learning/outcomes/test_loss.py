"""What an answer loses against the reference's, by what a person said of one of them."""

from __future__ import annotations

from learning.outcomes.loss import closeness, loss, right_answer


def test_equal_answers_lose_nothing_whatever_was_said() -> None:
    assert loss("a_b", "a_b", right="c_d", score=0.0, quality=1.0) == 0.0


def test_a_right_answer_beside_a_wrong_one_of_the_references_counts_for_it() -> None:
    assert loss("card_arrival", "card_lost", right="card_lost", score=0.0, quality=0.0) == -1.0
    assert loss("card_arrival", "card_lost", right="card_arrival", score=1.0, quality=0.0) == 1.0


def test_where_nobody_knows_the_right_answer_no_more_can_be_lost_than_the_references_was_worth() -> None:
    assert loss("card_arrival", "card_lost", right="", score=0.0, quality=0.0) == 0.0
    assert loss("card_arrival", "card_lost", right="", score=0.6, quality=0.0) == 0.6


def test_praise_makes_a_label_the_right_answer_and_a_sentence_one_of_many() -> None:
    assert right_answer("card_arrival", 1.0) == "card_arrival"
    assert right_answer("Your card is on its way to you.", 1.0) == ""
    assert right_answer("card_arrival", 0.0) == ""
    assert right_answer("card_arrival", 0.0, "card_lost") == "card_lost"


def test_commands_are_as_close_as_they_have_words_in_common() -> None:
    assert closeness("find . -name x", "find . -name y") == 0.75
    assert closeness("card_arrival", "card_lost") == 0.0
