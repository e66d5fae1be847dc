"""A tenant's examples, whole, in order, across pages."""

from __future__ import annotations

import numpy as np

from store import Store
from tests.store.behind import admit_many
from tests.store.rows import new_example, unit_vector


def test_every_example_of_the_tenant_is_given_once_and_none_of_another(store: Store) -> None:
    bank = store.examples
    admit_many(bank, [new_example(i, "a1" if i % 3 else "b2") for i in range(800)]).result(60)
    bank.admit(new_example(5000, "a1", vector=None)).result(60)
    rows = list(bank.exported("a1"))
    wanted = [*(i for i in range(800) if i % 3), 5000]
    assert [row.example.question for row in rows] == [f"question {i}" for i in wanted]
    assert rows[0].embedded_text == "embedded 1" and rows[-1].vector is None
    assert rows[0].vector is not None and np.allclose(rows[0].vector, unit_vector(1), atol=1e-3)
