"""What a request has in common with its candidates: what it names and what it asks, apart and together."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.examples.comparison import NAMES, in_common
from router.examples.features import PLACE, Features
from router.examples.lexical_things import things
from router.examples.lexical_words import CALENDAR
from router.examples.rarity import Rarity
from router.examples.reading import Readings, Text, read
from router.plan import Candidate
from tests.router.examples.scoring import example, rarity, request

if TYPE_CHECKING:
    import numpy.typing as npt

NOW_S = 1000.0 + 86400.0


@functools.cache
def rarity_once() -> Rarity:
    return rarity()


SAID = st.lists(
    st.sampled_from(
        [
            *(
                "What",
                "is",
                "the",
                "population",
                "of",
                "Eastwick",
                "Westwick",
                "in",
                "1999",
                "QX-410",
                "b",
                "I",
            ),
            *("O'Brien", "weight", "weights", "`ls --all`", "why", "two", "not", "人口", "Zürich", "launch?"),
            "\n(Earlier: population of Meomild / It is 5.)",
        ]
    ),
    max_size=12,
).map(" ".join)


def slipped(words: Rarity, texts: list[str]) -> dict[str, str]:
    """What is read in place of what: words that only one of the texts says."""
    said = [read(text, words).slips for text in texts]
    return {
        word: meant
        for slips in said
        for word, meant in slips.items()
        if sum(word in other for other in said) == 1
    }


def mended(said: str, words: Rarity, meant: Mapping[str, str]) -> Text:
    return read(said, words, {w: m for w, m in meant.items() if w in read(said, words).slips})


def by_definition(
    words: Rarity, text: str, question: str, answer: str, meant: Mapping[str, str], named: Set[str]
) -> dict[str, float]:
    """What the names of the compared scalars say, for one pair, set by set.

    `meant`: read in place of slips; `named`: what any of the texts writes as a name.
    """

    asked, other = mended(text, words, meant), mended(question, words, meant)

    def share(some: Mapping[str, float], of: frozenset[str], nothing: float = 1.0) -> float:
        total = sum(some.values())
        return sum(weight for word, weight in some.items() if word in of) / total if total else nothing

    def saturated(weights: Iterable[float]) -> float:
        total = sum(weights)
        return total / (1 + total)

    mine_only = [excess for word, excess in asked.rare.items() if word not in other.words]
    theirs_only = [excess for word, excess in other.rare.items() if word not in asked.words]

    asking, their_asking = (
        {word: weight for word, weight in one.asking.items() if word not in named} for one in (asked, other)
    )
    asked_by_both = sum(
        weight
        for word, weight in asking.items()
        if word in (other.words if other.turn is other.rare else other.asking)
    )

    def telling(one: Text) -> list[str]:
        names = one.asking if one.telling or one.turn is one.rare else one.words
        return [*one.telling, *(word for word in names if word in named and word not in one.telling)]

    def said(names: list[str], by: Text) -> float:
        about = by.words if by.turn is by.rare else frozenset(telling(by)) or by.words
        return sum(word in about for word in names) / len(names) if names else 1.0

    numbers = (asked.numbers, other.numbers)
    lost = [not asked.names <= other.every_word, not other.names <= asked.every_word]
    scalars = {
        "request_covered": share(asked.weights, other.words, 0.0),
        "example_covered": share(other.weights, asked.words, 0.0),
        "request_rare_covered": share(asked.rare, other.words),
        "example_rare_covered": share(other.rare, asked.words),
        "turn_covered": share(asked.turn, other.turn_words),
        "turn_covers": share(other.turn, asked.words),
        "asking_covered": asked_by_both / total if (total := sum(asking.values())) else 1.0,
        "asking_covers": min(1.0, asked_by_both / total) if (total := sum(their_asking.values())) else 1.0,
        "telling_covered": said(telling(asked), other),
        "telling_covers": said(telling(other), asked),
        "rare_shared": saturated(excess for word, excess in asked.rare.items() if word in other.words),
        "rare_of_request_only": saturated(mine_only),
        "rare_of_example_only": saturated(theirs_only),
        "rarest_of_request_only": max(mine_only, default=0.0),
        "rarest_of_example_only": max(theirs_only, default=0.0),
        "numbers_equal": numbers[0] == numbers[1] != (),
        "numbers_conflict": numbers[0] != numbers[1] and () not in numbers,
        "numbers_one_sided": numbers.count(()) == 1,
        "other_things": any(lost) or numbers[0] != numbers[1] or asked.machine != other.machine,
        "names_disagree": all(lost),
        "asks_alike": asked.asks == other.asks,
        "request_in_answer": share(asked.rare, frozenset(things(answer).words), 0.0),
        "slips": saturated([len(asked.meant) + len(other.meant)]),
    }
    return {name: float(value) for name, value in scalars.items()}


def test_a_slip_of_the_finger_is_read_as_the_word_that_was_meant() -> None:
    slipped, right = (
        "Which platvorm does the Qorbax leave from?",
        "Which platform does the Qorbax leave from?",
    )
    rows = Features(rarity_once()).rows(request(slipped), [Candidate(example(1, question=right), 0.9)], NOW_S)
    found = {
        name: float(rows[0, PLACE[name]]) for name in ("request_covered", "unlisted_covered", "slips_met")
    }
    assert found == {"request_covered": 1.0, "unlisted_covered": 1.0, "slips_met": 1.0}
    assert rows[0, PLACE["slips"]] == 0.5


def test_what_more_than_one_text_says_is_a_name_and_no_slip() -> None:
    near = [
        Candidate(example(i, question=question), 0.9)
        for i, question in enumerate(["Where do the Gardan Rovers play?", "coach of the Garden Rovers?"])
    ]
    rows = Features(rarity_once()).rows(request("Who coaches the Gardan Rovers?"), near, NOW_S)
    assert rows[:, PLACE["slips"]].tolist() == [0.0, 0.0]
    assert rows[0, PLACE["unlisted_covered"]] == 1.0 > rows[1, PLACE["unlisted_covered"]]


def rows_of(text: str, *texts: tuple[str, str]) -> npt.NDArray[np.float32]:
    near = [
        Candidate(example(i, question=question, answer=answer), 0.5)
        for i, (question, answer) in enumerate(texts)
    ]
    return Features(rarity_once()).rows(request(text), near, NOW_S)


def test_a_swap_or_a_doubled_letter_in_a_name_is_read_as_the_name() -> None:
    rows = rows_of(
        "capital of Quoustland",
        ("capital of Quosutland", "Brim."),
        ("capital of Quuostland", "Brim."),
        ("capital of Quoustlandd", "Brim."),
        ("capital of Quoustlend", "Prem."),
    )
    assert rows[:, PLACE["telling_covered"]].tolist() == [1.0, 1.0, 1.0, 0.0]
    assert rows[:, PLACE["slips"]].tolist() == [0.5, 0.5, 0.5, 0.0]


def test_two_spellings_that_are_both_said_by_several_are_two_names() -> None:
    rows = rows_of(
        "capital of Quoustland",
        ("capital of Quuostland", "Brim."),
        ("population of Quuostland", "Nine."),
        ("mayor of Quoustland", "Ilsa."),
    )
    assert rows[:, PLACE["telling_covered"]].tolist() == [0.0, 0.0, 1.0]


def test_what_any_text_writes_as_a_name_is_a_name_in_all_of_them() -> None:
    rows = rows_of(
        "who wrote the velvet mirror",
        ("Can you tell me who wrote The Velvet Orchard", "Ilsa Brim."),
        ("who wrote the velvet mirror?", "Oren Brim."),
        ("publisher of The Velvet Mirror", "Kiln."),
    )
    assert rows[:, PLACE["telling_covered"]].tolist() == [0.5, 1.0, 1.0]
    assert rows[:, PLACE["asking_covered"]].tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("text", "question", "covered"),
    [
        ("weight of the QX-410", "price of the QX-410", 0.0),
        ("weight of the QX-410", "weight of the RT-200", 1.0),
        ("And its weight?\n(Earlier: price of the QX-410 / It is 5.)", "price of the QX-410", 0.0),
        ("And its weight?\n(Earlier: price of the QX-410 / It is 5.)", "weight of the QX-410", 1.0),
        ("ok, and Quoustland?\n(Earlier: price of Meomild / It is 5.)", "price of Quoustland", 1.0),
        ("Same for the ZK M47\n(Earlier: price of the QX-410 / It is 5.)", "price of the QX-410", 1.0),
        ("price of the QX-410", "And its weight?\n(Earlier: price of the QX-410 / It is 5.)", 0.0),
    ],
)
def test_what_is_asked_is_compared_apart_from_what_is_named(text: str, question: str, covered: float) -> None:
    assert rows_of(text, (question, "It is 7."))[0, PLACE["asking_covered"]] == covered


def test_an_example_that_asks_on_about_another_name_is_not_about_the_one_before() -> None:
    follow_up = "And Quoustlend?\n(Earlier: capital of Quoustland / It is Brim.)"
    rows = rows_of("capital of Quoustland", (follow_up, "Prem."), ("capital of Quoustland", "Brim."))
    assert rows[:, PLACE["telling_covered"]].tolist() == [0.0, 1.0]
    assert rows[0, PLACE["unlisted_covered"]] < 1.0


def test_codes_of_one_form_share_how_they_are_asked_for() -> None:
    rows = rows_of(
        "What does Mina Kais log in as?",
        ("What does Hugo Flux log in as?", "It is hflux9."),
        ("username of Oren Tald", "It is otald3."),
        ("mailbox of Mina Kais", "Kais.mi@annex.example."),
        ("capital of Quoustland", "Brim."),
    )
    assert rows[:, PLACE["form_asked"]].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert rows[:, PLACE["form_rivals"]].tolist() == [0.0, 0.0, 1.0, 0.0]


def test_an_answer_with_codes_of_two_forms_speaks_only_for_what_no_other_does() -> None:
    both = (
        "What are the username and the mailbox of Hugo Flux?",
        "It is hflux9. It is flux.hu@annex.example.",
    )
    mailbox = ("email address of Mina Kais", "Kais.mi@annex.example.")
    rows = rows_of("mailbox of Oren Tald", both, mailbox, ("username of Ilsa Prem", "It is iprem3."))
    assert rows[1, PLACE["form_asked"]] == 0.0, "who asks for both may mean either by either"
    half = ("For The Amber Ferry: publication year, and shelf code", "1998. FER-13-T.")
    rows = rows_of("publication year of The Iron Ferry", half, ("shelf code of The Iron Kiln", "KIL-12-T."))
    assert rows[:, PLACE["form_asked"]].tolist() == [0.0, 0.0]
    alone = rows_of("mailbox of Oren Tald", both)
    assert alone[0, PLACE["form_asked"]] == alone[0, PLACE["asking_covered"]] > 0.0


def test_a_listed_word_that_resembles_a_name_is_one() -> None:
    near = [("clutch size of the dwerf qorbax", "Four."), ("the dwerf qorbax's diet", "Moss.")]
    rows = rows_of("clutch size of the dwarf qorbax", *near, ("diet of the dwarf qorbax", "Seeds."))
    assert rows[:, PLACE["telling_covered"]].tolist() == [0.5, 0.5, 1.0]
    assert rows[:, PLACE["name_vowel"]].tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("asked", "other", "kind"),
    [
        ("Quostland", "Quoustland", "name_shorter"),
        ("Quoustland", "Quostland", "name_longer"),
        ("Quoustland", "Quoustlend", "name_vowel"),
        ("QX-410", "QX-420", "name_vowel"),
        ("Quoustland", "Quoustlamd", "name_letter"),
        ("Quoustland", "Meomild", None),
        ("Quoustland", "Quosutland", None),
        ("Quoustland", "Quoustland", None),
    ],
)
def test_how_two_names_differ_by_a_letter_is_told(asked: str, other: str, kind: str | None) -> None:
    row = rows_of(f"capital of {asked}", (f"capital of {other}", "Brim."))[0]
    found = [name for name in NAMES if name.startswith("name_") and row[PLACE[name]] == 1.0]
    assert found == ([] if kind is None else [kind])


def test_a_slip_that_may_be_another_name_is_told_although_it_is_read_as_what_was_meant() -> None:
    rows = rows_of("age of the striped qorbax", ("age of the stripid qorbax", "Nine."))
    assert rows[0, [PLACE["telling_covered"], PLACE["slips"], PLACE["name_vowel"]]].tolist() == [
        1.0,
        0.5,
        1.0,
    ]


@settings(max_examples=60, deadline=None)
@given(text=SAID, texts=st.lists(st.tuples(SAID, SAID), min_size=1, max_size=6))
def test_candidates_compared_side_by_side_are_what_each_is_by_definition(
    text: str, texts: list[tuple[str, str]]
) -> None:
    words = rarity_once()
    near = [
        Candidate(example(i, question=question, answer=answer), 0.5)
        for i, (question, answer) in enumerate(texts)
    ]
    rows = Features(words).rows(request(text), near, NOW_S)
    questions = [text, *[question for question, _ in texts]]
    meant = slipped(words, questions)
    named = {name for said in questions for name in mended(said, words, meant).names} - CALENDAR
    expected = [by_definition(words, text, question, answer, meant, named) for question, answer in texts]
    for row, scalars in zip(rows, expected, strict=True):
        assert {name: float(row[PLACE[name]]) for name in scalars} == pytest.approx(scalars, abs=1e-6)
    overlap = [e["request_rare_covered"] * e["example_rare_covered"] for e in expected]
    assert rows[:, PLACE["overlap_lost"]] == pytest.approx([max(overlap) - o for o in overlap], abs=1e-6)


def test_each_pair_is_packed_as_one_number_per_name() -> None:
    words = rarity_once()
    pairs = Readings(words, 10).of([example(1, question="capital of Quoustland"), example(2, question="")])
    packed = in_common(read("capital of Quoustland", words), pairs)
    numbers = [np.frombuffer(row, np.float32) for row in packed]
    assert [len(row) for row in numbers] == [len(NAMES)] * 2
    assert numbers[0][NAMES.index("telling_covered")] == 1.0 > numbers[1][NAMES.index("telling_covered")]
