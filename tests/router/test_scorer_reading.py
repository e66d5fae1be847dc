"""Reading a text once: what counts as rare in it, whose turn says it, and what is kept of it."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from router.rarity import Rarity
from router.scorer_reading import ANSWER, QUESTION, Readings, read, spelled_from
from tests.router.scoring import example, rarity


@pytest.fixture(scope="module")
def words() -> Rarity:
    return rarity()


def test_names_and_identifiers_are_rare_and_function_words_are_left_out(words: Rarity) -> None:
    text = read("What is the weight of the QX-410 in Meomild?", words)
    assert {"qx-410", "qx", "410", "meomild"} <= set(text.rare)
    assert not {"the", "what", "is"} & set(text.rare)
    assert "the" not in text.words
    assert list(text.rare.values()) == sorted(text.rare.values(), reverse=True)


def test_only_the_last_turn_counts_as_the_turn(words: Rarity) -> None:
    text = read("And of Westwick?\n(Earlier: population of Meomild / It is 5.)", words)
    assert "meomild" in text.rare
    assert set(text.turn) == {"westwick"}
    plain = read("population of Meomild", words)
    assert plain.turn is plain.rare


def test_what_is_kept_is_bounded_and_the_same_object_while_it_is(words: Rarity) -> None:
    readings = Readings(words, 2)
    first = readings.of([example(1)])[0]
    assert readings.of([example(1)])[0] is first
    readings.of([example(2), example(3)])
    readings.of([example(4), example(5)])
    assert readings.of([example(1)])[0] is not first
    assert readings.of([example(1)])[0] == first


def test_another_text_under_the_same_id_is_another_reading(words: Rarity) -> None:
    readings = Readings(words, 10)
    one, two = readings.of([example(1), replace(example(1), question="Something else entirely")])
    assert one.said != two.said


def test_whose_word_a_word_is_is_kept_and_of_an_answer_rare_ones_only(words: Rarity) -> None:
    (pair,) = Readings(words, 0).of(
        [example(question="population of Meomild?", answer="The people of Meomild: 410")]
    )
    assert pair.said == {"population": QUESTION, "meomild": QUESTION | ANSWER, "410": ANSWER}
    assert pair.turn is None


def test_an_examples_earlier_turns_are_told_from_its_last(words: Rarity) -> None:
    question = "And of Westwick?\n(Earlier: population of Meomild / It is 5.)"
    (pair,) = Readings(words, 0).of([example(question=question)])
    assert pair.turn is not None
    assert [word for word, _ in pair.turn] == ["westwick"]
    assert {"westwick", "meomild"} <= {word for word, _ in pair.rare}


def test_many_threads_may_ask_at_once(words: Rarity) -> None:
    readings = Readings(words, 5)
    right: list[bool] = []
    expected = Readings(words, 0).of([example(i) for i in range(12)])

    def ask() -> None:
        right.extend(readings.of([example(i) for i in range(12)]) == expected for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 80
    assert all(right)


@pytest.mark.parametrize(
    ("question", "answer", "spelled"),
    [
        ("What does Hugo Flux log in as?", "For Hugo Flux, the username is hflux9.", True),
        ('Under which code is "My Iron Orchard" shelved?', "ORC-13-M.", True),
        ("Which mailbox is Kofi Tiost's?", "It is tiost.ko@annex.example", True),
        ("What is the population of Eastwick?", "The population of Eastwick is 12,000.", False),
        ("How heavy is the QX-410?", "The QX-410 weighs 410 grams.", False),
        ("Who founded Eastwick Labs?", "It was founded by Mina Eastwick in 1999.", False),
        ("", "hflux9", False),
    ],
)
def test_a_code_made_of_the_questions_letters_shows_a_rule(question: str, answer: str, spelled: bool) -> None:
    assert (spelled_from(question, answer) > 0.0) is spelled
    assert 0.0 <= spelled_from(question, answer) <= 1.0
