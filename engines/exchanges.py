"""What a request over HTTP comes to, whichever client sent it: an answer whose head is here, or a failure.

Knows no client and no engine. A failure says what happened, never what was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from multidict import MultiMapping

Take = Callable[[bytes], bool]
"""Takes a piece of a body at once, or refuses it."""


class Answer(Protocol):
    """An answer whose head is here. Its body is taken by `readany` until that gives nothing."""

    status: int

    @property
    def reason(self) -> str | None:
        """The status line's reason phrase."""
        ...

    @property
    def headers(self) -> MultiMapping[str]:
        """All of its headers, in any encoding: bytes that are not UTF-8 as lone surrogates (PEP 383)."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing more of it will come."""
        ...

    async def readany(self) -> bytes:
        """What has come of the body, at least one byte; nothing at its end. Raises Failure."""
        ...

    async def flow(self, take: Take) -> None:
        """Hand over what comes of the body the moment it comes, for as long as `take` does; what it refuses, and how the
        body ends, is `readany`'s to tell. May return at once."""
        ...

    def limit(self, seconds: float) -> None:
        """How long anything may be in coming: from now, and from whatever comes next."""
        ...

    def release(self) -> None:
        """Leave it. Its connection serves another request if all of the body was taken; else it is closed."""
        ...


class Failure(Exception):
    """A request to an upstream failed."""


class ConnectTimeout(Failure):
    """There was no connection in time."""


class NotConnected(Failure):
    """No connection was made. `cause` tells why; `proxy`: it is the proxy that could not be reached."""

    def __init__(self, cause: Exception, *, proxy: bool = False) -> None:
        super().__init__()
        self.cause = cause
        self.proxy = proxy


class ProxyRefused(Failure):
    """The proxy answered a request for a connection with `status`."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


class Disconnected(Failure):
    """The connection was closed before the head of an answer was here. `cause`: an error of the system, if that was it."""

    def __init__(self, cause: Exception | None = None) -> None:
        super().__init__()
        self.cause = cause


class Unanswered(Disconnected):
    """The same of a connection that had been kept alive, without a byte of an answer."""


class Invalid(Failure):
    """What came is no head of an answer in HTTP."""


class ReadTimeout(Failure):
    """Nothing came for as long as anything may be in coming."""


class Cut(Failure):
    """The body ended before it was complete, or is not framed as its head says."""
