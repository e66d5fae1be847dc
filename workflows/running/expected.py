"""Estimates the tokens that a step holds in an engine: its prompt, and an answer as long as its model's usually are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.chat import CHARACTERS_PER_TOKEN, prompt_tokens
from workflows.graph import Step
from workflows.names import StepId
from workflows.running.live import LiveRun
from workflows.transform import as_text

_UNKNOWN_TOKENS = 256.0
_WEIGHT = 0.1


class ExpectedTokens:
    """Learns from answers how long a model's are. All figures are estimates."""

    def __init__(self) -> None:
        self._answers: dict[str, float] = {}

    def answered(self, model: str, tokens: int) -> None:
        """An answer of this model had so many tokens."""
        known = self._answers.get(model)
        self._answers[model] = tokens if known is None else known + _WEIGHT * (tokens - known)

    def answer(self, chat: Mapping[str, Any]) -> float:
        """Tokens of the answer to this chat body."""
        model = chat.get("model")
        usual = self._answers.get(model, _UNKNOWN_TOKENS) if isinstance(model, str) else _UNKNOWN_TOKENS
        limits = (chat.get("max_completion_tokens"), chat.get("max_tokens"))
        limit = next((n for n in limits if isinstance(n, int) and n > 0), None)
        if limit is None:
            return usual
        return float(min(limit, usual)) if isinstance(model, str) and model in self._answers else float(limit)

    def of_run(self, run: LiveRun) -> dict[StepId, float]:
        """Estimate the tokens of each step that has not ended."""
        ended = run.progress.ended
        return {id: self._of(run, step) for id, step in run.graph.steps.items() if id not in ended}

    def _of(self, run: LiveRun, step: Step) -> float:
        prompt = run.template_tokens.get(step.id)
        if prompt is None:
            prompt = run.template_tokens[step.id] = _template_tokens(step)
        for id in step.reads.values():
            known = run.progress.find(id)
            if known is not None and known.value is not None:
                prompt += len(as_text(known.value)) / CHARACTERS_PER_TOKEN
            elif (producer := run.graph.producer(id)) is not None:
                prompt += self.answer(producer.chat)
        return prompt + self.answer(step.chat)


def _template_tokens(step: Step) -> float:
    given = sum(map(len, step.given.values())) / CHARACTERS_PER_TOKEN
    return prompt_tokens(step.chat.get("messages") or ()) + given
