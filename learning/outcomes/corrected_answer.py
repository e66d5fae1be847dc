"""Gives a corrected answer to the very request that was answered wrong, in place of the wrong one, from every worker."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from store.answers.exact_cache import ExactCache
from store.decisions.details import Details
from store.decisions.texts import RequestTextLog
from store.records import ExactAnswer, Example, RequestRecord

_WRITTEN_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class CorrectedAnswers:
    """Puts corrections among the answers that exact repeats are given."""

    cache: ExactCache
    texts: RequestTextLog
    details: Details
    contributor_of: Callable[[str, RequestRecord], str | None]
    """Whom a tenant's request answered; None if nobody knows."""

    def wrong(self, record: RequestRecord) -> ExactAnswer | None:
        """Return what a repeat of the request is given now. Ask before the correction is stored: with it, this goes."""
        return None if record.exact_key is None else self.cache.get(record.exact_key, time.time())

    def give(self, record: RequestRecord, wrong: ExactAnswer | None, example: Example) -> bool:
        """Have repeats of the request answered with what `example` says, the correction, as it was stored. Blocks.

        `wrong`: see above. False if that cannot be: the request is none that is repeated, its answer was more than one
        text, or the correction is held back. Raises StoreError and TimeoutError.
        """
        if record.exact_key is None or record.api != "chat" or example.served_from_s > time.time():
            return False
        body = self._body(record, example.answer) if wrong is None else _rewritten(wrong.body, example.answer)
        if body is None:
            return False
        estimated = record.usage_estimated if wrong is None else wrong.usage_estimated
        answer = ExactAnswer(
            orjson.dumps(body),
            "application/json",
            record.engine if wrong is None else wrong.engine,
            time.time(),
            estimated,
        )
        return self.cache.correct(
            record.exact_key,
            record.tenant,
            answer,
            request_id=record.id,
            example=example,
            contributor=self.contributor_of(record.tenant, record),
        ).result(_WRITTEN_WITHIN_S)

    def _body(self, record: RequestRecord, said: str) -> dict[str, Any] | None:
        """A whole completion where the wrong one is not at hand. It tells the usage that its request had."""
        texts = self.texts.get(record.tenant, record.id)
        if texts is None or texts.finish_reason not in ("stop", "length"):
            return None
        details = self.details.get(record.tenant, record.id)
        if details is None or details.tools_called or details.parameters.get("n") not in (None, 1):
            return None
        body: dict[str, Any] = {
            "id": details.completion_id or f"chatcmpl-{record.id}",
            "object": "chat.completion",
            "created": int(record.started_at_s),
            "model": record.model,
            "choices": [_choice(said)],
        }
        if not record.usage_estimated:
            asked, answered = record.prompt_tokens, record.completion_tokens
            body["usage"] = {
                "prompt_tokens": asked,
                "completion_tokens": answered,
                "total_tokens": asked + answered,
            }
        return body


def _rewritten(wrong: bytes, said: str) -> dict[str, Any] | None:
    """The same completion with another text; None if it has not exactly one, which says something."""
    try:
        body: dict[str, Any] = orjson.loads(wrong)
    except ValueError:
        return None
    choices = body.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        return None
    message = choices[0].get("message") or {}
    if message.get("tool_calls") or message.get("function_call"):
        return None
    return body | {"choices": [_choice(said)]}


def _choice(said: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": said, "refusal": None}
    return {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
