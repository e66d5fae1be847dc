"""A conversation that its client names goes to the replica where its name hashes to (rendezvous hashing, Thaler and
Ravishankar 1998), in every worker alike. One that nobody names follows its prompt's beginning (engines.servers.placing).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b

_MOST = 10_000


class Places:
    """Remembers where something is, by a key: the latest of so many. May be asked from any thread."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._by_key: OrderedDict[bytes, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: bytes) -> str | None:
        """Where it is, such as a replica; None where that is not known."""
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


def home(key: bytes, weights: Mapping[str, float]) -> str:
    """The replica a key hashes to, by weight; where one goes, only its own keys go elsewhere. Of weights above 0."""
    return max(weights, key=lambda replica: weights[replica] / -math.log(_uniform(key, replica)))


def _uniform(key: bytes, replica: str) -> float:
    """Between 0 and 1, both excluded."""
    number = int.from_bytes(blake2b(key + replica.encode(), digest_size=8).digest())
    return (number + 0.5) / 2**64 if number < 2**64 - 2**11 else 1 - 2**-53
