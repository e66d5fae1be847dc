"""Only the engine's own latest requests that carried examples are given."""

from __future__ import annotations

from store.decisions.engine_log import uses_of_examples
from store.decisions.requests import DecisionLog
from store.sqlite.database import Database
from tests.store.rows import request_record


def test_what_is_told_of_an_engine(db: Database) -> None:
    log = DecisionLog(db)
    for number, changes in enumerate(
        (
            {"example_ids": (3, 1)},
            {"example_ids": ()},
            {"example_ids": (5,), "engine": "large"},
            {"example_ids": (6,), "first_chunk_ms": None, "tenant": "b2"},
            {"example_ids": (7,), "usage_estimated": True},
        )
    ):
        log.record(request_record(number, **changes)).result(30)  # type: ignore[arg-type]

    assert uses_of_examples(db, "small", since_s=0, limit=9) == [
        ("a1", 1004.0, (7,)),
        ("b2", 1003.0, (6,)),
        ("a1", 1000.0, (3, 1)),
    ]
    assert uses_of_examples(db, "small", since_s=1003.5, limit=9) == [("a1", 1004.0, (7,))]
    assert uses_of_examples(db, "small", since_s=0, limit=1) == [("a1", 1004.0, (7,))]
