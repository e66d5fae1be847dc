"""What examples were asked under is kept as long as any of them is there, per tenant, and no longer."""

from __future__ import annotations

from store import Store
from tests.store.rows import new_example

SAID = '[["Answer in French."],null]'


def test_instructions_stay_with_the_last_example_that_was_asked_under_them(store: Store) -> None:
    bank = store.examples
    first = bank.add(new_example(1, instructions=SAID)).result()
    second = bank.add(new_example(2, instructions=SAID)).result()
    bank.add(new_example(3, scope="other words")).result()
    assert bank.instructions("a1", "scope") == SAID
    assert bank.instructions("b2", "scope") is None
    assert bank.instructions("a1", "other words") is None, "not to be kept"
    bank.remove("a1", [first.id]).result()
    assert bank.instructions("a1", "scope") == SAID
    bank.remove("a1", [second.id]).result()
    assert bank.instructions("a1", "scope") is None
