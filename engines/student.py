"""Answers with what a task's student predicted: a chat completion such as the teacher gives, or its stream of chunks.

The prediction comes with the request; without one, or where a label alone is no answer to it, another engine is to answer.
Refuses to know how a prediction is made, and whether it is good enough.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any

import orjson
from multidict import CIMultiDict

from engines.as_events import EVENTS, as_events
from engines.chat import ChatRequest, estimated_tokens, message_text
from engines.engine import EngineInfo, EngineLoad, EngineReply, EngineRequest, Price
from engines.errors import Declined
from engines.prediction import Prediction

STUDENT = "student"
"""Its name among the engines."""
_LEAST_LOGPROB = -9999.0
_MOST_TOP = 20
_TOKENS_OF_A_MESSAGE = 4
_NEVER_WITH = (
    "tools",
    "functions",
    "audio",
    "prompt_logprobs",
    "return_token_ids",
    "return_tokens_as_token_ids",
)
"""What asks for more than a text."""


def answerable(chat: ChatRequest) -> bool:
    """Whether a label can be the answer: one choice of text, without tools."""
    fields = chat.fields
    if any(fields.get(name) for name in _NEVER_WITH) or fields.get("modalities") not in (None, ["text"]):
        return False
    return fields.get("n") in (None, 1)


class StudentEngine:
    """Costs nothing and knows no load. An answer bears the name of the model that was asked for."""

    def __init__(self) -> None:
        self.info = EngineInfo(STUDENT, price=Price(0.0, 0.0), apis=frozenset({"chat"}))

    def stream(self, request: EngineRequest) -> _Answer:
        """See engines.engine.Engine. Raises Declined where it has nothing to say."""
        return _Answer(request)

    def load(self) -> EngineLoad:
        return EngineLoad()

    async def health(self) -> None:
        """See engines.engine.Engine. It is part of this process."""

    async def aclose(self) -> None:
        """Holds nothing."""


class _Answer:
    def __init__(self, request: EngineRequest) -> None:
        self._request = request

    async def __aenter__(self) -> EngineReply:
        chat, prediction = self._request.chat, self._request.prediction
        if chat is None or prediction is None or not answerable(chat) or _stops(chat, prediction.answer):
            raise Declined("The student has no answer to this request.", engine=STUDENT)
        try:
            body = orjson.dumps(completion(chat, prediction))
        except Exception as error:
            # Whatever is wrong with a prediction, another engine has an answer.
            raise Declined(f"The student's answer cannot be written: {error}", engine=STUDENT) from error
        if chat.stream:
            body = as_events(body, include_usage=chat.include_usage)
        headers = CIMultiDict(
            {
                "Content-Type": EVENTS if chat.stream else "application/json",
                "Content-Length": str(len(body)),
                "x-understudy-confidence": f"{prediction.confidence:.3f}",
            }
        )
        return EngineReply(200, headers, _whole(body), engine=STUDENT)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _stops(chat: ChatRequest, answer: str) -> bool:
    """Whether a model would have stopped before the end of this answer."""
    stop = chat.fields.get("stop")
    return any(
        isinstance(word, str) and word in answer for word in ([stop] if isinstance(stop, str) else stop or ())
    )


def completion(chat: ChatRequest, prediction: Prediction) -> dict[str, Any]:
    """The `chat.completion` object. Its usage is flagged `estimated`: nothing was tokenised."""
    prompt = sum(
        estimated_tokens(message_text(m.get("content"))) + _TOKENS_OF_A_MESSAGE for m in chat.messages
    )
    said = estimated_tokens(prediction.answer)
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": chat.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": prediction.answer, "refusal": None},
                "logprobs": _logprobs(chat, prediction) if chat.fields.get("logprobs") is True else None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": said,
            "total_tokens": prompt + said,
            "estimated": True,
        },
    }


def _logprobs(chat: ChatRequest, prediction: Prediction) -> dict[str, Any]:
    """The label is one token; what stands around it is certain."""
    asked = chat.fields.get("top_logprobs")
    top = min(asked, _MOST_TOP) if isinstance(asked, int) else 0
    before, label, after = _around(prediction)
    ranked = sorted(range(len(prediction.labels)), key=lambda n: -prediction.log_probabilities[n])
    likeliest = [_token(prediction.labels[n], prediction.log_probabilities[n]) for n in ranked[:top]]
    content = [
        *_certain(before, top),
        _token(label, prediction.log_probabilities[prediction.top]) | {"top_logprobs": likeliest},
        *_certain(after, top),
    ]
    return {"content": content, "refusal": None}


def _around(prediction: Prediction) -> Sequence[str]:
    before, label, after = prediction.answer.rpartition(prediction.label)
    # A label that JSON escapes is not found as it is.
    return (before, label, after) if label else ("", prediction.answer, "")


def _certain(text: str, top: int) -> list[dict[str, Any]]:
    return [_token(text, 0.0) | {"top_logprobs": [_token(text, 0.0)] if top else []}] if text else []


def _token(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": max(_LEAST_LOGPROB, logprob), "bytes": list(text.encode())}
