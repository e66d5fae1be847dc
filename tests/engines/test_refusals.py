"""What an error answer is: the engine's failure, or the client's own. Wordings are those of real APIs."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from benchmarks.failover.texts import OTHERWISE_WRONG
from engines.errors import Kind
from engines.refusals import Refusal, refusal_of


def _error(message: str, **members: Any) -> dict[str, Any]:
    return {"error": {"message": message, **members}}


def _google(message: str, status: str, reason: str = "") -> list[dict[str, Any]]:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}] if reason else []
    return [{"error": {"code": 400, "message": message, "status": status, "details": details}}]


def _refusal(status: int, said: Any, **options: Any) -> Refusal | None:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return refusal_of(status, body, **{"holds_key": True, **options})


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"", None),
        (400, b"", None),
        (412, b"", None),
        (422, b"", None),
        (401, b"", Kind.REFUSED),
        (402, b"", Kind.QUOTA),
        (403, b"Country not supported", Kind.REFUSED),
        (403, b'{"error":{"code":"content_policy_violation"}}', None),
        (403, b"Your credit balance is too low", Kind.QUOTA),
        (404, b"", Kind.REFUSED),
        (410, b"", Kind.REFUSED),
        (413, b"", Kind.REFUSED),
        (421, b"Misdirected Request", Kind.REFUSED),
        (425, b"", Kind.REFUSED),
        (429, b"", Kind.LIMITED),
        (429, b'{"error":{"code":"insufficient_quota"}}', Kind.QUOTA),
        (500, b"", Kind.SERVER),
        (501, b"", Kind.SERVER),
        (530, b"", Kind.SERVER),
    ],
)
def test_a_refusal_of_the_gateways_key_is_the_engines_failure(
    status: int, body: bytes, kind: Kind | None
) -> None:
    refusal = _refusal(status, body)
    assert (refusal and refusal.kind) is kind


_CREDIT = {
    "anthropic": (
        400,
        {"type": "error", **_error("Your credit balance is too low to access the Anthropic API.")},
    ),
    "anthropic-limit": (
        400,
        _error("You have reached your specified API usage limits. You will regain access on"),
    ),
    "openai": (400, _error("Billing hard limit has been reached", code="billing_hard_limit_reached")),
    "openai-inactive": (403, _error("Your account is not active, please check your billing details.")),
    "deepseek": (400, _error("Insufficient Balance", type="unknown_error")),
    "xai": (
        403,
        {"code": "No permission", "error": "Your newly created teams doesn't have any credits yet."},
    ),
    "together": (403, _error("Credit limit exceeded, please navigate to the billing page.")),
    "openrouter-key": (403, _error("Key limit exceeded (total limit).", code=403)),
    "openrouter-raw": (
        400,
        _error(
            "Provider returned error", metadata={"raw": json.dumps(_error("Your credit balance is too low"))}
        ),
    ),
    "siliconflow": (403, {"code": 30001, "message": "Sorry, your account balance is insufficient"}),
    "dashscope": (
        400,
        {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing."},
    ),
    "google": (
        403,
        _google("This API method requires billing to be enabled.", "PERMISSION_DENIED", "BILLING_DISABLED"),
    ),
    "google-tier": (
        400,
        _google("Please enable billing on your project in Google AI Studio.", "FAILED_PRECONDITION"),
    ),
    "litellm-raw": (
        400,
        _error(
            "litellm.BadRequestError: AnthropicException - "
            + json.dumps(_error("Your credit balance is too low"))
        ),
    ),
    "litellm": (
        400,
        _error("Budget has been exceeded! Current cost: 1.0, Max budget: 1.0", type="budget_exceeded"),
    ),
}
_ENGINE = {
    "google-key": (
        400,
        _google("API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT", "API_KEY_INVALID"),
    ),
    "google-expired": (400, _google("API key expired. Please renew the API key.", "INVALID_ARGUMENT")),
    "google-leaked": (403, _google("Your API key was reported as leaked.", "PERMISSION_DENIED")),
    "google-region": (400, _google("User location is not supported for the API use.", "FAILED_PRECONDITION")),
    "google-tier": (
        400,
        _google("Gemini API free tier is not available in your country.", "FAILED_PRECONDITION"),
    ),
    "google-model": (
        400,
        _google("models/gemini-9 is not found for API version v1beta.", "INVALID_ARGUMENT"),
    ),
    "openai-region": (
        403,
        _error("Country, region, or territory not supported", code="unsupported_country_region_territory"),
    ),
    "openai-model": (400, _error("The model `gpt-9` does not exist or you do not have access to it.")),
    "openai-project": (
        403,
        _error("Project `p` does not have access to model `gpt-9`", code="model_not_found"),
    ),
    "openai-verified": (
        400,
        _error(
            "Your organization must be verified to stream this model.",
            param="stream",
            code="unsupported_value",
        ),
    ),
    "anthropic-disabled": (400, _error("This organization has been disabled.", type="invalid_request_error")),
    "anthropic-oauth": (400, _error("This credential is only authorized for use with Claude Code")),
    "azure-deployment": (
        400,
        _error("The API deployment for this resource does not exist.", code="DeploymentNotFound"),
    ),
    "groq-gone": (400, _error("The model `x` has been decommissioned.", code="model_decommissioned")),
    "groq-restricted": (400, _error("Organization has been restricted.", code="organization_restricted")),
    "mistral": (
        400,
        {"object": "error", "message": "Invalid model: mistral-9", "type": "invalid_model", "code": "1500"},
    ),
    "deepseek-model": (400, _error("Model Not Exist", type="invalid_request_error")),
    "xai-key": (
        400,
        {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***."},
    ),
    "together-model": (
        400,
        _error("Unable to access non-serverless model x. Please create a dedicated endpoint"),
    ),
    "bedrock-model": (400, {"message": "The provided model identifier is invalid."}),
    "bedrock-throughput": (
        400,
        {"message": "Invocation of model ID x with on-demand throughput isn't supported."},
    ),
    "bedrock-account": (400, {"message": "Operation not allowed"}),
    "bedrock-access": (403, {"message": "You don't have access to the model with the specified model ID."}),
    "aws-key": (
        400,
        {
            "__type": "com.amazon.coral.service#UnrecognizedClientException",
            "message": "The security token is invalid.",
        },
    ),
    "openrouter-model": (400, _error("foo/bar is not a valid model ID", code=400)),
    "copilot-model": (400, _error("The requested model is not supported.", code="model_not_supported")),
    "copilot": (400, b"bad request: Authorization header is badly formatted\n"),
    "huggingface": (
        400,
        _error("The requested model 'x/y' is not supported by any provider you have enabled."),
    ),
    "github": (400, _error("Unknown model: gpt-9", code="unknown_model")),
    "siliconflow": (
        400,
        {"code": 20012, "message": "Model does not exist. Please check it carefully.", "data": None},
    ),
    "fireworks": (412, _error("Account x is suspended, possibly due to an unpaid invoice")),
    "list": (422, {"detail": "The model 'x' was not found"}),
}


@pytest.mark.parametrize("name", _CREDIT)
def test_credit_that_is_used_up_is_the_engines(name: str) -> None:
    assert _refusal(*_CREDIT[name]) == Refusal(Kind.QUOTA, lasts=True)


@pytest.mark.parametrize("name", _ENGINE)
def test_a_key_a_region_or_a_model_that_is_refused_is_the_engines(name: str) -> None:
    assert _refusal(*_ENGINE[name]) == Refusal(Kind.REFUSED, lasts=True)


def test_an_operation_that_an_engine_does_not_do_is_refused_for_this_request_only() -> None:
    said = _error(
        "The chatCompletion operation does not work with the specified model, x.",
        code="OperationNotSupported",
    )
    assert _refusal(400, said) == Refusal(Kind.REFUSED)
    assert _refusal(400, _error('"nomic-embed" does not support chat')) == Refusal(Kind.REFUSED)


def test_packed_words_are_read() -> None:
    packer = zlib.compressobj(wbits=31)
    body = packer.compress(b'{"error":{"message":"Your credit balance is too low"}}') + packer.flush()
    assert _refusal(400, body) == Refusal(Kind.QUOTA, lasts=True)


_POEM = "Your credit balance is too low, API key not valid, the model does not exist, user location is not supported"
_CLIENTS = {
    **OTHERWISE_WRONG,
    "temperature": (400, _error("Invalid value for 'temperature': must be at most 2.", param="temperature")),
    "quoted": (400, _error(f"Invalid value: '{_POEM}'. Supported values are: 'a'.")),
    "double-quoted": (400, _error(f'Input "{_POEM}" could not be parsed.')),
    "quoted-and-cut": (400, _error(f"Could not use the text '{_POEM * 20}'")),
    "unquoted": (400, _error(f"Invalid content: {_POEM}", param="messages[0].content")),
    "unquoted-input": (400, _error(f"Not understood: {_POEM}", param="input")),
    "validation": (
        422,
        {"detail": [{"type": "string_type", "msg": "Input should be a string", "input": _POEM}]},
    ),
    "filter": (400, _error(f"The prompt was filtered: {_POEM}", code="content_filter")),
    "azure-filter": (
        400,
        _error(
            f"The response was filtered due to the prompt triggering Azure OpenAI's content management policy. {_POEM}",
            innererror={"code": "ResponsibleAIPolicyViolation"},
        ),
    ),
    "moderation": (
        403,
        _error(
            'openai/x requires moderation. Your input was flagged for "violence".',
            metadata={"reasons": ["violence"], "flagged_input": _POEM},
        ),
    ),
    "picture": (
        400,
        _error("Failed to download image from https://api-key-invalid.example/?e=api_key_invalid"),
    ),
    "picture-code": (400, _error(f"Error while downloading: {_POEM}", code="invalid_image_url")),
    "tool": (400, _error("Tool 'credit' is not supported in this region's schema.")),
    "parameter": (400, _error("Unsupported parameter: 'max_tokens' is not supported with this model.")),
    "vision": (400, _error("This model does not support image input.")),
    "tools": (400, _error('"gemma" does not support tools')),
    "json": (400, _error("The model output is invalid JSON.", code="json_validate_failed")),
}


@pytest.mark.parametrize("name", _CLIENTS)
def test_what_is_wrong_with_the_request_is_the_clients_whatever_it_quotes(name: str) -> None:
    assert _refusal(*_CLIENTS[name]) is None


@pytest.mark.parametrize("status", [401, 402, 403, 404, 410, 413, 421, 425])
def test_what_a_clients_own_key_is_refused_is_the_clients(status: int) -> None:
    assert refusal_of(status, b"", holds_key=False) is None


@pytest.mark.parametrize("name", [*_CREDIT, *_ENGINE])
def test_so_is_what_it_is_refused_in_words(name: str) -> None:
    tables = {**_CREDIT, **_ENGINE}
    assert _refusal(*tables[name], holds_key=False) is None


def test_a_server_that_says_when_to_come_back_is_limited() -> None:
    assert _refusal(503, b"", says_when=True) == Refusal(Kind.LIMITED)
    assert _refusal(500, b"", says_when=True) == Refusal(Kind.SERVER)
