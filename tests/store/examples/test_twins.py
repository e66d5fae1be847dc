"""Two texts that lie next to each other are not the same for that."""

from __future__ import annotations

import time

import pytest

from store.examples.twins import TwinRule, agrees, normalised, same_question

LONG = "To renew a passport, fill in the form, add two photographs and send both to the office by post. "


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I reset my password?", "how can I reset my password"),
        ("What's the capital of France?", "What is the capital of France?"),
        ("Who wrote Emma", "Tell me who wrote Emma."),
        ("ＦＡＱ page?", "FAQ page"),
    ],
)
def test_the_same_question_in_other_words(one: str, other: str) -> None:
    assert same_question(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 17 + 25?", "What is 17 + 26?"),
        ("What is 17 + 25?", "What is 17 - 25?"),
        ("Flights from Paris to Rome", "Flights from Paris to Oslo"),
        ("Which foods are healthy?", "Which foods are not healthy?"),
        ("Can I deploy without tests?", "Can I deploy with tests?"),
        ("Why does user_id fail?", "Why does user_name fail?"),
        ("Convert 1.5 km", "Convert 15 km"),
        ("What does the USA export?", "What does the UK export?"),
        ("Delete /var/log/a.txt", "Delete /var/log/b.txt"),
    ],
)
def test_a_number_a_name_or_a_negation_keeps_neighbours_apart(one: str, other: str) -> None:
    assert not same_question(one, other)


def test_what_lies_beyond_the_embedded_text_is_not_taken_on_trust() -> None:
    one, other = LONG * 20 + "Summarise it.", LONG * 20 + "Translate it."
    assert same_question(one, other)
    assert not same_question(one, other, embedded_characters=1500)
    assert same_question(one, one.upper(), embedded_characters=1500)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Paris.", "paris"),
        ("It is **42**.", "it is 42"),
        (LONG, LONG.replace("send both", "send both of them")),
        ("", "   "),
        ("+", " + "),
    ],
)
def test_answers_that_say_the_same(one: str, other: str) -> None:
    assert agrees(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It is 42.", "It is 43."),
        ("Yes.", "No."),
        ("It is -5.", "It is 5."),
        ("It costs $5", "It costs €5"),
        ("a > b", "a < b"),
        ("5%", "5"),
        ("Paris", ""),
        ("+", "-"),
        (LONG, LONG.replace("two", "2 or 3")),
        (LONG, LONG.replace("send both", "never send both")),
        (LONG, "Passports are renewed at the counter of the town hall, in person, on weekdays."),
        (LONG + "Ask for Ann.", LONG + "Ask for Bob."),
        ("yes yes yes yes no", "yes no no no no"),
    ],
)
def test_answers_that_differ_in_what_matters_never_agree(one: str, other: str) -> None:
    assert not agrees(one, other)
    assert not agrees(other, one)


def test_the_overlap_that_is_asked_for_is_the_operator_s_choice() -> None:
    one, other = "red green blue black", "red green blue white"
    assert not agrees(one, other)
    assert agrees(one, other, TwinRule(min_overlap=0.6))


def test_normalising_keeps_words_only() -> None:
    assert normalised("  It’s\tĀ  “Test” — ok? ") == "it’s ā test ok"


@pytest.mark.parametrize("text", ["a" * 20_000, "a_" * 10_000, "." * 20_000, " A" * 10_000, "1." * 10_000])
def test_no_text_takes_long_to_read(text: str) -> None:
    begun = time.process_time()
    agrees(text, text + " b")
    assert time.process_time() - begun < 5, "a quadratic reading would take minutes"
