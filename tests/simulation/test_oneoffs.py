import random

import pytest

from simulation import oneoffs


def test_every_one_off_can_be_read_back():
    rng = random.Random(1)
    kinds = set()
    for _ in range(500):
        asked = oneoffs.read(oneoffs.make(rng))
        assert asked is not None
        kinds.add(asked.kind)
    assert kinds == {"sum", "sort", "letter"}


@pytest.mark.parametrize(
    ("question", "answer", "grade"),
    [
        ("What is 12 times 11?", "That makes 132.", 1.0),
        ("What is 12 times 11?", "That makes 1320.", 0.0),
        ("Please sort alphabetically: pear, fig, lime", "fig, lime, pear", 1.0),
        ("Please sort alphabetically: pear, fig, lime", "fig, pear, lime", 1 / 3),
        (
            "Write a short apology to Cora because order 12345 (wall clock) is 3 days late.",
            "Dear Cora, sorry about order 12345.",
            2 / 3,
        ),
        ("Hi there!", "Hello.", 1.0),
        ("Hi there!", " ", 0.0),
    ],
)
def test_an_answer_gets_the_share_of_what_it_should_hold(question, answer, grade):
    asked = oneoffs.read(question)
    assert asked is not None
    assert asked.grade(answer) == pytest.approx(grade)
