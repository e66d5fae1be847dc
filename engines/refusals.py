"""An error answer is read: what kind of failure it is, and whether it is the engine's or the client's own.

Many APIs refuse the gateway's key, account, region or model with the status of a wrong request. What such refusals say is a
table of codes and wordings. What the client's request is refused for stays the client's, even if it is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from engines.error_texts import Said, error_texts
from engines.errors import Kind

_REFUSALS = frozenset({401, 402, 403, 404, 410, 413, 421, 425})
_LASTING = frozenset({401, 402, 404, 410, 421})
WORDED = frozenset({400, 401, 403, 404, 412, 421, 422})
"""Statuses whose words decide. 412: Fireworks, of a suspended account."""
_ABOUT_CREDIT = (b"insufficient_quota", b"insufficient_balance", b"billing_hard_limit", b"credit balance")
"""Said with a 429, which tells of an ordinary rate limit in otherwise the same words."""


class Refusal(NamedTuple):
    """How an engine fails with an error answer."""

    kind: Kind
    lasts: bool = False
    """Whether nothing about a request would change it: then as many in a row as failures open the breaker."""


_QUOTA, _REFUSED, _THIS_ONE = (
    Refusal(Kind.QUOTA, lasts=True),
    Refusal(Kind.REFUSED, lasts=True),
    Refusal(Kind.REFUSED),
)

_CODES: Sequence[tuple[Refusal, frozenset[str]]] = (
    (
        _QUOTA,
        frozenset(
            {
                *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"),  # OpenAI
                *("billing_error", "billing_disabled"),  # Anthropic; Google
                *(
                    "insufficient_balance",
                    "insufficient_user_quota",
                    "insufficient_credits",
                ),  # DeepSeek, New API
                *("arrearage", "accountoverdueerror", "budget_exceeded"),  # DashScope, Ark, LiteLLM
            }
        ),
    ),
    (
        _REFUSED,
        frozenset(
            {
                *("invalid_api_key", "incorrect_api_key", "wrong_api_key", "authentication_error"),
                *("invalid_authentication_error", "authenticationerror", "unauthenticated", "unauthorized"),
                *(
                    "account_deactivated",
                    "invalid_organization",
                    "unsupported_country_region_territory",
                ),  # OpenAI
                *(
                    "api_key_invalid",
                    "api_key_expired",
                    "api_key_service_blocked",
                    "service_disabled",
                ),  # Google
                *("consumer_suspended", "consumer_invalid"),
                *("organization_restricted", "model_terms_required", "model_decommissioned"),  # Groq
                *("model_permission_blocked_org", "model_permission_blocked_project"),
                *("model_not_found", "model_not_available", "model_not_supported", "invalid_model"),
                *("unknown_model", "unavailable_model", "model_not_exist", "modelnotfound", "modelnotopen"),
                *("deploymentnotfound", "subscriptiondisabled", "modeldeprecated"),  # Azure
                *("unrecognizedclientexception", "expiredtokenexception", "invalidsignatureexception"),  # AWS
            }
        ),
    ),
    (_THIS_ONE, frozenset({"operationnotsupported", "operation_not_supported", "unsupported_operation"})),
)
"""Values of an error's members, whole. Of AWS they stand behind a `#`."""
_CODE_MEMBERS = frozenset({"code", "type", "__type", "status", "reason", "error_type", "error_code", "error"})

