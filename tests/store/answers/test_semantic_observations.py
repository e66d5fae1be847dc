from __future__ import annotations

import pytest

from store.answers.semantic_observations import SemanticObservations
from store.database import Database


def test_an_entry_that_may_keep_nothing_is_refused(db: Database) -> None:
    with pytest.raises(ValueError, match="per_entry is 0"):
        SemanticObservations(db, per_entry=0)
