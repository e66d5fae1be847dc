"""Edges between calls that say nothing of each other."""

from __future__ import annotations

from workflows.inferred import Answers, Call, applications, edges

DESIGN = (
    "The program has two modules. The first reads the orders of a day.\nThe second adds them up by customer."
)
CODE = "def read(path):\n    return path.read_text().split()\n\ndef total(orders):\n    return sum(o.amount for o in orders)"


def call(number: int, texts: list[str], answer: str, *client: str) -> Call:
    return Call(str(number), client or ("t", "k", ""), float(number), texts, answer)


def test_an_answer_in_a_later_request_of_the_same_client_is_an_edge() -> None:
    calls = [
        call(0, ["Design."], DESIGN),
        call(1, [f"Write it down.\n{DESIGN}\nIn Python."], CODE),
        call(2, ["Review.", f"{DESIGN}\n\n{CODE}"], "It is right as it stands, nothing is to be done."),
        call(3, ["Something else that nobody answered before, at some length."], "Yes."),
    ]
    assert {id: sorted(read) for id, read in edges(calls).items()} == {"1": ["0"], "2": ["0", "1"]}


def test_nothing_is_compared_beyond_a_tenant_a_key_and_an_end_user() -> None:
    for other in (("u", "k", ""), ("t", "l", ""), ("t", "k", "bob")):
        assert edges([call(0, ["Design."], DESIGN), call(1, [DESIGN], CODE, *other)]) == {}


def test_short_answers_and_small_parts_of_an_answer_are_no_edges() -> None:
    first = DESIGN.split(". ")[0]
    assert edges([call(0, ["Q"], "yes"), call(1, ["yes"], "yes")]) == {}
    assert edges([call(0, ["Q"], DESIGN), call(1, [first], "yes")]) == {}


def test_a_revision_is_told_from_what_it_revised() -> None:
    revised = f"{DESIGN}\nA third module prints the sums, the largest one at the top of the page."
    answers = Answers()
    answers.add("old", DESIGN)
    answers.add("new", revised)
    assert answers.read_by([revised]) == ["new"]
    assert answers.read_by([DESIGN]) == ["old"]


def test_as_many_answers_are_known_as_was_said() -> None:
    answers = Answers(most=2)
    for name in "abc":
        answers.add(
            name, f"The answer called {name} has a sentence. And it has another one that is called {name}."
        )
    text = "The answer called {0} has a sentence. And it has another one that is called {0}."
    assert [answers.read_by([text.format(name)]) for name in "abc"] == [[], ["b"], ["c"]]


def test_calls_that_begin_alike_are_one_application() -> None:
    calls = []
    for n in range(3):
        design = f"{DESIGN} The orders of customer {n} come first, and they are never left out of it."
        calls += [
            call(10 * n, ["You are a team.", f"Design {n}"], design),
            call(
                10 * n + 1, ["You are a team.", design], f"{CODE}\nprint('this is the {n}. program of all')"
            ),
        ]
    (found,) = applications(calls)
    assert (found.opening, found.times, found.calls, found.depth) == ("You are a team.", 3, 6, 2)
    assert (found.edges, found.repeated, found.last.id) == (3, 5, "21")
    assert applications([call(0, ["Alone."], DESIGN)]) == []
