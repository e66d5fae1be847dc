"""Simulated engines in virtual time: continuous batching as a fluid, with speeds from the paper's ratios.

All running answers grow at one rate, 1 / step(b) tokens a second, where a decoding step with b answers in the batch takes
a + c * b (memory traffic of the weights, and of each answer's own cache). A prompt is read before its answer begins, and
while it is read nothing else moves (as in vLLM without chunked prefill). More than `most_running` wait, first come first
served. Between arrivals and ends nothing changes, so only these are events: a day of traffic takes seconds.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field, replace

from benchmarks.echolm.paper import LARGE_GPUS, LARGE_PARAMETERS, SMALL_GPUS, SMALL_PARAMETERS
from engines.engine import EngineInfo, EngineLoad, Price
from engines.pace import Pace

A100_FLOPS, USED = 312e12, 0.5
"""Dense half precision, and the share of it that reading prompts reaches: an assumption."""
DOLLARS_PER_GPU_HOUR = 2.0
"""Tokens are priced at the time they take of a full engine; only ratios of prices matter to a decision."""


@dataclass(frozen=True, slots=True)
class Model:
    """An engine's speeds. `replicas` may be a fraction: a baseline that gets all the GPUs of two engines."""

    name: str
    gpus: float
    step_s: float
    """One token of a lone answer."""
    crowding_s: float
    """That each answer in the batch adds to a step."""
    prefill_s_per_token: float
    price: Price
    most_running: int = 64
    replicas: float = 1.0

    def step(self, running: int) -> float:
        """Seconds per token with so many answers in the batch."""
        return self.step_s + self.crowding_s * running / self.replicas

    def idle_s(self, prompt_tokens: int, completion_tokens: int) -> float:
        """A lone request's latency."""
        return prompt_tokens * self.prefill_s_per_token + completion_tokens * self.step(1)

    def gpu_s(self, prompt_tokens: int, completion_tokens: int) -> float:
        """GPU seconds that a request takes of a full engine: what its cost at maximum throughput is."""
        full = self.step_s / self.most_running + self.crowding_s
        return self.gpus * (prompt_tokens * self.prefill_s_per_token + completion_tokens * full)


def _model(name: str, gpus: float, parameters: float, step_s: float, crowding_s: float) -> Model:
    prefill_s = 2 * parameters / (gpus * A100_FLOPS * USED)
    unpriced = Model(name, gpus, step_s, crowding_s, prefill_s, Price())
    usd_per_gpu_s = DOLLARS_PER_GPU_HOUR / 3600
    price = Price(unpriced.gpu_s(1_000_000, 0) * usd_per_gpu_s, unpriced.gpu_s(0, 1_000_000) * usd_per_gpu_s)
    return replace(unpriced, price=price)


LARGE = _model("gemma-2-27b", LARGE_GPUS, LARGE_PARAMETERS, step_s=0.030, crowding_s=0.00053)
"""30 ms a token is an assumption (the paper gives no absolute times): weights of 54 GB over two A100s, and overheads."""
SMALL = _model("gemma-2-2b", SMALL_GPUS, SMALL_PARAMETERS, step_s=0.0090, crowding_s=0.000115)
"""Relative to LARGE from Figure 18: 71 % less latency when idle, 5.1 times the throughput per GPU with examples."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An answer that is complete."""

    request: int
    at_s: float


@dataclass(slots=True)
class _Waiting:
    request: int
    at_s: float
    prompt_tokens: int
    completion_tokens: int


@dataclass(slots=True)
class Engine:
    """One engine: hand in with `submit`, move on with `advance`, ask `next_at` when there is something to see."""

    model: Model
    _now_s: float = 0.0
    _grown: float = 0.0
    """Tokens that an answer would have, had it run since the start."""
    _reading_until_s: float = 0.0
    _running: list[tuple[float, int]] = field(default_factory=list)
    """Heap of (value of _grown at which it ends, request)."""
    _waiting: deque[_Waiting] = field(default_factory=deque)
    _begun_s: dict[int, float] = field(default_factory=dict)
    _pace: Pace = field(default_factory=Pace)

    @property
    def in_flight(self) -> int:
        """Requests running and waiting."""
        return len(self._running) + len(self._waiting)

    def info(self) -> EngineInfo:
        """As the router knows it."""
        return EngineInfo(self.model.name, price=self.model.price)

    def load(self) -> EngineLoad:
        """As an engine of the gateway reports it, with the gateway's own moving averages."""
        return EngineLoad(
            in_flight=len(self._running),
            queued=len(self._waiting),
            capacity=math.ceil(self.model.most_running * self.model.replicas),
            first_chunk_s=self._pace.first_chunk_s,
            idle_first_chunk_s=self._pace.idle_first_chunk_s,
            answer_s=self._pace.answer_s,
        )

    def idle_load(self) -> EngineLoad:
        """What it would report if nobody else were there, ever."""
        return EngineLoad(
            capacity=self.model.most_running,
            first_chunk_s=self.model.idle_s(200, 1),
            idle_first_chunk_s=self.model.idle_s(200, 1),
            answer_s=self.model.idle_s(200, 200),
        )

    def submit(self, request: int, prompt_tokens: int, completion_tokens: int, now_s: float) -> None:
        """Takes a request. The clock must have been advanced to `now_s`."""
        self._begun_s[request] = now_s
        self._waiting.append(_Waiting(request, now_s, prompt_tokens, max(1, completion_tokens)))
        self._admit()

    def next_at(self) -> float:
        """When the next answer ends, if nothing else comes; infinity when none runs."""
        if not self._running:
            return math.inf
        left = max(0.0, self._running[0][0] - self._grown)
        return max(self._now_s, self._reading_until_s) + left * self.model.step(len(self._running))

    def advance(self, now_s: float) -> list[Ended]:
        """Moves to `now_s`, and returns what ended on the way, in order."""
        ended: list[Ended] = []
        while (end_s := self.next_at()) <= now_s:
            self._grown, request = heapq.heappop(self._running)
            self._now_s = end_s
            self._pace.ended(end_s - self._begun_s.pop(request))
            ended.append(Ended(request, end_s))
            self._admit()
        grows_from = max(self._now_s, self._reading_until_s)
        if self._running and now_s > grows_from:
            self._grown += (now_s - grows_from) / self.model.step(len(self._running))
        self._now_s = max(self._now_s, now_s)
        return ended

    def _admit(self) -> None:
        most = math.ceil(self.model.most_running * self.model.replicas)
        while self._waiting and len(self._running) < most:
            waiting = self._waiting.popleft()
            reading_s = waiting.prompt_tokens * self.model.prefill_s_per_token / self.model.replicas
            self._reading_until_s = max(self._now_s, self._reading_until_s) + reading_s
            heapq.heappush(self._running, (self._grown + waiting.completion_tokens, waiting.request))
            self._pace.began(self._reading_until_s + self.model.step(len(self._running)) - waiting.at_s)
