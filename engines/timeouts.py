"""How long each phase of a request to an engine may last: alone, and with shorter limits where another engine stands by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from engines.chat import ChatRequest
from engines.engine import EngineRequest

_FIRST_DATA_S, _FIRST_DATA_BESIDE_S, _REASONING_BESIDE_S = 600.0, 30.0, 180.0
"""Alone as long as OpenAI's own clients wait; a model that reasons may be silent for minutes before its first word."""
_GAP_S, _GAP_BESIDE_S = 120.0, 30.0
_ANSWER_S, _ANSWER_BESIDE_S = 600.0, 300.0
_LEAST_S = 0.05


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

    def phases(self, request: EngineRequest) -> Phases:
        """The limits of a request. Beside a stand-in none is longer than half the client's own timeout, where it told."""
        beside = request.beside_stand_in
        phases = _phases(
            self,
            beside,
            beside and request.continuable,
            beside and request.chat is not None and asks_for_reasoning(request.chat),
        )
        if not beside or request.client_timeout_s is None:
            return phases
        half_s = max(_LEAST_S, request.client_timeout_s / 2)
        return Phases(*(min(limit_s, half_s) for limit_s in phases))


@lru_cache(maxsize=256)
def _phases(limits: Timeouts, beside: bool, continuable: bool, reasons: bool) -> Phases:
    first_data_s = (_REASONING_BESIDE_S if reasons else _FIRST_DATA_BESIDE_S) if beside else _FIRST_DATA_S
    return Phases(
        limits.connect_s,
        first_data_s if limits.first_data_s is None else limits.first_data_s,
        (_GAP_BESIDE_S if continuable else _GAP_S) if limits.gap_s is None else limits.gap_s,
        (_ANSWER_BESIDE_S if beside else _ANSWER_S) if limits.answer_s is None else limits.answer_s,
    )


def asks_for_reasoning(chat: ChatRequest) -> bool:
    """Whether the request asks its model to reason before it answers."""
    fields = chat.fields
    effort, reasoning = fields.get("reasoning_effort"), fields.get("reasoning")
    if isinstance(reasoning, dict):
        effort = effort or reasoning.get("effort") or (reasoning.get("enabled") is not False and "asked")
    thinking, template = fields.get("thinking"), fields.get("chat_template_kwargs")
    return (
        (bool(effort) and effort != "none")
        or (isinstance(thinking, dict) and thinking.get("type") != "disabled")
        or (isinstance(template, dict) and bool(template.get("enable_thinking") or template.get("thinking")))
    )
