"""How an engine stands, for people and for `/readyz`: its state, since when, and its latest failure in words.

Refuses to decide anything: who is asked follows from gates (engines.servers.gate), not from these words.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from engines.loose_json import member, parsed

_LONGEST = 2000
"""Bytes of an answer's own words that are looked at."""


class Standing(StrEnum):
    """The state of one server of an engine, as one worker sees it."""

    UP = "up"
    """The last thing heard of it was good."""
    LIMITED = "limited"
    """Its rate limit is used up."""
    REFUSED = "refused"
    """It refuses the gateway's key, or does not have the model."""
    DOWN = "down"
    """It failed, or its health check did, and it is not asked."""
    DRAINED = "drained"
    """Its operator wants nothing new asked of it."""
    UNKNOWN = "unknown"
    """Nothing was heard of it yet, or it may be asked again and nobody has."""

    @property
    def answers(self) -> bool:
        """Tells whether a request may be answered by it, as far as is known."""
        return self in (Standing.UP, Standing.LIMITED, Standing.UNKNOWN)


@dataclass(slots=True)
class Since:
    """A state, and since when it holds, as far as anybody looked."""

    state: Standing
    at_s: float
    """Unix time."""

    def now(self, state: Standing) -> Since:
        """It, or the new one."""
        return self if state is self.state else Since(state, time.time())


def words_of(body: bytes) -> str:
    """Reads what an error answer says: its `error.message`, else its beginning."""
    said = parsed(body)
    if isinstance(said, list) and said:
        said = said[0]
    if isinstance(said, dict):
        error = said.get("error", said)
        text = error if isinstance(error, str) else member(error, "message")
        if isinstance(text, str):
            return text
    return body[:_LONGEST].decode("utf-8", "replace")
