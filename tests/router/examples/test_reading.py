"""Reading a text once: what counts as rare in it, whose turn says it, and what is kept of it."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from router.examples.rarity import Rarity
from router.examples.reading import ANSWER, QUESTION, Readings, read
from tests.router.examples.scoring import example, rarity


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


def test_contractions_are_no_names(words: Rarity) -> None:
    said = read("I can't find it, don't you? It isn't what they've told us", words)
    assert (said.telling, said.unlisted) == ((), ())
    assert not {"cant", "dont", "isnt", "theyve"} & said.words


def test_a_greetings_capital_makes_no_name(words: Rarity) -> None:
    assert read("Hello, Who wrote Quoustland?", words).names == {"quoustland"}
    assert read("Quick one: Give me the price", words).names == frozenset()


@pytest.mark.parametrize(
    ("text", "asks", "names"),
    [
        ("The dog ate my note. What is the weight of the QX-410?", {"weight"}, {"qx-410", "qx", "410"}),
        ("What is the weight of the QX-410? The dog ate my note.", {"weight"}, {"qx-410", "qx", "410"}),
        ("I already know about Meomild. Price of Quoustland?", {"price"}, {"quoustland"}),
        ("I already know about Meomild. Give me the price of Quoustland.", {"price"}, {"quoustland"}),
        ("Price of Quoustland? And its weight in Meomild.", {"price", "weight"}, {"quoustland", "meomild"}),
        ("My card is lost. Order another?", {"card", "lost", "order", "another"}, set()),
        (
            "And its weight? The dog ate it.\n(Earlier: price of Meomild / It is 5.)",
            {"weight", "dog", "ate"},
            {"meomild"},
        ),
        (
            "And the striped qorbax?\n(Earlier: price of the dusky moth / It is 5.)",
            {"price", "dusky", "moth"},
            {"qorbax"},
        ),
        ("And the price of the qorbax?\n(Earlier: weight of the moth / It is 5.)", {"price"}, {"qorbax"}),
        ("The dog ate it. Quoustland?\n(Earlier: price of Meomild / It is 5.)", {"price"}, {"quoustland"}),
    ],
)
def test_what_is_asked_stands_in_the_sentence_that_names_something(
    words: Rarity, text: str, asks: set[str], names: set[str]
) -> None:
    found = read(text, words)
    assert (set(found.asking), set(found.telling)) == (asks, names)


def test_in_a_long_text_every_sentence_counts(words: Rarity) -> None:
    text = read("Meomild has a mill. " + "The dog ate it. " * 5 + "Quoustland has a port.", words)
    assert {"meomild", "quoustland"} <= set(text.telling) and {"mill", "dog", "port"} <= set(text.asking)


def test_a_follow_up_that_names_nothing_is_about_every_name_before(words: Rarity) -> None:
    text = read("And its weight?\n(Earlier: Price in San Meomild? / It is 5.)", words)
    assert set(text.telling) == {"san", "meomild"}


def test_a_number_with_a_letter_behind_it_is_another_number(words: Rarity) -> None:
    assert "398.8" not in read("the deadline of 398.8S", words).words
    assert "398.8s" in read("the deadline of 398.8S", words).telling
    assert {"398.8", "398.8s"} <= read("is 398.8S what 398.8 was", words).words
    assert "410" in read("the QX-410 weighs", words).words
