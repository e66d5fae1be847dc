"""Series of comparing answers in the background; what it costs is counted apart from clients' answers."""

from __future__ import annotations

from collections import deque

from prometheus_client import CollectorRegistry, Counter, Gauge

from learning.outcomes.judge import Judgement, position_bias, win_rate

_RECENT = 500


class JudgingMetrics:
    """Series of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.samples = Counter(
            "understudy_judging_samples",
            "Requests sampled for judging, by what became of them.",
            ["result"],
            registry=registry,
        )
        self.dropped = Counter(
            "understudy_judging_dropped",
            "Requests sampled for judging that were let go at once.",
            ["reason"],
            registry=registry,
        )
        self.held_back = Counter(
            "understudy_judging_held_back",
            "Comparisons held back because of what they cost.",
            ["reason"],
            registry=registry,
        )
        self.judged = Counter(
            "understudy_judged",
            "Answers judged against the reference's, also in vain.",
            ["engine", "examples", "result"],
            registry=registry,
        )
        self.verdicts = Counter(
            "understudy_judging_verdicts", "Verdicts asked for.", ["result"], registry=registry
        )
        self.exams = Counter(
            "understudy_judge_exams",
            "Exams of judges that ended.",
            ["engine", "result"],
            registry=registry,
        )
        self.cost = Counter(
            "understudy_judging_cost_usd",
            "Cost of judging in US dollars: answers asked for comparison, and verdicts.",
            ["engine", "purpose"],
            registry=registry,
        )
        self._win_rate = Gauge(
            "understudy_judging_win_rate",
            f"(wins + ties / 2) / all against the reference, over the last {_RECENT} judgements of a process.",
            ["engine", "examples"],
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self._position_bias = Gauge(
            "understudy_judging_position_bias_points",
            f"By how much the judge favours what it reads first, -3 to 3, over the last {_RECENT} judgements of a process.",
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self._recent: dict[tuple[str, str], deque[Judgement]] = {}
        self._recent_of_all: deque[Judgement] = deque(maxlen=_RECENT)

    def saw(self, engine: str, judgement: Judgement | None, *, with_examples: bool) -> None:
        """Count one judgement; None: the verdicts could not be read."""
        labels = engine, "with" if with_examples else "without"
        if judgement is None:
            self.judged.labels(*labels, "unread").inc()
            return
        self.judged.labels(*labels, judgement.result).inc()
        recent = self._recent.setdefault(labels, deque(maxlen=_RECENT))
        recent.append(judgement)
        if judgement.votes:
            self._recent_of_all.append(judgement)
        self._win_rate.labels(*labels).set(win_rate(recent) or 0.0)
        self._position_bias.set(position_bias(self._recent_of_all) or 0.0)
