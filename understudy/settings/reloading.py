"""What of a configuration a running gateway cannot change: a reload that would is refused, by name."""

from __future__ import annotations

import hashlib
from typing import Any

from understudy.settings.config import Config
from understudy.settings.engines import VLLMLocalEngine

_WITH_THE_PROCESSES = (
    "listen.host",
    "listen.port",
    "listen.workers",
    "memory.data_dir",
    "memory.database_url",
    "memory.listen_url",
    "memory.connections",
    "memory.blobs_url",
)
"""What every process of the gateway was started with."""
_WITH_A_WORKER = (
    "listen.grace_s",
    "listen.advanced.max_header_kib",
    "listen.advanced.max_json_mib",
    "listen.advanced.body_gap_s",
    "listen.advanced.max_connections",
    "memory.deadline_ms",
    "memory.stale_s",
    "memory.index",
    "memory.index_memory_mib",
    "memory.examples.enabled",
    "memory.examples.embedding_model",
    "memory.advanced.embedding_cache_dir",
    "workflows.keep_values_s",
    "workflows.max_steps",
    "workflows.max_items",
    "workflows.max_value_kib",
    "workflows.max_documents_mib",
    "workflows.max_runs",
    "workflows.max_total_mib",
    "workflows.max_wait_s",
    "workflows.advanced.lease_s",
    "workflows.advanced.poll_s",
    "workflows.advanced.max_prompt_characters",
)
"""What a worker opens or lays out once."""


def needs_new_gateway(now: Config, then: Config) -> list[str]:
    """Settings whose change takes a new gateway: neither a reload nor a restart of the workers brings it about."""
    return [name for name in _WITH_THE_PROCESSES if _at(now, name) != _at(then, name)] + (
        ["memory"] if (now.memory is None) != (then.memory is None) else []
    )


def needs_new_workers(now: Config, then: Config) -> list[str]:
    """Settings whose change takes new workers, beside those of `needs_new_gateway`."""
    changed = []
    if now.memory is not None and then.memory is not None:
        changed = [name for name in _WITH_A_WORKER if _at(now, name) != _at(then, name)]
    else:
        changed = [
            name
            for name in _WITH_A_WORKER
            if name.startswith("listen.") and _at(now, name) != _at(then, name)
        ]
    return changed + _local_engines(now, then)


def _local_engines(now: Config, then: Config) -> list[str]:
    """Engines inside a worker: two of them at once would not fit the GPU."""
    before, after = (
        {n: e for n, e in c.engines.items() if isinstance(e, VLLMLocalEngine)} for c in (now, then)
    )
    return [f"engines.{name}" for name in {**before, **after} if before.get(name) != after.get(name)]


def _at(config: Config, name: str) -> Any:
    found: Any = config
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def digest_of(config: Config) -> str:
    """Twelve characters that differ where configurations do, secrets aside: to see that two gateways have the same one."""
    return hashlib.sha256(config.model_dump_json().encode()).hexdigest()[:12]
