"""What a snapshot of an index is of, and how that is written so that any change of it shows. Knows no file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

_FORMAT = 1
_TENANT = re.compile(r"[0-9a-f]{1,64}|default")


@dataclass(frozen=True, slots=True)
class Seal:
    """What a snapshot is of. Loading asks for equality in all but `seq` and `count`."""

    tenant: str
    database_id: str
    version: str
    """Of the embedding, and of how the index is built."""
    dimensions: int
    seq: int
    """Every change of the tenant up to this place in the log is in it."""
    count: int

    def differs(self, wanted: Seal) -> str:
        """The first field that is not what is wanted, but for `seq` and `count`; empty where all are."""
        for field in ("tenant", "database_id", "version", "dimensions"):
            if getattr(self, field) != getattr(wanted, field):
                return field
        return ""

    def fits(self, wanted: Seal) -> bool:
        """Whether all but `seq` and `count` is as wanted."""
        return not self.differs(wanted)


def checked_tenant(tenant: str) -> str:
    """The tenant itself, which may be part of a file's name. Raises ValueError."""
    if not _TENANT.fullmatch(tenant):
        raise ValueError(f"the tenant {tenant!r} is neither lower-case hexadecimal nor 'default'")
    return tenant


def sealed(seal: Seal, named: Mapping[str, object]) -> dict[str, object]:
    """The seal and what is `named` (a file, its size and checksum) under a sum of its own."""
    content = {"format": _FORMAT, **asdict(seal), **named}
    return {**content, "seal": _sum(content)}


def unsealed(written: bytes) -> tuple[Seal, dict[str, object]] | None:
    """The seal and all that was written with it; None where anything of it is not as it was written."""
    try:
        content = json.loads(written)
        if content.pop("seal") != _sum(content) or content["format"] != _FORMAT:
            return None
        return Seal(**{field: content[field] for field in Seal.__slots__}), dict(content)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None


def _sum(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
