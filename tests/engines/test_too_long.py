"""Refusals that say a request is too long, as APIs word them, and refusals that say something else."""

from __future__ import annotations

import json

import pytest

from engines.chat import ChatRequest
from engines.too_long import says_too_long, surely_too_long


def openai(message: str, code: str | None = None, kind: str = "invalid_request_error") -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


TOO_LONG = {
    "openai": (
        400,
        openai(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
            "context_length_exceeded",
        ),
    ),
    "openai's responses": (400, openai("Your input exceeds the context window of this model.")),
    "string too long": (
        400,
        openai(
            "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a "
            "string with length 1100000 instead.",
            "string_above_max_length",
        ),
    ),
    "vllm": (
        400,
        b'{"object":"error","message":"This model\'s maximum context length is 4096 tokens. However, you requested 5000 '
        b'tokens in the messages, Please reduce the length of the messages.","type":"BadRequestError","code":400}',
    ),
    "vllm, prompt": (
        400,
        openai(
            "The decoder prompt (length 12003) is longer than the maximum model length of 8192. Make sure that "
            "`max_model_len` is no smaller than the number of text tokens."
        ),
    ),
    "mistral": (
        400,
        b'{"object":"error","message":"Prompt contains 40005 tokens and 0 draft tokens, too large for model with 32768 '
        b'maximum context length","type":"invalid_request_prompt","code":"3051"}',
    ),
    "groq": (
        400,
        openai("Please reduce the length of the messages or completion.", "context_length_exceeded"),
    ),
    "groq, 413": (
        413,
        openai(
            "Request too large for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit 6000, Requested 9001, "
            "please reduce your message size and try again.",
            "rate_limit_exceeded",
            "tokens",
        ),
    ),
    "fireworks": (400, openai("The prompt is too long: 140001, model maximum context length: 131071")),
    "cohere": (
        400,
        b'{"message":"too many tokens: total number of tokens in the prompt exceeds the limit of 4081."}',
    ),
    "anthropic": (
        400,
        b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210007 tokens > 200000 '
        b'maximum"}}',
    ),
    "anthropic, both": (
        400,
        b'{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context '
        b'limit: 199211 + 20000 > 200000"}}',
    ),
    "gemini": (
        400,
        b'[{"error":{"code":400,"message":"The input token count (1200001) exceeds the maximum number of tokens allowed '
        b'(1048576).","status":"INVALID_ARGUMENT"}}]',
    ),
    "llama.cpp": (
        400,
        b'{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it",'
        b'"type":"exceed_context_size_error","n_prompt_tokens":9001,"n_ctx":4096}}',
    ),
    "tgi": (
        422,
        b'{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` '
        b'tokens and 100 `max_new_tokens`","error_type":"validation"}',
    ),
    "together": (
        400,
        openai("Input validation error: `inputs` must have less than 8192 tokens. Given: 9001"),
    ),
    "bedrock": (400, b'{"message":"Input is too long for requested model."}'),
    "xai": (
        400,
        b'{"code":"Client specified an invalid argument","error":"This model\'s maximum prompt length is 131072 but the '
        b'request contains 137001 tokens."}',
    ),
    "sglang": (
        400,
        b'{"object":"error","message":"The input (12003 tokens) is longer than the model\'s context length (8192 tokens).",'
        b'"type":"BadRequestError","code":400}',
    ),
    "moonshot": (400, openai("Invalid request: Your request exceeded model token limit: 8192")),
    "openrouter": (
        400,
        json.dumps(
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 400,
                    "metadata": {"raw": '{"error":{"message":"prompt is too long: 210007 tokens"}}'},
                }
            }
        ).encode(),
    ),
    "plain text": (400, b"prompt is too long: 9001 tokens > 8192 maximum"),
}

NOT_TOO_LONG = {
    "filtered": (400, openai("The response was filtered.", "content_filter")),
    "one answer too long": (
        400,
        openai("max_tokens is too large: 100000. This model supports at most 16384 completion tokens."),
    ),
    "another string too long": (
        400,
        openai(
            "Invalid 'user': string too long. Expected a string with maximum length 64, but got one with length 90.",
            "string_above_max_length",
        ),
    ),
    "too many tools": (
        400,
        openai("Invalid 'tools': array too long. Expected an array with maximum length 128."),
    ),
    "parameter": (400, openai("Unsupported parameter: 'reasoning_effort' is not supported with this model.")),
    "value": (400, openai("Unsupported value: 'temperature' does not support 0.2 with this model.")),
    "role": (400, openai("Invalid value: 'tol'. Supported values are: 'system', 'assistant', 'user'.")),
    "order": (400, openai("messages with role 'tool' must be a response to a preceding message.")),
    "empty": (400, openai("Invalid 'messages': empty array. Expected an array with minimum length 1.")),
    "picture": (400, openai("The image is too large: 25 MB is more than 20 MB.")),
    "model": (400, openai("The model `gpt-5` does not exist.", "model_not_found")),
    "validation": (422, b'{"detail":[{"loc":["body","messages"],"msg":"field required","type":"missing"}]}'),
    "a quoted request": (
        400,
        openai("1 validation error: " + "x" * 700 + " 'input': 'Why is my prompt is too long?'"),
    ),
    "not JSON": (413, b"<html><h1>413 Request Entity Too Large</h1></html>"),
    "another status": (429, openai("Please reduce the length of the messages.")),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_every_wording_is_known(name: str) -> None:
    assert says_too_long(*TOO_LONG[name])


@pytest.mark.parametrize("name", NOT_TOO_LONG)
def test_another_refusal_is_not_taken_for_it(name: str) -> None:
    assert not says_too_long(*NOT_TOO_LONG[name])


def chat(content: object) -> ChatRequest:
    messages = [{"role": "user", "content": content}]
    body = json.dumps({"messages": messages}).encode()
    return ChatRequest(body, {"messages": messages}, "m", messages, stream=False, include_usage=False)


def test_a_window_under_two_thirds_of_the_estimate_is_surely_too_small() -> None:
    long = chat("word" * 1500)
    assert surely_too_long(long, 999) and not surely_too_long(long, 1001) and not surely_too_long(long, None)


def test_a_picture_does_not_make_a_request_long() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    assert not surely_too_long(chat([{"type": "text", "text": "What is this?"}, picture]), 1000)
