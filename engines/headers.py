"""Which headers travel end to end, and which stop at every hop (RFC 9110 §7.6.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from urllib.parse import unquote

from multidict import CIMultiDict, MultiMapping

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
REQUEST_ONLY_HERE = HOP_BY_HOP | {"host", "expect"}
"""`host` is the upstream's own; `expect` was answered by us when we read the body."""

CREDENTIALS = (
    "Authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "Ocp-Apim-Subscription-Key",
    "Cookie",
    "Proxy-Authorization",
)
"""Headers in which clients send a credential: they tell clients apart while the gateway has no keys of its own."""
_KEY_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "access_token", "subscription-key"})
"""Parameters of a query in which some do."""

_CREDENTIAL = re.compile(r"key|token|secret|authorization|cookie", re.IGNORECASE)
"""Names of headers that hold a credential, whoever made them up."""

OURS = "x-understudy-"
"""Our own headers steer the gateway and never leave for an upstream, nor come back from one."""


def named_by_connection(values: Iterable[str]) -> frozenset[str]:
    """The further hop-by-hop headers that the `Connection` headers name."""
    return frozenset(token.strip().lower() for value in values for token in value.split(","))


def request_headers(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """A client's headers as an upstream should get them: repeated ones kept, in order, in any encoding."""
    return CIMultiDict(_end_to_end(headers, _stops_in_request))


def response_headers(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """An upstream's headers as the client should get them. Raises ForbiddenCharacter."""
    kept = _end_to_end(headers, _stops_in_response)
    values = "".join([value for _, value in kept])
    if not (values.isascii() and values.isprintable()):
        kept = [(name, _without_controls(value)) for name, value in kept]
    return CIMultiDict(kept)


def without_credentials(headers: CIMultiDict[str], further: Iterable[str] = ()) -> CIMultiDict[str]:
    """A copy of a client's headers that says nothing of who it is; `further` headers say so, too."""
    kept = headers.copy()
    for name in (*CREDENTIALS, *further):
        kept.popall(name, None)
    return kept


def holds_credential(name: str) -> bool:
    """Whether a header of this name holds a credential, as far as a name can tell."""
    return _CREDENTIAL.search(name) is not None


def without_key_parameters(target: str) -> str:
    """A client's request target without a credential in its query; all else stays as it came."""
    path, separator, query = target.partition("?")
    if not separator:
        return target
    kept = [one for one in query.split("&") if not _holds_key(one)]
    return path + "?" + "&".join(kept) if kept else path


def key_parameters(target: str) -> list[str]:
    """The parameters of a client's request target that hold a credential, as they came."""
    _, separator, query = target.partition("?")
    return [one for one in query.split("&") if _holds_key(one)] if separator else []


def _holds_key(parameter: str) -> bool:
    return unquote(parameter.partition("=")[0]).lower() in _KEY_PARAMETERS


def _end_to_end(headers: MultiMapping[str], stops: Callable[[str], bool]) -> list[tuple[str, str]]:
    kept = [(name, value) for name, value in headers.items() if not stops(name)]
    named = headers.getall("Connection", ())
    if named and (len(named) > 1 or named[0].lower() not in ("keep-alive", "close")):
        further = named_by_connection(named)
        kept = [(name, value) for name, value in kept if name.lower() not in further]
    return kept


@lru_cache(maxsize=1024)
def _stops_in_request(name: str) -> bool:
    lower = name.lower()
    return lower in REQUEST_ONLY_HERE or lower.startswith(OURS)


@lru_cache(maxsize=1024)
def _stops_in_response(name: str) -> bool:
    lower = name.lower()
    return lower in HOP_BY_HOP or lower.startswith(OURS)


class ForbiddenCharacter(ValueError):
    """A header value holds a control character: passed on, it could become a header or an answer of its own."""


def _without_controls(value: str) -> str:
    if any((c < " " and c != "\t") or c == "\x7f" for c in value):
        raise ForbiddenCharacter
    return _utf8_or_latin1(value)


def _utf8_or_latin1(value: str) -> str:
    # aiohttp hands over bytes that are not UTF-8 as lone surrogates, and would drop those silently when writing. Read as
    # Latin-1 (obs-text, RFC 9110 §5.5) no character is lost.
    try:
        value.encode("utf-8")
        return value
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape").decode("latin-1")
