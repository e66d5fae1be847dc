"""Words that no vocabulary lists, but whose parts it does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.examples.rarity import MADE_OF_LISTED, Rarity
from router.examples.word_parts import WordParts
from tests.router.examples.scoring import rarity

PARTS = WordParts(
    [
        "the",
        "log",
        "mail",
        "box",
        "approve",
        "dial",
        "policy",
        "place",
        "tail",
        "ton",
        "shelf",
        "configuration",
    ]
)


@pytest.mark.parametrize(
    "word",
    [
        *("mailbox", "login", "approver", "dialling", "policies", "displace", "mailing", "mailed", "mails"),
        *("tonnage", "shelved", "config"),
    ],
)
def test_compounds_and_words_with_endings_and_prefixes_are_made_of_listed_ones(word: str) -> None:
    assert PARTS.made_of_listed(word)


@pytest.mark.parametrize(
    "word",
    [
        "quoustland",
        "confi",
        "configurati",
        "mailqx",
        "xbox",
        "logx",
        "boxer4",
        "qx-410",
        "pla",
        "",
        "人口人口人",
    ],
)
def test_names_identifiers_and_what_is_too_short_to_tell_are_not(word: str) -> None:
    assert not PARTS.made_of_listed(word)


def test_without_a_vocabulary_nothing_is() -> None:
    assert not WordParts([]).made_of_listed("mailbox")


@given(st.text("abcdeinrs", max_size=12))
def test_any_word_can_be_asked_about(word: str) -> None:
    assert PARTS.made_of_listed(word) in (True, False)


def test_of_a_real_vocabulary_such_words_are_rare_and_names_are_rarer() -> None:
    english: Rarity = rarity()
    assert {english(word) for word in ("username", "maintainer", "mailbox", "runtime", "timeout")} == {
        MADE_OF_LISTED
    }
    assert {english(word) for word in ("breiciert", "voast", "quoustland", "zuklib", "leawouk")} == {1.0}
