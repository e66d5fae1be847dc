"""What of a configuration a running gateway cannot change: a reload that would is refused, by name."""

from __future__ import annotations

import hashlib
from typing import Any

from understudy.settings.config import Config

_WITH_THE_PROCESSES = (
    "listen.host",
    "listen.port",
    "listen.workers",
    "listen.unix_socket",
    "memory.data_dir",
    "memory.database_url",
    "memory.listen_url",
    "memory.connections",
    "memory.blobs_url",
)
"""What every process of the gateway was started with."""


def needs_new_gateway(now: Config, then: Config) -> list[str]:
    """Settings whose change takes a new gateway: a reload does not bring it about."""
    return [name for name in _WITH_THE_PROCESSES if _at(now, name) != _at(then, name)] + (
        ["memory"] if (now.memory is None) != (then.memory is None) else []
    )


def _at(config: Config, name: str) -> Any:
    found: Any = config
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def digest_of(config: Config) -> str:
    """Twelve characters that differ where configurations do, secrets aside: to see that two gateways have the same one."""
    return hashlib.sha256(config.model_dump_json().encode()).hexdigest()[:12]
