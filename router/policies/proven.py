"""Chooses the ways in which small engines are asked in the background, so that something can be proven of them."""

from __future__ import annotations

from router.plan import Attempt
from router.proving.standing import Proof


def shadow(proof: Proof | None, with_examples: Attempt) -> tuple[Attempt, ...]:
    """The ways that the proof wishes to be compared. `with_examples`: how an engine is asked with the examples found."""
    if proof is None:
        return ()
    return tuple(
        Attempt(action.engine, with_examples.messages, with_examples.examples)
        if action.with_examples
        else Attempt(action.engine)
        for action in proof.wished
    )
