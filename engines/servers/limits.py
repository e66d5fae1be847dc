"""A server's rate limits are remembered: until when each is used up, and how much is left of it.

Of the engine as a whole, or of each client's credential where those go through: what one client has used up is no other's.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from engines.engine import EngineRequest
from engines.errors import Kind
from engines.headers import CREDENTIALS, key_parameters
from engines.retry_after import retry_after_s
from engines.servers.gate import Gate, Pass
from engines.servers.rate_limits import MOST_S, Told, exhausted_s, limits_told, share_left

_FIRST_S = 1.0
_TESTED_AFTER_S = 60.0
"""One probe asks then, however long the limit is said to last."""
_LEFT_OVER = 0.05
"""Of a limit: with so much left a stand-in is to answer."""
_JITTER = 0.25
_BYTES_PER_TOKEN = 4
_MOST_CREDENTIALS = 10_000


class RateLimit:
    """One limit: the gate it shuts, and what the last answers told of it."""

    __slots__ = ("_again", "_clock", "_told", "_told_at", "_told_for", "gate", "sent")

    def __init__(self, gate: Gate, clock: Callable[[], float] = time.monotonic) -> None:
        self.gate = gate
        self._clock = clock
        self._again = 0
        self._told: list[Told] = []
        self._told_at = 0.0
        self._told_for = 0
        self.sent = 0
        """Requests sent under it."""

    def met(self, headers: Mapping[str, str], entered: Pass | None = None) -> float | None:
        """An answer said that it is used up. Shuts the gate for as long as it said, else for 1 s, doubling to 60 s.

        Returns seconds until it may be asked again where this is the first answer to say so, else None.
        """
        tested = entered is not None and entered.decides
        if self.gate.kind is not None and not tested:
            return None
        told_s = _positive(retry_after_s(headers)) or exhausted_s(limits_told(headers))
        if told_s is None:
            told_s = min(_TESTED_AFTER_S, _FIRST_S * 2**self._again)
            self._again = min(self._again + 1, 10)
        for_s = min(told_s, _TESTED_AFTER_S)
        self.gate.shut(Kind.LIMITED, for_s, told_s)
        return for_s

    def passed(self) -> None:
        """An answer came."""
        self._again = 0

    def told(self, headers: Mapping[str, str], sent: int) -> float | None:
        """Note what an answer's head tells of what is left. `sent`: `self.sent` when its request was the newest.

        Returns the share that is left, 0 to 1; None where it tells nothing.
        """
        told = limits_told(headers)
        if told and sent >= self._told_for:
            self._told, self._told_at, self._told_for = told, self._clock(), sent
        return share_left(told)

    def spares(self, request: EngineRequest) -> bool:
        """Tells whether what is left is to be spared until it is full again: 5 % of a limit, or too few tokens for this."""
        if not self._told:
            return False
        past_s = self._clock() - self._told_at
        sent_since = self.sent - self._told_for
        for one in self._told:
            if one.reset_s is None or past_s >= one.reset_s:
                continue
            if one.of_tokens:
                if one.left <= one.most * _LEFT_OVER or one.left < _most_tokens(request):
                    return True
            elif one.left - sent_since <= one.most * _LEFT_OVER:
                return True
        return False


class Credentials:
    """The rate limits of each client's own credential, for an engine that is sent it. At most 10,000, the latest used."""

    def __init__(self, further: Sequence[str] = ()) -> None:
        """`further`: headers that hold a credential, besides the usual ones."""
        self._names = (*CREDENTIALS, *further)
        self._limits: OrderedDict[bytes, RateLimit] = OrderedDict()

    def __len__(self) -> int:
        return len(self._limits)

    def of(self, request: EngineRequest) -> RateLimit:
        """The one this request falls under."""
        digest = blake2b(digest_size=16)
        for name in self._names:
            for value in request.headers.getall(name, ()):
                digest.update(f"{name}\0{value}\0".encode("utf-8", "surrogateescape"))
        for parameter in key_parameters(request.target):
            digest.update(f"{parameter}\0".encode("utf-8", "surrogateescape"))
        key = digest.digest()
        limit = self._limits.get(key)
        if limit is None:
            limit = self._limits[key] = RateLimit(Gate())
            if len(self._limits) > _MOST_CREDENTIALS:
                self._limits.popitem(last=False)
        else:
            self._limits.move_to_end(key)
        return limit


def with_jitter(wait_s: float) -> float:
    """So long and up to a quarter more: who was told the same time must not come back together."""
    return wait_s * (1.0 + random.uniform(0.0, _JITTER))


def _positive(seconds: float | None) -> float | None:
    return seconds if seconds is not None and 0 < seconds <= MOST_S else None


def _most_tokens(request: EngineRequest) -> float:
    """Tokens the upstream is likely to count for a request: its prompt by its size, and the longest answer it allows."""
    chat = request.chat
    if chat is None:
        return 0.0
    for name in ("max_completion_tokens", "max_tokens"):
        if isinstance(most := chat.fields.get(name), int):
            break
    else:
        most = 0
    return len(chat.body) / _BYTES_PER_TOKEN + most
