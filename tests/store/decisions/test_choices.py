from __future__ import annotations

import pytest

from store.decisions.choices import Choices
from store.sqlite.database import Database
from tests.store.rows import choice_record


@pytest.fixture
def choices(db: Database) -> Choices:
    return Choices(db)


def test_a_row_stays_small(choices: Choices, db: Database) -> None:
    choices.record(choice_record(1)).result(30)
    lengths = db.read().execute(
        "SELECT length(vector), length(candidate_features), length(record) FROM choices"
    )
    vector, features, record = lengths.fetchone()
    assert (vector, features) == (768, 20 * 24 * 4)
    assert vector + features + record < 4096
