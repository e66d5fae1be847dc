from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from store.records import Key
from tests.store.rows import answer, new_example


def test_a_row_cannot_be_changed_under_whoever_holds_it() -> None:
    for row in (new_example(1), answer(), Key("id", "a1", "laptop", "us-12345", 1.0)):
        with pytest.raises(FrozenInstanceError):
            setattr(row, fields(row)[0].name, "changed")
