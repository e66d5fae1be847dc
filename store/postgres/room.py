"""Whether the server has room for the connections of one more process."""

from __future__ import annotations

from typing import Any

import psycopg

_LIMITS = """
SELECT current_setting('max_connections')::bigint
         - current_setting('superuser_reserved_connections')::bigint
         - coalesce(current_setting('reserved_connections', true), '0')::bigint,
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database())
"""
# Everybody sees whose connections these are; a connection that writes or replicates for the server itself has no database.
_USED = """
SELECT count(*), count(*) FILTER (WHERE usename = current_user), count(*) FILTER (WHERE datname = current_database())
FROM pg_stat_activity WHERE datname IS NOT NULL AND backend_type = 'client backend'
"""


def shortage(connection: psycopg.Connection[Any], wanted: int) -> str | None:
    """What is too small for `wanted` more connections beside those that are open now, this one among them; None: nothing.

    Behind a pooler its connections are counted, not the gateway's. Raises psycopg.Error.
    """
    limits, used = connection.execute(_LIMITS).fetchone(), connection.execute(_USED).fetchone()
    assert limits is not None and used is not None
    names = (
        "max_connections, less what is reserved,",
        "the role's CONNECTION LIMIT",
        "the database's CONNECTION LIMIT",
    )
    for name, limit, open_now in zip(names, limits, used, strict=True):
        # -1: none. This connection is closed before the others are opened.
        if limit is not None and limit >= 0 and open_now - 1 + wanted > limit:
            return f"{name} is {limit}: {open_now - 1} are in use, and this process takes {wanted}"
    return None
