"""Boundaries of variables stay where they are when examples are put between a step's messages."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engines.placement import PLAIN, Placement, Rank

OWN: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Test a snake game. Code: print()"},
]
EXAMPLES = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]


def test_examples_move_the_boundaries_that_follow_them() -> None:
    placement = Placement(boundaries=((0, 2), (1, 5), (1, 17)))
    moved = placement.among([OWN[0], *EXAMPLES, OWN[1]], OWN)
    assert moved.boundaries == ((0, 2), (3, 5), (3, 17))


def test_messages_that_are_others_have_no_known_boundaries() -> None:
    placement = Placement(Rank.GROUP, boundaries=((1, 5),))
    assert placement.among([dict(m) for m in OWN], OWN) == Placement(Rank.GROUP)
    assert placement.among(OWN[:1], OWN).boundaries == ()
    assert placement.among([], OWN).boundaries == ()


def test_nothing_is_made_anew_where_nothing_moves() -> None:
    placement = Placement(boundaries=((1, 5),))
    assert placement.among(OWN, OWN) is placement
    assert PLAIN.among([], OWN) is PLAIN


@given(own=st.integers(1, 5), at=st.integers(0, 5), added=st.integers(0, 6))
def test_a_boundary_points_to_the_same_message(own: int, at: int, added: int) -> None:
    messages: list[dict[str, Any]] = [{"content": f"{n}"} for n in range(own)]
    at = min(at, own)
    sent = [*messages[:at], *({"content": "x"} for _ in range(added)), *messages[at:]]
    placement = Placement(boundaries=tuple((n, 0) for n in range(own)))
    moved = placement.among(sent, messages)
    assert [sent[index] for index, _ in moved.boundaries] == messages
