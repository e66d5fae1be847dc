"""One statement for both databases: what PostgreSQL reads."""

from __future__ import annotations

import pytest

from store.postgres.statements import arguments, is_reading, translated


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (
            "SELECT a FROM t WHERE b = ? AND c LIKE 'usd:%'",
            "SELECT a FROM t WHERE b = %s AND c LIKE 'usd:%%'",
        ),
        (
            "UPDATE t SET a = ?1 WHERE b = ?2 OR a = ?1",
            "UPDATE t SET a = %(p1)s WHERE b = %(p2)s OR a = %(p1)s",
        ),
        ("SELECT '?' || :name", "SELECT '?' || %(name)s"),
        (
            "SELECT a FROM t WHERE b IS ? AND +c = 1",
            "SELECT a FROM t WHERE b IS NOT DISTINCT FROM %s AND c = 1",
        ),
        ("SELECT a FROM t WHERE b IS NOT :b", "SELECT a FROM t WHERE b IS DISTINCT FROM %(b)s"),
        (
            "SELECT a FROM t CROSS JOIN u ON TRUE WHERE c IS NULL",
            "SELECT a FROM t JOIN u ON TRUE WHERE c IS NULL",
        ),
        (
            "SELECT a FROM t WHERE :b IS NULL OR b = :b",
            "SELECT a FROM t WHERE %(b)s::text IS NULL OR b = %(b)s",
        ),
    ],
)
def test_what_sqlite_reads_is_said_in_postgresqls_words(said: str, read: str) -> None:
    assert translated(said) == read


def test_numbered_arguments_are_named() -> None:
    assert arguments("SELECT ?1, ?2", (1, "a")) == {"p1": 1, "p2": "a"}
    assert arguments("SELECT ?, ?", (1, "a")) == [1, "a"]
    assert arguments("SELECT :a", {"a": 1}) == {"a": 1}


def test_only_what_changes_nothing_reads() -> None:
    assert is_reading(" SELECT 1") and not is_reading("INSERT INTO t VALUES (1)")
