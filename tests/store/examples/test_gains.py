"""The highest gains as of now, of one tenant, whatever order and time they were noted in."""

from __future__ import annotations

import numpy as np
import pytest

from store.database import Database
from store.examples.accounting import decayed
from store.examples.bank import ExampleBank
from tests.store.rows import new_example, unit_vector

NOW, HOUR = 1_790_000_000.0, 3600.0


def test_the_highest_gains_of_a_tenant_decayed_to_now(db: Database) -> None:
    bank = ExampleBank(db)
    ids = [bank.add(new_example(n)).result().id for n in range(5)]
    other = bank.add(new_example(9, tenant="b2")).result().id
    for id, gain, hours in (
        (ids[0], 1.0, 20),
        (ids[1], 0.5, 0),
        (ids[2], 0.0, 0),
        (ids[3], -0.2, 0),
        (other, 9.0, 0),
    ):
        db.write(
            lambda c, id=id, gain=gain, hours=hours: c.execute(  # type: ignore[misc]
                "UPDATE example_accounts SET gain = ?, gain_at_s = ? WHERE id = ?",
                (gain, NOW - hours * HOUR, id),
            )
        ).result()
    rows = bank.ledger.highest_gains("a1", NOW, 10)
    assert [row.id for row in rows] == [ids[1], ids[0]], "what is old has faded, what lost something has none"
    assert rows[1].gain == pytest.approx(decayed(1.0, NOW - 20 * HOUR, NOW))
    assert [row.id for row in bank.ledger.highest_gains("a1", NOW, 1)] == [ids[1]]
    assert [row.id for row in bank.ledger.gains_of("a1", [other, ids[4], ids[0]], NOW)] == [ids[4], ids[0]]
    assert set(bank.vectors_of("a1", [*ids, other], "v1")) == set(ids)
    assert bank.vectors_of("a1", ids, "v2") == {}
    stored = bank.vectors_of("a1", ids, "v1")[ids[0]]
    assert np.allclose(stored, unit_vector(0), atol=1e-3)
