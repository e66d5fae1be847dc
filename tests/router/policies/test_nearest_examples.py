"""Examples by nearness alone."""

from __future__ import annotations

from router.plan import Candidate
from router.policies.nearest_examples import familiar, that_fit
from store.records import Example


def candidate(
    id: int, similarity: float, question: str = "What is the capital of Verdania?", answer: str = "Brim"
) -> Candidate:
    return Candidate(Example(id, id, "t", "s", question, answer, "large", 0.0), similarity)


def ids(found: object) -> list[int]:
    return [c.example.id for c in found]  # type: ignore[attr-defined]


def test_near_is_what_is_near_enough() -> None:
    near = [candidate(1, 0.9), candidate(2, 0.8), candidate(3, 0.79)]
    assert ids(familiar(near, "anything", theta=0.8, same_names=False)) == [1, 2]


def test_with_same_names_a_look_alike_is_no_neighbour() -> None:
    near = [candidate(1, 0.95, "What is the capital of Kalmar?"), candidate(2, 0.9)]
    asked = "What is the capital of Verdania?"
    assert ids(familiar(near, asked, theta=0.8, same_names=True)) == [2]
    assert ids(familiar(near, asked, theta=0.8, same_names=False)) == [1, 2]


def test_the_nearest_that_fit_go_the_nearest_last() -> None:
    near = [candidate(1, 0.9), candidate(2, 0.85, answer="long " * 400), candidate(3, 0.8), candidate(4, 0.7)]
    assert ids(that_fit(near, most=2, room_tokens=200)) == [3, 1], "what is too long is passed over"
    assert ids(that_fit(near, most=0, room_tokens=200)) == []
    assert ids(that_fit(near, most=5, room_tokens=3)) == []
