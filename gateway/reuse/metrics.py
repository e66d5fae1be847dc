"""Series of semantic reuse. They exist only where somebody opted in."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class SemanticMetrics:
    """Counters of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decisions = Counter(
            "understudy_semantic_decisions",
            "Requests that might be answered with a similar question's answer, by what became of them.",
            ["result"],
            registry=registry,
        )
        self.gates = Counter(
            "understudy_semantic_gates",
            "Candidates refused because the texts differ in what must not, by gate.",
            ["gate"],
            registry=registry,
        )
        self.comparisons = Counter(
            "understudy_semantic_comparisons",
            "Comparisons of a remembered answer with a fresh one.",
            ["result"],
            registry=registry,
        )
