"""The connection string of a PostgreSQL database, as settings have it: a secret, of which no error quotes anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AfterValidator, SecretStr

from store import unverified
from understudy.settings.client_key import is_loopback

_EXAMPLE = "postgresql://understudy:${PASSWORD}@db.example/understudy?sslmode=verify-full"


def _checked_url(url: SecretStr) -> SecretStr:
    """Never quotes it: it holds a password. Raises ValueError."""
    text = url.get_secret_value()
    scheme, separator, rest = text.partition("://")
    if scheme not in ("postgresql", "postgres") or not separator:
        raise ValueError(f"must be a postgresql:// URL such as {_EXAMPLE}")
    if not text.isprintable() or " " in text:
        raise ValueError("has a space or a control character in it: write it as %20 and the like")
    location = rest.partition("?")[0]
    if "#" in text or location.count("@") > 1 or location.count("/") > 1:
        raise ValueError("has one of / @ # in its name or password: write them as %2F, %40 and %23")
    # Not by urlsplit, whose errors quote the password.
    asked = dict(parse_qsl(rest.partition("?")[2], keep_blank_values=True))
    if not location.partition("/")[2] and not asked.get("dbname"):
        raise ValueError(f"names no database: {_EXAMPLE}")
    far = [host for host in _hosts(location, asked) if not (host.startswith("/") or is_loopback(host))]
    if far and asked.get("sslmode") != "verify-full" and not unverified.allowed(asked):
        raise ValueError(
            "leads to another machine, and lacks sslmode=verify-full: without it, whoever stands between them reads the "
            "password and all that is remembered (with sslrootcert=system, or the path of your CA's certificate); "
            + unverified.HINT
        )
    return url


def _hosts(location: str, asked: dict[str, str]) -> Iterator[str]:
    """Names, addresses and folders of sockets that it may connect to. Raises ValueError for a port that is none."""
    named = location.partition("/")[0].rpartition("@")[2]
    for each in named.split(","):
        host, port = _split(each)
        if port and not (port.isdecimal() and 0 < int(port) < 65_536):
            raise ValueError("has a port that is no number from 1 to 65535")
        if host:
            yield unquote(host)
    for name in ("host", "hostaddr"):
        yield from filter(None, asked.get(name, "").split(","))


def _split(each: str) -> tuple[str, str]:
    """(host, port) of `host:port`, the host in brackets where it is an IPv6 address."""
    if each.startswith("["):
        host, _, rest = each[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = each.partition(":")
    return host, port


DatabaseUrl = Annotated[SecretStr, AfterValidator(_checked_url)]
"""`postgresql://…`; off this machine with sslmode=verify-full, or the word of store.unverified."""


def checked_blobs_url(url: str) -> str:
    """The URL of a folder in an object store, or empty. Raises ValueError."""
    if not url:
        return url
    try:
        parts = urlsplit(url)
        fine = bool(parts.scheme) and bool(parts.netloc or parts.path.startswith("/")) and "://" in url
    except ValueError:
        fine = False
    if not fine:
        raise ValueError("must be a URL such as s3://bucket/understudy")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("must carry neither credentials nor a query: they are taken from the environment")
    return url
