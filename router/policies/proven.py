"""Chooses the ways in which small engines are asked in the background, so that something can be proven of them."""

from __future__ import annotations

from router.digest import shared_scope
from router.plan import Ask, Attempt
from router.policies.question import EmbeddedQuestion
from router.proving.gate import Gate
from router.proving.standing import Proof


def whole_is_open(gate: Gate | None, ask: Ask, question: EmbeddedQuestion) -> bool:
    """Tell if a request whose embedding is late may be decided by a guess of it: what is proven here holds for all requests
    alike, so the guess only finds examples."""
    if gate is None or ask.forced or not question.scope:
        return False
    return gate.whole_is_open(ask.tenant, shared_scope(question.scope))


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
