"""Which answers say the same: by what they add to their questions, whatever the manner of speaking."""

from __future__ import annotations

import pytest

from router.learning.agreement import SAME_FROM, Agreement, forms, subjects
from router.scorer_reading import read
from tests.router.scoring import rarity

# fmt: off
WORDS = [
    "anchor", "basket", "candle", "dragon", "engine", "feather", "garlic", "hammer", "island", "jacket",
    "kettle", "ladder", "mirror", "needle", "orange", "pillow", "quilt", "ribbon", "saddle", "tunnel",
    "umbrella", "violin", "window", "yarn", "zipper", "compass", "lantern", "bottle", "carpet", "helmet",
]
# fmt: on
ANSWERS = [f"The value is {n * 37} units. Let me know if you need more." for n in range(30)]


@pytest.fixture(scope="module")
def agreement() -> Agreement:
    said = [*ANSWERS, "The capital of Eastwick is Hekby.", "Hekby.", "Port 3270."]
    return Agreement((f"subject {n}", answer) for n, answer in enumerate(said))


def share(agreement: Agreement, *pairs: tuple[str, str]) -> float:
    one, other = (agreement.matter(*pair) for pair in pairs)
    return Agreement.share(one, other)


def test_answers_that_say_the_same_in_other_words_agree(agreement: Agreement) -> None:
    one = ("Which city governs Eastwick?", "The capital of Eastwick is Hekby.")
    assert share(agreement, one, ("eastwick capital", "Hekby. Let me know if you need more.")) >= SAME_FROM


def test_manner_of_speaking_and_what_the_questions_say_is_no_agreement(agreement: Agreement) -> None:
    pairs = [("How heavy is Alpha?", ANSWERS[1]), ("How heavy is Beta?", ANSWERS[2])]
    assert share(agreement, *pairs) < SAME_FROM
    named = [("Tell me of Hekby", "Hekby."), ("What of Hekby", "Hekby.")]
    assert share(agreement, *named) == 0.0


def test_an_answer_that_says_more_than_was_asked_still_agrees(agreement: Agreement) -> None:
    short = ("port of alpha", "Port 3270.")
    assert share(agreement, short, ("port and capital of alpha", "Port 3270. Hekby.")) >= SAME_FROM


def test_the_answer_to_what_everybody_asks_is_no_manner_of_speaking() -> None:
    others = [(f"subject {n}", answer) for n, answer in enumerate(ANSWERS)]
    popular = [("eastwick", f"The capital of Eastwick is Hekby. {ANSWERS[n][-30:]}") for n in range(20)]
    pairs = [("Which city governs Eastwick?", popular[0][1]), ("eastwick capital", "Hekby.")]
    assert share(Agreement([*others, *popular]), *pairs) >= SAME_FROM
    by_answer = Agreement((str(n), answer) for n, (_, answer) in enumerate([*others, *popular]))
    assert share(by_answer, *pairs) == 0.0, "counted once per answer, it is in two fifths of them"


def test_a_subject_is_the_rarest_word_and_of_equally_rare_ones_the_commonest_in_the_bank() -> None:
    asked = ["Where was Tomas Voak born?", "voak's prize, pleese", "Which award did Voak win?"]
    others = [f"Where is the {name} made?" for name in WORDS]
    found = subjects([read(text, rarity()) for text in asked + others])
    assert found[:3] == ["voak"] * 3


def test_what_most_questions_name_is_nobodys_subject() -> None:
    questions = [f"Where is the {name} of our Qorbax made?" for name in WORDS]
    found = subjects([read(text, rarity()) for text in questions])
    assert "qorbax" not in found
    assert len(set(found)) > len(WORDS) / 2


def test_a_bank_without_answers_takes_every_word_for_matter() -> None:
    assert Agreement([]).matter("a question", "Hekby") == {"hekby": 1.0}


def test_codes_spelled_from_their_questions_have_a_form() -> None:
    one = forms("What is the username of John Farnham?", "For John Farnham, the username is jfarnham4.")
    other = forms("login of Ann Miller", "It is amiller7: that is it.")
    assert one == other == {"a0"}
    assert forms("mailbox of Ann Miller", "Miller.an@annex.example.") != one


def test_codes_that_are_not_spelled_from_their_questions_have_none() -> None:
    assert forms("What is the port of Alpha?", "It is K-773 on port 3270.") == frozenset()
