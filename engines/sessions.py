"""Which replica a conversation goes to, so that it finds there what the server has cached of it.

A session that its client names goes where its name hashes to (rendezvous hashing, Thaler and Ravishankar 1998), in every
worker alike. One that nobody names is known by its beginning, and goes where it was answered.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any

from engines.engine import EngineRequest

_MOST = 10_000
_LOOKED_AT = 32 * 1024
"""Characters, at most, that tell a conversation from another."""
_PARTS = 16


class Places:
    """Where something is, by a key: the latest 10,000. May be asked from any thread."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._by_key: OrderedDict[bytes, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: bytes) -> str | None:
        """The replica; None where it is not known."""
        replica = self._by_key.pop(key, None)
        if replica is not None:
            self._by_key[key] = replica
        return replica

    def put(self, key: bytes, replica: str) -> None:
        """It is there now."""
        self._by_key.pop(key, None)
        self._by_key[key] = replica
        if len(self._by_key) > self._most:
            self._by_key.popitem(last=False)


def named_key(tenant: str, name: str) -> bytes:
    """The key of what a tenant calls so."""
    return blake2b(f"{tenant}\0{name}".encode("utf-8", "surrogateescape"), digest_size=16).digest()


def unnamed_key(request: EngineRequest) -> tuple[bytes | None, bool]:
    """The key of a conversation by its beginning (tenant, system, first user message), and whether this is a later turn.

    None where it has no such beginning.
    """
    chat = request.as_asked or request.chat
    if chat is None:
        return None, False
    digest, left = blake2b(request.tenant.encode("utf-8", "surrogateescape"), digest_size=16), _LOOKED_AT
    for at, message in enumerate(chat.messages):
        role = message.get("role")
        for text in (str(role), *_texts(message.get("content"))):
            digest.update(f"{len(text)}\0{text[:left]}".encode("utf-8", "surrogatepass"))
            left = max(0, left - len(text))
        if role == "user":
            later = any(further.get("role") == "assistant" for further in chat.messages[at + 1 :])
            return digest.digest(), later
    return None, False


def home(key: bytes, weights: Mapping[str, float]) -> str:
    """The replica a key hashes to, by weight; where one goes, only its own keys go elsewhere. Of weights above 0."""
    return max(weights, key=lambda replica: weights[replica] / -math.log(_uniform(key, replica)))


def _uniform(key: bytes, replica: str) -> float:
    """Between 0 and 1, both excluded."""
    number = int.from_bytes(blake2b(key + replica.encode(), digest_size=8).digest())
    return (number + 0.5) / 2**64 if number < 2**64 - 2**11 else 1 - 2**-53


def _texts(content: Any) -> Iterator[str]:
    """What a message says, and of other parts what tells them apart: a URL, the beginning of a picture."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Sequence):
        for part in content[:_PARTS]:
            yield from _values(part)


def _values(part: Any) -> Iterator[str]:
    for value in islice(part.values(), _PARTS) if isinstance(part, Mapping) else ():
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from (inner for inner in islice(value.values(), _PARTS) if isinstance(inner, str))
