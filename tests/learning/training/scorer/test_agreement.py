"""Which answers say the same: by what they add to their questions, whatever the manner of speaking."""

from __future__ import annotations

import pytest

from learning.training.scorer.agreement import SAME_FROM, WHOLE_FROM, Agreement, contradicted, subjects
from router.examples.reading import read
from router.examples.spelled_codes import forms
from tests.router.examples.scoring import rarity

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


def test_the_question_that_everybody_asks_is_about_few_subjects_however_it_is_worded() -> None:
    openings = ["", "Hi! ", "Quick one: ", "Please help: ", "Sorry to bother you, "]
    worded = ["Where was Tomas Voak born?", "what is Tomas Voak's birthplace", "tomas voak birthplace"]
    found = subjects([read(opening + text, rarity()) for opening in openings for text in worded])
    assert len(set(found)) == 2


def test_what_most_questions_name_does_not_make_one_subject_of_them() -> None:
    questions = [f"Where is the {name} of our Qorbax made?" for name in WORDS]
    found = subjects([read(text, rarity()) for text in questions])
    assert len(set(found)) > len(WORDS) / 2


def test_a_question_without_rare_words_is_about_all_of_its_words() -> None:
    asked = [read(text, rarity()) for text in ("how is it going?", "is it big?", "what is it like?")]
    assert len(set(subjects(asked))) == 3


@pytest.fixture(scope="module")
def many() -> Agreement:
    answers = [f"It is {n * 37} units." for n in range(200)]
    return Agreement((f"subject {n}", answer) for n, answer in enumerate(answers))


def echoes(agreement: Agreement, question: str, answer: str) -> frozenset[str]:
    return agreement.echoes(read(question, rarity()), answer)


def test_an_answer_that_names_somebody_else_contradicts(many: Agreement) -> None:
    names = echoes(many, "When did Brimeth open?", "Brimeth opened in 1999.")
    assert names == {"brimeth"}
    assert not contradicted(names, "brimeth opening year\n1999.")
    assert contradicted(names, "When did Quoustland open?\n1999.")
    assert contradicted(names, "opening year of quoustland\nQuoustland opened in 1999.")
    assert not contradicted(names, "When did Brimteh open?\n1999."), "a slip of the finger"


def test_an_identifier_with_another_digit_is_no_slip(many: Agreement) -> None:
    names = echoes(many, "port of the QX-410", "The QX-410 has port 99.")
    assert contradicted(names, "port of the QX-470\nPort 99.")
    assert not contradicted(names, "qx-410 port\n99.")


def test_what_an_answer_does_not_say_again_contradicts_nothing(many: Agreement) -> None:
    assert echoes(many, "When did Brimeth open?", "In 1999.") == frozenset()
    assert not contradicted([], "anything")


def test_half_of_what_was_asked_is_not_all_of_it(agreement: Agreement) -> None:
    both = agreement.matter("port and code of alpha", "Port 3270. QZ-4.")
    one = agreement.matter("port of alpha", "Port 3270.")
    assert 0.0 < Agreement.covered(both, one) < WHOLE_FROM <= Agreement.covered(one, both) == 1.0
    assert Agreement.covered({}, one) == 1.0


def test_a_bank_without_answers_takes_every_word_for_matter() -> None:
    assert Agreement([]).matter("a question", "Hekby") == {"hekby": 1.0}


def test_codes_spelled_from_their_questions_have_a_form() -> None:
    one = forms("What is the username of John Farnham?", "For John Farnham, the username is jfarnham4.")
    other = forms("login of Ann Miller", "It is amiller7: that is it.")
    assert one == other == {"a0"}
    assert forms("mailbox of Ann Miller", "Miller.an@annex.example.") != one


def test_codes_that_are_not_spelled_from_their_questions_have_none() -> None:
    assert forms("What is the port of Alpha?", "It is K-773 on port 3270.") == frozenset()
