"""Series of the KV plan: what warming prefixes does and costs, apart from what clients ask and from what is replayed."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class KvMetrics:
    """Series of the process that warms."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.cost = Counter(
            "understudy_kv_warm_cost_usd",
            "Cost of warming prefixes in US dollars.",
            ["engine"],
            registry=registry,
        )
        self.tokens = Counter(
            "understudy_kv_warm_tokens",
            "Prompt tokens sent to warm prefixes: computed, or cached already.",
            ["engine", "kind"],
            registry=registry,
        )
