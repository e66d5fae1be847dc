"""What a trail tells of one try, for people to read."""

from __future__ import annotations

from engines.errors import Kind
from engines.trail import Tried


def test_an_entry_names_the_engine_its_replica_and_how_it_failed() -> None:
    assert str(Tried("large", "", Kind.TIMEOUT_FIRST_DATA, 0, 30.0)) == "large; timeout_first_data"
    assert str(Tried("large", "10.0.0.1:8000", Kind.SERVER, 503, 0.1)) == "large@10.0.0.1:8000; server"
    assert str(Tried("small", "", None, 200, 0.1)) == "small"