_WORDINGS: Sequence[tuple[Refusal, re.Pattern[str]]] = tuple(
    (refusal, re.compile(wording, re.IGNORECASE | re.DOTALL))
    for refusal, wording in (
        (
            _QUOTA,
            r"credit balance is too low|billing hard limit"  # Anthropic, OpenAI
            r"|(?:reached|exceeded|hit) (?:your|its|the|their) (?:\w+ ){0,3}(?:usage|spend\w*|credit|budget|billing) limit"
            r"|insufficient (?:account )?(?:balance|credit|fund|quota)|balance is (?:insufficient|not enough)"  # DeepSeek
            r"|(?:any|no)(?: \w+)? credits (?:yet|left|remaining)|all available credits"  # xAI
            r"|(?:out of|not enough|depleted your \w+) credits?\b|exceeded your \w+ included credits"  # Hugging Face
            r"|credits? (?:limit exceeded|are depleted|have expired|expired)"  # Together, Gemini, NVIDIA
            r"|\bkey limit exceeded"  # OpenRouter
            r"|budget has been exceeded|exceeded ?budget"  # LiteLLM
            r"|account is in good standing|in arrears|account \S{0,60} ?(?:is )?overdue"  # DashScope, Ark
            r"|(?:enable|check your) billing|billing (?:is|has been) (?:disabled|not)|billing to be enabled"  # Google
            r"|余额不足|欠费",  # Zhipu, DashScope
        ),
        (
            _REFUSED,
            r"\bapi[ _-]?key (?:is |was )?(?:not valid|invalid|expired|disabled|revoked|reported as leaked)"  # Gemini
            r"|(?:invalid|incorrect|expired|wrong|unknown) (?:x-)?(?:api|subscription)[ _-]?key"  # Anthropic, xAI, Azure
            r"|authentication fail|invalid (?:authentication|credential|bearer token|access token)"  # DeepSeek, Moonshot
            r"|credential is only authorized|authorization header is badly"  # Anthropic, Copilot
            r"|security token included in the request is|\bnot authorized to (?:perform|invoke|use|access)"  # AWS
            r"|account is not authorized"
            r"|\b(?:organi[sz]ation|account|project|team|subscription|api key)\b(?: \S{1,60})?"
            r" (?:has been|is|was) (?:currently )?"
            r"(?:disabled|suspended|deactivated|restricted|blocked|terminated|deleted|banned|not active|inactive)"
            r"|organi[sz]ation must be verified"  # OpenAI
            r"|has not been used in project\b.{0,60}\bor it is disabled"  # Google
            r"|\A\s*operation not allowed\b"  # Bedrock
            r"|virtual network/firewall",  # Azure
        ),
        (
            _REFUSED,
            r"(?:location|country|region|territory)(?:, region,? or territory)? (?:is )?not supported"  # Gemini, OpenAI
            r"|\bnot (?:available|supported|allowed|accessible) (?:in|from) (?:your|this|unsupported)"
            r" (?:\w+ )?(?:country|countries|region|location|territory)\b(?!')"  # Gemini, Bedrock
            r"|unsupported (?:country|region|location)",
        ),
        (
            _REFUSED,
            # The name is quoted, which is not read, or one word.
            r"\bmodel(?:s/|\b)(?: (?:name|id|identifier|version|access))*:?\s*\S{0,100}\s*"
            r"(?:does not exist|not exist|(?:is |was )?not found|could not be found|is not available|is unavailable"
            r"|has been (?:deprecated|decommissioned|retired|removed|shut down)|is (?:deprecated|decommissioned)"
            r"|(?:is )?not (?:currently )?(?:loaded|deployed|enabled)"
            r"|is not supported(?: by any| for (?:your|this) account|\.?\s*\Z)"
            r"|access is denied)"  # OpenAI, vLLM, DeepSeek, Bedrock, Copilot
            r"|\bmodel (?:name|id|identifier) (?:\S{1,100} )?is (?:invalid|unknown)"  # Bedrock
            r"|(?:invalid|unknown|nonexistent|unrecognized) model\b(?! (?:output|input|param))"  # Mistral, GitHub
            r"|is not a valid model\b"  # OpenRouter
            r"|(?:do(?:es)?n.t|do not|does not|no) have (?:\w+ )?access to (?:the |this )?(?:requested |specified )?model"
            r"|does not have access to model|unable to access (?:non-serverless )?model"  # OpenAI, Bedrock; Together
            r"|on-demand throughput isn.t supported"  # Bedrock
            r"|no models? (?:is |are )?loaded"  # LM Studio
            r"|no (?:endpoints found|allowed providers|deployments available)"  # OpenRouter, LiteLLM
            r"|\bdeployment (?:for this resource )?(?:\S{1,60} )?(?:does not exist|not found)",  # Azure
        ),
        (
            _THIS_ONE,
            r"\boperation (?:\S+ )?(?:does not work|is not supported|is unsupported|not supported)"  # Azure
            r"|this action doesn.t support the model"  # Bedrock
            r"|does not support (?:the )?(?:chat|completions?|chat completions?|embeddings?|generate\w*|responses|messages)"
            r"(?: api| endpoint| operation)?\.?\s*\Z",  # Ollama
        ),
    )
)
_QUOTED = re.compile(r"(?<!\w)(?:(['\"`]).*?(?:\1(?!\w)|\Z)|‘.*?’|“.*?”)", re.DOTALL)
"""Somebody else's words: the request's, or a name."""

