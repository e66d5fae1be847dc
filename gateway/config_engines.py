"""Settings of engines, one class per kind, and what all kinds share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator

from gateway.settings import Settings


class TimeoutSettings(Settings):
    """Limits on an upstream by phase."""

    connect_s: float = Field(10, gt=0, description="To open a connection.")
    first_chunk_s: float = Field(
        600, gt=0, description="From sending the request to the first byte of the answer."
    )
    gap_s: float = Field(120, gt=0, description="Between two chunks of one answer.")
    total_s: float | None = Field(
        None, gt=0, description="For the whole answer; null for no limit but the gap's."
    )


class RetrySettings(Settings):
    """Asking again, before the first chunk only."""

    attempts: int = Field(
        2, ge=1, le=10, description="Tries per engine, the first included; 1 never retries."
    )
    max_wait_s: float = Field(
        5, ge=0, description="Longest wait between tries; a longer Retry-After is not waited for."
    )


class BreakerSettings(Settings):
    """When an engine is left alone for a while."""

    failures: int = Field(5, ge=1, description="Consecutive failures that open the breaker.")
    open_s: float = Field(10, gt=0, description="How long it stays open before one probe is let through.")


class PriceSettings(Settings):
    """What an engine charges."""

    input_usd_per_mtok: float = Field(0, ge=0, description="US dollars per million prompt tokens.")
    output_usd_per_mtok: float = Field(0, ge=0, description="US dollars per million completion tokens.")


class EngineSettings(Settings):
    """What every kind of engine has."""

    model: str | None = Field(None, description="Model name the engine expects; null sends the client's.")
    price: PriceSettings = Field(PriceSettings(), description="For cost reports and routing.")
    context_tokens: int | None = Field(None, ge=1, description="Context window in tokens; null when unknown.")
    max_in_flight: int = Field(256, ge=1, description="Requests asked of it at once; more wait in the queue.")
    max_queued: int = Field(256, ge=0, description="Requests that may wait; more get 503.")
    retries: RetrySettings = Field(RetrySettings(), description="Asking the same engine again.")
    breaker: BreakerSettings = Field(BreakerSettings(), description="Leaving a failing engine alone.")


class HTTPEngine(EngineSettings):
    """What every kind has that is asked over HTTP."""

    base_url: str = Field(
        description="Base URL as an OpenAI client would be given it, e.g. https://api.openai.com/v1."
    )
    api_key: SecretStr | None = Field(
        None, description="Sent instead of the client's key, e.g. ${OPENAI_API_KEY}."
    )
    headers: dict[str, SecretStr] = Field({}, description="Further headers to send on every request.")
    timeouts: TimeoutSettings = Field(TimeoutSettings(), description="Limits by phase.")

    _valid_url = field_validator("base_url")(lambda url: checked_url(url))


class OpenAIEngine(HTTPEngine):
    """Any OpenAI-compatible API."""

    kind: Literal["openai"] = "openai"


class VLLMEngine(HTTPEngine):
    """A vLLM server: its load is watched, tenants' prefix caches are kept apart, and it can continue broken answers."""

    kind: Literal["vllm"]
    server_url: str | None = Field(
        None, description="Where /health, /metrics and /tokenize are; null: base_url without its /v1."
    )
    poll_s: float = Field(1, ge=0.1, le=60, description="Between two readings of its load, while it is used.")
    salted: bool = Field(
        True, description="Whether each tenant gets a cache_salt, so that no prompt is cached across tenants."
    )
    priority: int | None = Field(
        None,
        description="Sent with clients' requests, lower is sooner; needs --scheduling-policy priority there.",
    )
    tenant_priorities: dict[str, int] = Field(
        {}, description="Another priority for some tenants: a name as in `keys create`, or id:HEX."
    )
    background_priority: int | None = Field(
        None, description="Sent with the gateway's own requests (judging, replay), e.g. 10."
    )

    _valid_server_url = field_validator("server_url")(lambda url: url and checked_url(url))


class SimulatedEngineSettings(EngineSettings):
    """An engine of the simulated world: for the demo, tests and load. It says so in every reply."""

    kind: Literal["simulated"]
    role: Literal["lead", "understudy", "judge", "generator"] = Field(
        description="lead knows every fact, understudy a quarter; judge compares answers, generator varies requests."
    )
    seed: int = Field(7, description="Seed of the world.")
    facts: int = Field(3000, ge=10, description="Facts in the world.")
    ttft_ms: float = Field(200, ge=0, description="Time to first token, in milliseconds.")
    token_ms: float = Field(5, ge=0, description="Time per further token, in milliseconds.")
    capacity: int = Field(16, ge=1, description="Requests served at once; more queue.")
    pace: float = Field(1, ge=0, description="Multiplies all its times; 0 answers at once.")


def checked_url(url: str) -> str:
    """`url` without a trailing slash. Raises ValueError, saying what would be right."""
    from yarl import URL

    parsed = URL(url)
    # Credentials first: no other message may quote a URL that holds some.
    if parsed.user or parsed.password or "@" in url:
        raise ValueError("must not carry credentials; use api_key")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"must be an http:// or https:// URL such as https://api.openai.com/v1, not {url!r}")
    if parsed.query_string or parsed.fragment:
        raise ValueError(f"must not carry a query or fragment: {url!r}")
    return url.rstrip("/")
