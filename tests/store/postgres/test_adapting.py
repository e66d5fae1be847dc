"""Values go to PostgreSQL and come back as SQLite would give them."""

import psycopg

from store.postgres.adapting import adapt, cleaned


def test_values_come_back_as_from_sqlite(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        adapt(connection)
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            row = cursor.execute(
                "SELECT %s + 1, sum(n)::numeric, 0.5::numeric, %s::text, %s::bytea FROM (VALUES (1), (2)) AS t (n)",
                cleaned((True, "a\0b", b"\0")),
            ).fetchone()
            assert row == (2, 3, 0.5, "a\ufffdb", b"\0")
            assert [type(value) for value in row] == [int, int, float, str, bytes]
