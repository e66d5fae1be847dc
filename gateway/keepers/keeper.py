"""The seam between the recorder and what it keeps. A keeper runs on the recorder's thread and knows one kind of memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Protocol

from engines.finished import Assembled
from gateway.answer import Answer
from gateway.journey import Journey

_GZIP_OR_ZLIB = 47

Keeping = tuple[str, Future[Any] | str]
"""(kind, a write under way) or (kind, the reason why nothing is kept)."""


class Keeper(Protocol):
    """Keeps one kind of thing."""

    def keep(self, journey: Journey, answer: Answer, assembled: Assembled | None) -> Iterator[Keeping]:
        """What was handed to the store, or why not."""
        ...


def decoded(answer: Answer) -> bytes:
    """The body without its content encoding. Raises zlib.error for one that is not gzip or deflate."""
    body = b"".join(answer.kept.chunks)
    return body if answer.identity else zlib.decompress(body, _GZIP_OR_ZLIB)
