"""Where PostgreSQL is: what of a connection string is refused, and how it may be named to people.

A connection string holds a password, and libpq quotes what it cannot read: no error of it is passed on from here.
"""

from __future__ import annotations

from ipaddress import ip_address

import psycopg
from psycopg import pq

from store.errors import BadAddress
from store.unverified import HINT, SSLMODES, split

_PARTS = ("host", "hostaddr", "port", "dbname", "user", "sslmode", "service", "servicefile")

_UNREADABLE = (
    "the connection string cannot be read: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full, with"
    " what is no letter or digit of user and password percent-encoded"
)


def checked(url: str) -> str:
    """The connection string as libpq takes it. Raises BadAddress, which quotes nothing of it but hosts.

    What PGHOST, PGSSLMODE and their like in the environment add to it counts, as for libpq. Off this machine
    `sslmode=verify-full` is demanded, unless store.unverified lets it go: with less anybody in between can read and change
    what passes.
    """
    parts = _parts(url)
    plain, unverified = split(url)
    if parts["service"] or parts["servicefile"]:
        raise BadAddress("a PostgreSQL service file cannot be used: write the whole connection string")
    away = [host for host in _hosts(parts) if not _is_here(host)]
    if away and parts["sslmode"] != "verify-full" and not (unverified and parts["sslmode"] in SSLMODES):
        raise BadAddress(
            f"PostgreSQL on {', '.join(away)} is not on this machine: add sslmode=verify-full, and sslrootcert=FILE with its"
            f" authority's certificate; {HINT} (sslmode is {parts['sslmode'] or 'prefer'})"
        )
    return plain


def described(url: str) -> str:
    """Hosts and database, for logs and pages: never user or password. Raises BadAddress."""
    parts = _parts(url)
    return f"{', '.join(_hosts(parts)) or 'local socket'}/{parts['dbname'] or parts['user']}"


def _parts(url: str) -> dict[str, str]:
    try:
        given = pq.Conninfo.parse(split(url)[0].encode())
    except (psycopg.Error, ValueError):
        # Not chained: libpq's message quotes what it could not read.
        raise BadAddress(_UNREADABLE) from None
    found = {o.keyword.decode(): (o.val or b"").decode() for o in pq.Conninfo.get_defaults()}
    found |= {o.keyword.decode(): o.val.decode() for o in given if o.val}
    parts = {name: found.get(name, "") for name in _PARTS}
    # A password with / or @ that is not percent-encoded ends up in these.
    if "@" in parts["host"].lstrip("@") + parts["dbname"] or not all(
        port.isdecimal() for port in parts["port"].split(",") if port
    ):
        raise BadAddress(_UNREADABLE)
    return parts


def _hosts(parts: dict[str, str]) -> list[str]:
    """As libpq tries them: where there are addresses, these are what is connected to."""
    return [host for host in (parts["hostaddr"] or parts["host"]).split(",") if host]


def _is_here(host: str) -> bool:
    """Whether a host is a folder with a socket in it, an abstract socket, or a loopback address. Asks no name server."""
    if host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
