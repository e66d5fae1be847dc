"""The word `unverified=yes` in a connection string: the operator knows that the server need not prove its name.

For private networks and providers without certificates. It counts only beside an sslmode that is written out.
"""

from __future__ import annotations

from collections.abc import Mapping

_NAME, _YES = "unverified", "yes"
SSLMODES = ("require", "verify-ca", "disable")
"""What may then be used. `prefer` and `allow` leave it to whoever stands between whether anything is encrypted."""
HINT = "or, in a network that you trust, sslmode=require&unverified=yes"


def split(url: str) -> tuple[str, bool]:
    """The connection string as libpq takes it, and whether the word was in it."""
    location, question, query = url.partition("?")
    parts = query.split("&")
    if f"{_NAME}={_YES}" not in parts:
        return url, False
    rest = "&".join(part for part in parts if part != f"{_NAME}={_YES}")
    return location + (question if rest else "") + rest, True


def allowed(asked: Mapping[str, str]) -> bool:
    """Whether the parameters of a connection string let it go unverified."""
    return asked.get(_NAME) == _YES and asked.get("sslmode") in SSLMODES
