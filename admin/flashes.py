"""Flash messages: a sentence for the next page of a session, such as the result of an action. In memory, for a minute."""

from __future__ import annotations

import hashlib

from cachetools import TTLCache


class Flashes:
    """One message per session."""

    def __init__(self) -> None:
        self._messages: TTLCache[bytes, str] = TTLCache(maxsize=256, ttl=60)

    def put(self, token: str, sentence: str) -> None:
        """Shows the sentence on the session's next page."""
        self._messages[_key(token)] = sentence

    def take(self, token: str) -> str:
        """The session's message, once; empty if there is none."""
        return str(self._messages.pop(_key(token), ""))


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
