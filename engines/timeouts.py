"""How long each phase of a request to an engine may last: alone, and where another engine stands by.

Alone an engine has as long as clients wait. Beside a stand-in a stream that says nothing is left sooner, but not before it
has had a multiple of what this engine lately needed: slowness is no failure.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict, deque
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from engines.chat import ChatRequest
from engines.engine import EngineRequest

_ALONE_S, _MOST_S = 600.0, 3600.0
"""As long as OpenAI's own clients wait; and the most that is believed of one that says it waits longer."""
_FIRST_DATA_BESIDE_S, _REASONING_BESIDE_S = 60.0, 300.0
"""At least; a model that reasons may be silent for minutes before its first word."""
_TIMES_NEEDED = 3.0
_GAP_BESIDE_S = 120.0
_LEAST_S = 0.05
_BEGINNINGS = 100
_QUANTILE = 0.99
_MODELS = 64
_REASONING_MODELS = (
    r"o[134](?![a-z0-9])",
    r"gpt-(?:[5-9]|oss)",
    r"codex",
    r"deepseek-(?:r\d|reasoner)|(?<![a-z0-9])r1(?![a-z0-9])",
    r"qwq|qvq|qwen-?3(?!.*instruct)",
    r"magistral",
    r"grok-(?:3-mini|[4-9])",
    r"gemini-(?:2\.5|[3-9])",
    r"glm-(?:4\.[5-9]|[5-9]|z1)",
    r"kimi-k2",
    r"minimax-m[1-9]",
    r"sonar-deep-research",
    r".*think",
    r".*reason",
)
"""Of names of models that are known to reason, by themselves or unless told not to."""
_KNOWN_TO_REASON = re.compile("|".join(rf"(?<![a-z0-9])(?:{name})" for name in _REASONING_MODELS), re.I)


class Phases(NamedTuple):
    """Limits of one request, in seconds."""

    connect_s: float
    first_data_s: float
    """Of a stream: until its first event with data."""
    gap_s: float
    """Between two chunks, once data has come."""
    answer_s: float
    """Of an answer that is no stream: all of it."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits by phase, in seconds. What is set holds for all requests; None: by whether another engine stands by."""

    connect_s: float
    first_data_s: float | None
    gap_s: float | None
    answer_s: float | None

    def phases(self, request: EngineRequest, lately: FirstDataTimes | None = None) -> Phases:
        """The limits of a request to an engine that lately needed so long."""
        alone_s = min(_MOST_S, max(_ALONE_S, request.client_timeout_s or 0.0))
        first_data_s, gap_s, answer_s = self.first_data_s, self.gap_s, self.answer_s
        if first_data_s is None:
            first_data_s = alone_s
            if request.beside_stand_in:
                first_data_s = min(alone_s, _beside_s(request, lately))
        if gap_s is None:
            gap_s = _GAP_BESIDE_S if request.beside_stand_in and request.continuable else alone_s
        return Phases(self.connect_s, first_data_s, gap_s, alone_s if answer_s is None else answer_s)


class FirstDataTimes:
    """How long the latest streams of one engine took until their first data, by model: the latest 100 of 64 models."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, deque[float]] = OrderedDict()

    def took(self, model: str, seconds: float) -> None:
        """A stream came to its first data after so long, or was given up by then."""
        times_s = self._of.get(model)
        if times_s is None:
            times_s = self._of[model] = deque(maxlen=_BEGINNINGS)
            if len(self._of) > _MODELS:
                self._of.popitem(last=False)
        times_s.append(seconds)

    def needed_s(self, model: str) -> float:
        """The seconds that 99 of 100 streams needed; 0 before there was any."""
        times_s = sorted(self._of.get(model, ()))
        return times_s[math.ceil(_QUANTILE * len(times_s)) - 1] if times_s else 0.0


def _beside_s(request: EngineRequest, lately: FirstDataTimes | None) -> float:
    """How long a stream may be silent before another engine is asked: half of the client's own time, if it told, is left
    to that one."""
    name = model_of(request)
    asked_for = request.as_asked.model if request.as_asked is not None else ""
    asks = request.chat is not None and asks_for_reasoning(request.chat)
    reasons = asks or known_to_reason(name) or known_to_reason(asked_for)
    needed_s = _TIMES_NEEDED * lately.needed_s(name) if lately is not None else 0.0
    limit_s = max(_REASONING_BESIDE_S if reasons else _FIRST_DATA_BESIDE_S, needed_s)
    if request.client_timeout_s is None:
        return limit_s
    return min(limit_s, max(_LEAST_S, request.client_timeout_s / 2))


def model_of(request: EngineRequest) -> str:
    """The model that an engine is asked for."""
    return request.chat.model if request.chat is not None else request.model


@lru_cache(maxsize=1024)
def known_to_reason(model: str) -> bool:
    """Tells whether models of this name are known to reason before they answer."""
    return _KNOWN_TO_REASON.search(model) is not None


def asks_for_reasoning(chat: ChatRequest) -> bool:
    """Tells whether the request asks its model to reason before it answers."""
    fields = chat.fields
    effort, reasoning = fields.get("reasoning_effort"), fields.get("reasoning")
    if isinstance(reasoning, dict):
        effort = effort or reasoning.get("effort") or (reasoning.get("enabled") is not False and "asked")
    if isinstance(config := chat.own_fields.get("output_config"), dict):
        effort = effort or config.get("effort")
    thinking, template = fields.get("thinking"), fields.get("chat_template_kwargs")
    return (
        bool(fields.get("enable_thinking") or fields.get("thinking_budget"))
        or (bool(effort) and effort != "none")
        or (isinstance(thinking, dict) and thinking.get("type") != "disabled")
        or (isinstance(template, dict) and bool(template.get("enable_thinking") or template.get("thinking")))
    )
