"""What happened to one request: filled in along the way, read once at its end by the log, the metrics and the recorder."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from gateway.answer import Answer


class Outcome(Enum):
    """How a request ended."""

    HIT = "hit"
    """Answered from memory; no engine was asked."""
    ANSWERED = "answered"
    """An engine answered in full with a status below 400."""
    UPSTREAM_ERROR = "upstream_error"
    """An engine answered in full with an error, which was passed on."""
    REFUSED = "refused"
    """The request was wrong, or not allowed."""
    FAILED = "failed"
    """No engine could answer, or its answer broke off."""
    ABORTED = "aborted"
    """The client left before the end."""


@dataclass(slots=True)
class Journey:
    """One request from door to door. Times are seconds of time.perf_counter unless a name says otherwise."""

    id: str
    began: float
    started_at_s: float
    method: str
    path: str
    """Path without its query: a query may carry a key."""
    tenant: str = "default"
    key_id: str | None = None
    model: str = ""
    engine: str = ""
    outcome: Outcome = Outcome.FAILED
    status: int = 0
    policy: str = ""
    policy_version: str = ""
    probability: float = 1.0
    reason: str = ""
    example_ids: tuple[int, ...] = ()
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Those of the prompt's that the engine had in its prefix cache, where it told."""
    completion_tokens: int = 0
    usage_estimated: bool = False
    cost_usd: float = 0.0
    reference_cost_usd: float | None = None
    """What the model's reference engine would have charged; None where nobody can say."""
    bypassed: list[str] = field(default_factory=list)
    """Stages that were late or broken and were gone without."""
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds by stage."""
    asked: float = 0.0
    """When an engine was first asked."""
    waited: float = 0.0
    """Seconds spent waiting for an engine's first byte."""
    first_byte: float = 0.0
    """When our own head was ready to leave."""
    first_chunk: float | None = None
    continued: list[str] = field(default_factory=list)
    """Engines that carried the answer on, one after the other, where the one before broke off."""
    error: str = ""
    ended: float = 0.0
    answer: Answer | None = None
    """What the pipeline leaves to be remembered; None for a request it had no part in."""

    @classmethod
    def begin(cls, request: web.BaseRequest, path: str) -> Journey:
        """A journey that starts now."""
        return cls(secrets.token_hex(12), time.perf_counter(), time.time(), request.method, path)

    def stage(self, name: str, began: float) -> None:
        """Note that stage `name`, begun at `began`, has just ended."""
        self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - began

    @property
    def by_stand_in(self) -> bool:
        """Whether another engine than the chosen one answered, or a part of it."""
        return bool(self.continued) or self.reason.endswith("+failover")

    @property
    def overhead_s(self) -> float:
        """Seconds of our own before the first byte: from the door to asking an engine, and from its answer to ours."""
        if self.first_byte:
            return self.first_byte - self.began - self.waited
        return self.ended - self.began - self.waited

    def overhead_ms(self) -> float:
        """Milliseconds of our own so far, for the response header; call it when the head is about to leave."""
        self.first_byte = time.perf_counter()
        return (self.first_byte - self.began - self.waited) * 1000