_ABOUT_CONTENT = re.compile(
    r"content_filter|content_policy|content management policy|moderation|safety|flagged|responsibleai|content filter",
    re.IGNORECASE,
)
_ABOUT_REQUEST = re.compile(
    r"\A\W*(?:invalid|unsupported|unknown|unrecognized)"
    r" (?:value|type|content|input|messages?|prompt|param\w*|json|image|file|url)\b"
    r"|\A\W*(?:failed|unable|error|could not|cannot) (?:to )?(?:while )?(?:download|fetch|load|process|decod|pars|read)"
    r"|invalid_image|image_url",
    re.IGNORECASE,
)
_PART_OF_REQUEST = re.compile(
    r"\A\W*(?:messages?|inputs?|prompt|contents?|instructions|system|tools?|text|user|metadata|functions?)\b"
)


def refusal_of(status: int, body: bytes, *, holds_key: bool, says_when: bool = False) -> Refusal | None:
    """How the engine fails with an answer of this status; None if it does not, or if the client's request is at fault.

    `body`: the first of it. `holds_key`: the gateway's own key was sent, so that its refusal is the gateway's problem.
    `says_when`: it came with a Retry-After.
    """
    if status == 429:
        return _QUOTA if any(sign in body for sign in _ABOUT_CREDIT) else Refusal(Kind.LIMITED)
    if status >= 500:
        return Refusal(Kind.LIMITED if says_when and status in (503, 529) else Kind.SERVER)
    if not holds_key or status not in _REFUSALS | WORDED:
        return None
    return _QUOTA if status == 402 else _of_key(status, body)


def _of_key(status: int, body: bytes) -> Refusal | None:
    """The refusal of the gateway's own key, or of what it may ask; None if the client's request is at fault."""
    by_status = Refusal(Kind.REFUSED, status in _LASTING) if status in _REFUSALS else None
    if status not in WORDED:
        return by_status
    said = error_texts(body)
    about_content = status == 403 and _is_about_content(said)
    return _coded(said) or _worded(said) or (None if about_content else by_status)


def _coded(said: Sequence[Said]) -> Refusal | None:
    codes = {one.text.rpartition("#")[2].lower() for one in said if one.name in _CODE_MEMBERS}
    return next((refusal for refusal, known in _CODES if known & codes), None)


def _worded(said: Sequence[Said]) -> Refusal | None:
    if _is_about_content(said) or any(_is_about_request(one) for one in said):
        return None
    texts = [_QUOTED.sub(" ", one.text) for one in said if one.name != "param"]
    return next((refusal for refusal, wording in _WORDINGS if any(map(wording.search, texts))), None)


def _is_about_content(said: Sequence[Said]) -> bool:
    return any(_ABOUT_CONTENT.search(_QUOTED.sub(" ", one.text)) for one in said)


def _is_about_request(one: Said) -> bool:
    return (_PART_OF_REQUEST if one.name == "param" else _ABOUT_REQUEST).search(one.text) is not None
