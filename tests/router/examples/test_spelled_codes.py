"""Codes in answers that are spelled from their questions, and their forms."""

from __future__ import annotations

import pytest

from router.examples.spelled_codes import codes, forms, spelled_by, spelled_from


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


@pytest.mark.parametrize(
    ("question", "answer", "found"),
    [
        ("username of Hugo Flux", "hflux9.", {"a0"}),
        ("mailbox of Hugo Flux", "It is flux.hu@annex.example.", {"a.a@a.a"}),
        ("username and mailbox of Hugo Flux", "hflux9, flux.hu@annex.example", {"a0", "a.a@a.a"}),
        ("capital of Fluxland", "Brim 4", set()),
        ("username of Hugo Flux", "", set()),
    ],
)
def test_codes_of_one_rule_have_one_form(question: str, answer: str, found: set[str]) -> None:
    assert forms(question, answer) == found


def test_how_far_a_code_is_spelled_goes_by_its_longest_run_of_letters() -> None:
    parts = codes("username of Hugo Flux", "hflux9")
    assert parts == ("hflux",)
    assert spelled_by(["flux"], parts) == 0.5
    assert spelled_by(["fl", "quoust"], parts) == 0.0
    assert spelled_by([], parts) == 0.0
