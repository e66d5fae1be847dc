"""Settings of engines, one class per kind, and what all kinds share."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from understudy.settings.group import Settings


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


class TenantSettings(Settings):
    """How an engine that knows vLLM's ways treats tenants."""

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


class VLLMEngine(TenantSettings, HTTPEngine):
    """A vLLM server: its load is watched, tenants' prefix caches are kept apart, and it can continue broken answers."""

    kind: Literal["vllm"]
    server_url: str | None = Field(
        None, description="Where /health, /metrics and /tokenize are; null: base_url without its /v1."
    )
    poll_s: float = Field(1, ge=0.1, le=60, description="Between two readings of its load, while it is used.")

    _valid_server_url = field_validator("server_url")(lambda url: url and checked_url(url))


class VLLMLocalEngine(TenantSettings, EngineSettings):
    """vLLM inside the gateway's own process, for a single box with one worker. Needs the extra `vllm`."""

    kind: Literal["vllm-local"]
    model_dir: str = Field(
        min_length=1, description="Folder of the model, or its name on the Hugging Face hub."
    )
    args: tuple[str, ...] = Field(
        (), description='Further arguments of `vllm serve`, e.g. ["--max-model-len", "8192"].'
    )

    @property
    def served_name(self) -> str:
        """The model name its requests carry: `model`, else the folder's own name."""
        return self.model or self.model_dir.rstrip("/").rpartition("/")[2]

    @field_validator("model_dir")
    @classmethod
    def _folder_exists(cls, model_dir: str) -> str:
        # A name on the hub has at most one slash and begins with neither a dot nor a slash.
        if model_dir.startswith(("/", ".", "~")) or model_dir.count("/") > 1:
            folder = Path(model_dir).expanduser()
            if not (folder / "config.json").is_file():
                raise ValueError(f"{model_dir!r} is no folder with a config.json; name a model's folder")
            return str(folder)
        return model_dir

    @field_validator("args")
    @classmethod
    def _ours_are_not_among_them(cls, args: tuple[str, ...]) -> tuple[str, ...]:
        for argument in args:
            if argument.partition("=")[0].replace("_", "-") in _GIVEN_BY_US:
                raise ValueError(
                    f"{argument!r} is decided here or means nothing without a server; leave it out "
                    "(the model is `model_dir`, its name `model`)"
                )
        return args


_GIVEN_BY_US = frozenset(
    {
        "--model",
        "--served-model-name",
        "--host",
        "--port",
        "--uds",
        "--api-key",
        "--api-server-count",
        "--headless",
    }
    | {"--disable-log-stats", "--config", "--grpc", "--root-path", "--middleware"}
)


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
