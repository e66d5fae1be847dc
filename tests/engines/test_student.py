"""A student's answer is a chat completion such as a model gives, in every form that a client can ask for."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from multidict import CIMultiDict
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from engines.chat import ChatRequest
from engines.engine import EngineRequest
from engines.errors import Unavailable
from engines.prediction import Prediction
from engines.sse import events
from engines.student import StudentEngine
from tests.answers import from_events, from_json

JSON = Prediction(
    version=3,
    labels=("refund", "order", "other"),
    log_probabilities=(math.log(0.25), math.log(0.7), math.log(0.05)),
    top=1,
    answer='{"intent": "order"}',
)
PLAIN = Prediction(3, ("Refund", "Order"), (math.log(0.9), math.log(0.1)), 0, "Refund")


def chat(**fields: Any) -> ChatRequest:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "where is my parcel"}], **fields}
    return ChatRequest(
        json.dumps(body).encode(),
        body,
        "gpt-4o",
        body["messages"],
        stream=bool(fields.get("stream")),
        include_usage=bool((fields.get("stream_options") or {}).get("include_usage")),
    )


async def asked(request: ChatRequest, prediction: Prediction | None = JSON) -> tuple[Any, bytes]:
    sent = EngineRequest(
        "POST", "/chat/completions", CIMultiDict(), request.body, request, prediction=prediction
    )
    async with StudentEngine().stream(sent) as reply:
        return reply, b"".join([chunk async for chunk in reply.chunks])


async def test_a_plain_answer_is_a_completion_under_the_name_that_was_asked_for() -> None:
    reply, body = await asked(chat())
    answer = ChatCompletion.model_validate_json(body, strict=True)
    assert answer.model == "gpt-4o" and answer.id.startswith("chatcmpl-")
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason, choice.logprobs) == (
        '{"intent": "order"}',
        "stop",
        None,
    )
    assert reply.headers["x-understudy-confidence"] == "0.700"


async def test_its_usage_is_never_taken_for_what_a_model_counted() -> None:
    _, body = await asked(chat())
    found = from_json(body)
    assert found is not None and (usage := found.usage()) is not None
    assert usage.estimated and usage.prompt_tokens > 0 and usage.completion_tokens > 0


async def test_a_stream_has_a_role_the_text_an_end_and_usage_only_for_those_who_asked() -> None:
    reply, body = await asked(chat(stream=True))
    data = list(events(body))
    assert reply.streams_events and data[-1] == b"[DONE]"
    chunks = [ChatCompletionChunk.model_validate_json(each) for each in data[:-1]]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == '{"intent": "order"}'
    assert [c.choices[0].finish_reason for c in chunks][-1] == "stop"
    assert all(c.usage is None for c in chunks)

    _, body = await asked(chat(stream=True, stream_options={"include_usage": True}))
    last = ChatCompletionChunk.model_validate_json(list(events(body))[-2])
    assert last.choices == [] and last.usage is not None and last.usage.total_tokens > 0


@pytest.mark.parametrize("prediction", [JSON, PLAIN])
@pytest.mark.parametrize("stream", [False, True])
async def test_log_probabilities_are_of_the_labels_and_their_tokens_are_the_whole_text(
    prediction: Prediction, stream: bool
) -> None:
    _, body = await asked(chat(logprobs=True, top_logprobs=2, stream=stream), prediction)
    found = from_events(body) if stream else from_json(body)
    assert found is not None and found.whole
    answer = ChatCompletion.model_validate(found.completion)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert "".join(token.token for token in logprobs.content) == prediction.answer
    label = next(token for token in logprobs.content if token.token == prediction.label)
    assert math.exp(label.logprob) == pytest.approx(prediction.confidence)
    assert label.top_logprobs[0].token == prediction.label and len(label.top_logprobs) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"modalities": ["text", "audio"]},
        {"stop": ["order"]},
    ],
)
async def test_what_a_label_cannot_answer_is_left_to_the_next_engine(fields: dict[str, Any]) -> None:
    with pytest.raises(Unavailable):
        await asked(chat(**fields))


async def test_without_a_prediction_the_next_engine_answers() -> None:
    with pytest.raises(Unavailable):
        await asked(chat(), None)
