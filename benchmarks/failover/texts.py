"""What the engines say, and how APIs word their refusals."""

from __future__ import annotations

import json

ANSWER = (
    "A gateway earns the trust of its users on the day when the provider behind it fails, because anybody can pass "
    "on a good answer, while only careful software notices silence, errors and broken streams, asks somebody else in "
    "time, never sends half a sentence as though it were whole, and says afterwards who answered and why it had to."
)
"""What healthy engines say, sixty words."""

REWORDED = (
    "Trust in a proxy grows when upstream servers break: whoever forwards only what works proves nothing at all, but "
    "a proxy that sees timeouts, failures and truncated output, turns to a second server quickly, and tells plainly "
    "what happened, deserves it."
)
"""The same, said otherwise."""


def refusal(message: str, code: str | None = None, kind: str = "invalid_request_error") -> bytes:
    """An error's body in OpenAI's shape."""
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


def flat(message: str) -> bytes:
    """An error's body in vLLM's and SGLang's shape."""
    return json.dumps(
        {"object": "error", "message": message, "type": "BadRequestError", "code": 400}
    ).encode()


TOO_LONG: dict[str, tuple[int, bytes]] = {
    "openai": (
        400,
        refusal(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9631 tokens. "
            "Please reduce the length of the messages.",
            "context_length_exceeded",
        ),
    ),
    "vllm": (
        400,
        flat("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."),
    ),
    "vllm-decoder": (
        400,
        flat("The decoder prompt (length 12003) is longer than the maximum model length of 8192."),
    ),
    "mistral": (
        400,
        flat("Prompt contains 40005 tokens, too large for model with 32768 maximum context length"),
    ),
    "groq": (
        400,
        refusal("Please reduce the length of the messages or completion.", "context_length_exceeded"),
    ),
    "fireworks": (400, refusal("The prompt is too long: 140001, model maximum context length: 131071")),
    "cohere": (
        400,
        b'{"message":"too many tokens: total number of tokens in the prompt exceeds the limit of 4081"}',
    ),
    "anthropic": (
        400,
        b'{"type":"error","error":{"type":"invalid_request_error",'
        b'"message":"prompt is too long: 210007 tokens > 200000 maximum"}}',
    ),
    "anthropic-both": (
        400,
        b'{"type":"error","error":{"type":"invalid_request_error",'
        b'"message":"input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000"}}',
    ),
    "gemini": (
        400,
        refusal("The input token count (1200001) exceeds the maximum number of tokens allowed (1048575)."),
    ),
    "llama-cpp": (
        400,
        refusal(
            "the request exceeds the available context size, try increasing it",
            kind="exceed_context_size_error",
        ),
    ),
    "tgi": (
        422,
        b'{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 '
        b'`inputs` tokens and 100 `max_new_tokens`","error_type":"validation"}',
    ),
    "together": (
        400,
        refusal("Input validation error: `inputs` must have less than 8192 tokens. Given: 9001"),
    ),
    "bedrock": (400, b'{"message":"Input is too long for requested model."}'),
    "xai": (
        400,
        b'{"code":"Client specified an invalid argument","error":"This model\'s maximum prompt length is 131072 '
        b'but the request contains 137001 tokens."}',
    ),
    "sglang": (
        400,
        flat("The input (12003 tokens) is longer than the model's context length (8192 tokens)."),
    ),
    "groq-413": (
        413,
        refusal(
            "Request too large for model `llama-3.1-8b-instant` on tokens per minute (TPM): Limit 6000, Requested "
            "9001, please reduce your message size and try again.",
            "rate_limit_exceeded",
            "tokens",
        ),
    ),
    "string": (
        400,
        refusal(
            "Invalid 'messages[0].content': string too long. Expected a string with maximum length 1048576, but got "
            "a string with length 1100000 instead.",
            "string_above_max_length",
        ),
    ),
    "nothing": (400, refusal("Bad request.")),
}
"""Nineteen refusals of a request that is too long: status and body. The last does not say so: nobody can know."""

OTHERWISE_WRONG: dict[str, tuple[int, bytes]] = {
    "filter": (
        400,
        refusal("The response was filtered by the content policy.", "content_policy_violation"),
    ),
    "max-tokens": (400, refusal("max_tokens is too large: 100000. This model supports at most 16384.")),
    "parameter": (
        400,
        refusal("Unsupported parameter: 'reasoning_effort' is not supported with this model."),
    ),
    "temperature": (400, refusal("Unsupported value: 'temperature' does not support 0.2 with this model.")),
    "role": (400, refusal("Invalid value: 'tol'. Supported values are: 'system', 'assistant', 'user'.")),
    "tool-order": (400, refusal("messages with role 'tool' must be a response to a preceding message.")),
    "empty": (400, refusal("Invalid 'messages': empty array. Expected an array with minimum length 1.")),
    "picture": (400, refusal("The image is too large: 25 MB is more than 20 MB.")),
    "schema": (400, refusal("Invalid schema for response_format 'x': 'type' is required.")),
    "tools": (400, refusal("Invalid 'tools': array too long. Expected an array with maximum length 128.")),
    "user": (
        400,
        refusal(
            "Invalid 'user': string too long. Expected a string with maximum length 64.",
            "string_above_max_length",
        ),
    ),
    "missing": (422, b'{"detail":[{"loc":["body","messages"],"msg":"field required","type":"missing"}]}'),
}
"""Twelve refusals of requests that would be wrong anywhere."""
