"""What is proven, as a policy reads it."""

from __future__ import annotations

from router.proving.standing import Action, Proof, Standing


def test_a_proof_names_the_actions_that_are_open() -> None:
    closed = Standing(Action("small", False), False, 0.4, 0.9, 12, None)
    opened = Standing(Action("small", True), True, 0.96, 1.0, 120, 0)
    assert Proof("r", (closed, opened), 0.1).open_actions() == (Action("small", True),)
