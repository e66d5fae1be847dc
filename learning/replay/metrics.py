"""Series of replay: what it does and what it costs, apart from clients' answers and from judging."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class ReplayMetrics:
    """Series of one process. What a command on the side spends is in the store only (store.jobs.replay_jobs)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.asks = Counter(
            "understudy_replay_asks",
            "Requests of replay to engines, by what became of them.",
            ["engine", "purpose", "result"],
            registry=registry,
        )
        self.cost = Counter(
            "understudy_replay_cost_usd",
            "Cost of replay in US dollars: answers, new questions and verdicts.",
            ["engine", "purpose"],
            registry=registry,
        )
        self.tokens = Counter(
            "understudy_replay_tokens", "Tokens of replay.", ["engine", "kind"], registry=registry
        )
        self.steps = Counter(
            "understudy_replay_steps",
            "Examples replayed, by what came of it.",
            ["kind", "result"],
            registry=registry,
        )
        self.left = Gauge(
            "understudy_replay_steps_left",
            "Steps of the run that goes on which are not done yet.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.running = Gauge(
            "understudy_replay_running",
            "Whether a run goes on: 1 while it asks, 0.5 while it waits for quiet, 0 otherwise.",
            registry=registry,
            multiprocess_mode="livesum",
        )
