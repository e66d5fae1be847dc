"""A sentence for the next page somebody sees: what their action came to. In memory, for a minute."""

from __future__ import annotations

import hashlib

from cachetools import TTLCache


class Flashes:
    """One sentence per session."""

    def __init__(self) -> None:
        self._said: TTLCache[bytes, str] = TTLCache(maxsize=256, ttl=60)

    def put(self, token: str, sentence: str) -> None:
        """Say it on the session's next page."""
        self._said[_key(token)] = sentence

    def take(self, token: str) -> str:
        """What is to be said, once; empty for nothing."""
        return str(self._said.pop(_key(token), ""))


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
