"""Settings of engines, one class per kind, and what all kinds share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from engines.apis import BY_KIND, Api
from engines.codecs.neutral import WRITTEN
from understudy.settings.group import Settings
from understudy.settings.secrets import ApiKey

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class PriceAdvanced(Settings):
    """Prices that few engines have."""

    cache_write_usd_per_mtok: Dollars | None = Field(
        None, description="US dollars per million prompt tokens written to a cache; null: as any other."
    )
    cache_write_1h_usd_per_mtok: Dollars | None = Field(
        None, description="The same of those that it keeps for an hour; null: as any other that is written."
    )
    long_prompt_above_tokens: int | None = Field(
        None, ge=1, description="Prompts of more tokens are long, cached ones included; null: none is."
    )
    long_prompt_input_factor: Dollars = Field(
        1, description="What the prices of a long prompt's tokens are multiplied by, cached or not."
    )
    long_prompt_output_factor: Dollars = Field(1, description="The same of its answer's tokens.")
    usd_per_request: Dollars | None = Field(None, description="US dollars per answered request.")
    usd_per_image: Dollars | None = Field(None, description="US dollars per image in an answer.")
    service_tiers: dict[str, Dollars] = Field(
        {},
        description="What all of it is multiplied by where the answer names one of these service tiers, such as "
        "{flex: 0.5, priority: 2}.",
    )


class PriceSettings(Settings):
    """What an engine charges. What has no price is unpriced; 0 has to be written."""

    input_usd_per_mtok: Dollars | None = Field(
        None,
        description="US dollars per million prompt tokens. The word `list` in place of all prices: the provider's list "
        "prices (docs/reference/prices.md).",
    )
    output_usd_per_mtok: Dollars | None = Field(None, description="US dollars per million completion tokens.")
    cached_input_usd_per_mtok: Dollars | None = Field(
        None, description="The same of prompt tokens read from a cache; null: as any other."
    )
    advanced: PriceAdvanced = Field(PriceAdvanced(), description="Less common settings.")

    @model_validator(mode="before")
    @classmethod
    def _a_mapping(cls, given: Any) -> Any:
        # `list` itself was replaced by what the list says: understudy.settings.prices.
        if isinstance(given, dict | PriceSettings):
            return given
        raise ValueError(
            "write `list`, for the provider's list price, or a mapping such as {input_usd_per_mtok: 2.5, "
            "output_usd_per_mtok: 10}"
        )

    @model_validator(mode="after")
    def _an_output_price_has_an_input_price(self) -> Self:
        if self.output_usd_per_mtok is not None and self.input_usd_per_mtok is None:
            raise ValueError(
                "output_usd_per_mtok has a price and input_usd_per_mtok has none, so that no answer could be priced: write "
                "what prompts cost, 0 where they are free"
            )
        return self

    @property
    def known(self) -> bool:
        """Whether there is any price at all: one for output never stands alone."""
        rare = self.advanced
        prices = self.input_usd_per_mtok, rare.usd_per_request, rare.usd_per_image
        return any(price is not None for price in prices)

    @property
    def both_usd_per_mtok(self) -> float:
        """Of a million tokens each way; what has no price counts as 0."""
        return (self.input_usd_per_mtok or 0.0) + (self.output_usd_per_mtok or 0.0)


class HTTPAdvanced(Settings):
    """How an upstream is asked over HTTP. Times are limits by phase."""

    headers: dict[str, SecretStr] = Field({}, description="Further headers to send on every request.")
    connect_s: float = Field(5, gt=0, description="Longest wait for a connection.")
    first_data_s: float | None = Field(
        None,
        gt=0,
        description="Longest wait for the first event of a stream that has data; null: by "
        "[how long is waited](#how-long-is-waited).",
    )
    gap_s: float | None = Field(
        None,
        gt=0,
        description="Longest wait between two chunks of one answer; null: by [how long is waited](#how-long-is-waited).",
    )
    answer_s: float | None = Field(
        None,
        gt=0,
        description="Longest wait for the whole of an answer that is no stream; null: by "
        "[how long is waited](#how-long-is-waited).",
    )


class GuardAdvanced(Settings):
    """The queue, the retries and the circuit breaker in front of an engine."""

    max_queued: int = Field(256, ge=0, description="Requests that may wait for the engine; more get 503.")
    tokens_in_flight: int | None = Field(
        None,
        ge=1,
        description="Tokens, prompts and expected answers, that it computes at once, about what its key-value cache holds; "
        "more wait. Of several base URLs each. null: no limit.",
    )
    latency_tokens_in_flight: int | None = Field(
        None,
        ge=1,
        description="The same while it answers somebody who waits (class latency): the fewer, the faster each. null: "
        "no limit.",
    )
    attempts: int = Field(
        2,
        ge=1,
        le=6,
        description="Most tries of one request at this engine, the first included; 1 never retries.",
    )
    breaker_failures: int = Field(5, ge=1, description="Consecutive failures that open the circuit breaker.")
    breaker_open_s: float = Field(
        10, gt=0, description="How long the breaker stays open before one request is let through as a probe."
    )


class HealthSettings(Settings):
    """Looking after engines in the background."""

    every_s: float | None = Field(
        30,
        ge=1,
        description="An engine that was silent for so long is probed (vLLM's `/health`, else `GET /models`), and one that "
        "is down every 5 to 60 s; null: never.",
    )


class OpenAIAdvanced(GuardAdvanced, HTTPAdvanced):
    """Less common settings of an engine of kind openai."""

    forwards_client_key: bool = Field(
        False,
        description="Whether it gets the client's own key while it has no api_key. So does an engine at the origin of "
        "`upstream`; any other gets none.",
    )
    continues: Literal["prefill", "instruct", "off"] = Field(
        "instruct",
        description="How it goes on with an answer that another began: prefill gives it the beginning "
        "(`continue_final_message`); instruct has it repeat the last words, which must match; off: not at all.",
    )


class PriorityAdvanced(Settings):
    """Scheduling in an engine that runs vLLM with `--scheduling-policy priority`."""

    priority: int | None = Field(None, description="Priority of clients' requests; lower is sooner.")
    tenant_priorities: dict[str, int] = Field(
        {}, description="Another priority for some tenants: a name as in `keys create`, or id:HEX."
    )
    background_priority: int | None = Field(
        None, description="Priority of the gateway's own requests (judging, replay), such as 10."
    )
    sends_order: bool = Field(
        False,
        description="Whether requests of one priority are told apart by class and by the work left in their run; what is "
        "sent is then 1000 times the priority (null: 0), and up to 999.",
    )


class VLLMAdvanced(PriorityAdvanced, OpenAIAdvanced):
    """Less common settings of an engine of kind vllm."""

    continues: Literal["prefill", "instruct", "off"] = Field(
        "prefill", description="The same; vLLM can be given the beginning."
    )
    server_url: str | None = Field(
        None, description="Where /health, /metrics and /tokenize are; null: base_url without its /v1."
    )
    poll_s: float = Field(
        1, ge=0.1, le=60, description="Interval between two readings of the engine's load, while it is used."
    )

    _valid_server_url = field_validator("server_url")(lambda url: url and checked_url(url))


class VLLMLocalAdvanced(PriorityAdvanced, GuardAdvanced):
    """Less common settings of an engine of kind vllm-local."""


class EngineSettings(Settings):
    """What every kind of engine has."""

    model: str | None = Field(None, description="Model name the engine expects; null sends the client's.")
    price: PriceSettings = Field(PriceSettings(), description="For cost reports and routing.")
    context_tokens: int | None = Field(None, ge=1, description="Context window in tokens; null when unknown.")
    region: str = Field(
        "",
        max_length=64,
        description="Where it answers, such as eu: tenants with a region are answered there only; empty: nobody said.",
    )
    cache_ttl_s: float | None = Field(
        None,
        ge=0,
        description="Seconds for which its provider keeps a prompt's beginning cached after its use; 0: not at all. null: "
        "300, and with vLLM for as long as its memory has room.",
    )
    max_in_flight: int = Field(
        256, ge=1, description="Requests asked of it, or of each replica, at once; more wait in the queue."
    )
    slo_tpot_ms: float | None = Field(
        None,
        gt=0,
        description="Milliseconds per token of an answer that somebody waits for (class latency): the tokens in flight "
        "beside it are capped by what is measured. null: no cap.",
    )
    apis: tuple[Api, ...] | None = Field(
        None,
        description="APIs it speaks, such as [chat, messages]: it is asked no others. null: those of its kind "
        "(docs/explanation/engines.md).",
    )
    tells_usage: bool = Field(
        True,
        description="Streams are asked for their usage (stream_options) if it is counted, unless the engine refuses that. "
        "false: never; usage is estimated.",
    )
    advanced: GuardAdvanced = Field(GuardAdvanced(), description="Less common settings.")

    @field_validator("apis")
    @classmethod
    def _speaks_something(cls, apis: tuple[Api, ...] | None) -> tuple[Api, ...] | None:
        if apis is not None and not apis:
            raise ValueError(
                "is empty: nobody could ask this engine anything; leave it out for those of its kind"
            )
        return apis

    @property
    def spoken(self) -> frozenset[Api]:
        """The APIs it speaks."""
        return frozenset(self.apis) if self.apis is not None else BY_KIND[getattr(self, "kind", "openai")]

    @property
    def understood(self) -> frozenset[Api]:
        """The APIs in which it may be asked: those it speaks, and those that are translated to them."""
        return self.spoken


class ReplicaSettings(Settings):
    """One of several base URLs of an engine. A URL alone stands for one of weight 1."""

    url: str = Field(description="Base URL.")
    weight: float = Field(
        1, description="Its share beside the others, up to 1000; 0: asked only where no other may be."
    )
    api_key: ApiKey | None = Field(None, description="Its own key; null: the engine's.")

    _valid_url = field_validator("url")(lambda url: checked_url(url))

    @model_validator(mode="before")
    @classmethod
    def _a_url_alone(cls, given: Any) -> Any:
        return {"url": given} if isinstance(given, str) else given

    @field_validator("weight")
    @classmethod
    def _weighs(cls, weight: float) -> float:
        if not (math.isfinite(weight) and 0 <= weight <= _MOST_WEIGHT):
            raise ValueError(f"must be a number from 0 to {_MOST_WEIGHT}")
        return weight


API_VERSION = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?$|^preview$|^latest$"
"""How Azure writes its versions."""
_MOST_WEIGHT = 1000
_MOST_REPLICAS = 64
_PORTS = {"http": 80, "https": 443}


def checked_proxy(proxy: SecretStr | None) -> SecretStr | None:
    """`proxy` as it came. Raises ValueError for what names none (engines.proxies), and never quotes it."""
    if proxy is not None and (said := proxy.get_secret_value()) not in ("env", "none"):
        parts = urlsplit(said)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be env, none or a URL such as http://proxy.example:3128")
    return proxy


class HTTPEngine(EngineSettings):
    """What every kind has that is asked over HTTP."""

    base_url: str | None = Field(
        None,
        description="Base URL as an OpenAI client would be given it, e.g. https://api.openai.com/v1. Required, unless "
        "base_urls are set.",
    )
    base_urls: tuple[ReplicaSettings, ...] | None = Field(
        None,
        description="Replicas of it, up to 64, instead of base_url: URLs, or {url, weight, api_key}.",
    )
    api_key: ApiKey | None = Field(
        None,
        description="Sent instead of the client's key, e.g. ${OPENAI_API_KEY}; `none` where the engine needs none. "
        "Required unless it is on this machine or at the origin of `upstream`.",
    )
    proxy: SecretStr | None = Field(None, description="HTTP proxy it is asked through; as upstream.proxy.")
    drops: tuple[str, ...] = Field(
        (),
        description="What is left out of requests that are translated to an API of this engine: names of fields, or of "
        "types of parts, items and tools. What else that API has no word for is refused (400, not_translatable).",
    )
    advanced: OpenAIAdvanced = Field(OpenAIAdvanced(), description="Less common settings.")

    _valid_url = field_validator("base_url")(lambda url: url and checked_url(url))
    _valid_proxy = field_validator("proxy")(checked_proxy)

    @model_validator(mode="after")
    def _one_way_to_say_where(self) -> Self:
        replicas = self.base_urls
        if replicas is None:
            if not self.base_url:
                raise ValueError("base_url is missing (or base_urls, for several replicas)")
            return self
        if self.base_url is not None:
            raise ValueError("base_url and base_urls exclude each other: put all of them into base_urls")
        if not 0 < len(replicas) <= _MOST_REPLICAS:
            raise ValueError(f"base_urls has {len(replicas)} entries; 1 to {_MOST_REPLICAS} are right")
        seen: set[tuple[str, str]] = set()
        for replica in replicas:
            where = host_and_port(replica.url), urlsplit(replica.url).path
            if where in seen:
                raise ValueError(f"base_urls names {where[0]}{where[1]} twice")
            seen.add(where)
        if not any(replica.weight for replica in replicas):
            raise ValueError("base_urls has only entries of weight 0, which stand by for others")
        return self

    @property
    def understood(self) -> frozenset[Api]:
        """See EngineSettings."""
        spoken = self.spoken
        return spoken if spoken.isdisjoint(WRITTEN) else spoken | frozenset(WRITTEN)

    @property
    def servers(self) -> dict[str, Self]:
        """One for each base URL, as if it were an engine of its own, by what it is called: host:port, with its path where
        several share that; the only one of `base_url` has no such name."""
        if self.base_urls is None:
            return {"": self}
        hosts = [host_and_port(replica.url) for replica in self.base_urls]
        return {
            host if hosts.count(host) == 1 else host + urlsplit(replica.url).path: self.model_copy(
                update={
                    "base_url": replica.url,
                    "base_urls": None,
                    "api_key": self.api_key if replica.api_key is None else replica.api_key,
                }
            )
            for host, replica in zip(hosts, self.base_urls, strict=True)
        }

    @property
    def url(self) -> str:
        """The base URL of one of its `servers`."""
        assert self.base_url is not None
        return self.base_url


class OpenAIEngine(HTTPEngine):
    """Any OpenAI-compatible API."""

    kind: Literal["openai"] = "openai"


class AnthropicAdvanced(OpenAIAdvanced):
    """Less common settings of an engine of kind anthropic."""

    continues: Literal["prefill", "instruct", "off"] = Field(
        "off", description="The same; an answer of the Messages API is not carried on."
    )


class AnthropicEngine(HTTPEngine):
    """Anthropic's API, or another server's that speaks its Messages API. `base_url` is with or without its /v1."""

    kind: Literal["anthropic"]
    advanced: AnthropicAdvanced = Field(AnthropicAdvanced(), description="Less common settings.")

    @property
    def url(self) -> str:
        """See HTTPEngine; always with its /v1."""
        return anthropic_url(super().url)


class AzureEngine(HTTPEngine):
    """Azure OpenAI. `base_url` is the resource's, such as https://NAME.openai.azure.com; `model` names a deployment."""

    kind: Literal["azure"]
    api_version: str | None = Field(
        None,
        pattern=API_VERSION,
        description="Version of Azure's API, such as 2024-10-21: deployments are asked below /openai/deployments. null: "
        "below /openai/v1, which has none.",
    )

    @property
    def url(self) -> str:
        """See HTTPEngine; always without what Azure puts behind the resource."""
        return azure_url(super().url)


class TenantSettings(Settings):
    """How an engine that runs vLLM treats tenants."""

    salted: bool = Field(
        True, description="Whether each tenant gets a cache_salt, so that no prompt is cached across tenants."
    )


class VLLMEngine(TenantSettings, HTTPEngine):
    """A vLLM server: its load is watched, tenants' prefix caches are kept apart, and it can continue broken answers."""

    kind: Literal["vllm"]
    advanced: VLLMAdvanced = Field(VLLMAdvanced(), description="Less common settings.")

    @model_validator(mode="after")
    def _each_has_its_own_pages(self) -> Self:
        if self.base_urls is not None and self.advanced.server_url is not None:
            raise ValueError(
                "advanced.server_url is of one server, and base_urls are several: leave it out, each is asked below its own"
            )
        return self


class VLLMLocalEngine(TenantSettings, EngineSettings):
    """vLLM inside the gateway's own process, for a single box with one worker. Needs the extra `vllm`."""

    kind: Literal["vllm-local"]
    model_dir: str = Field(
        min_length=1, description="Folder of the model, or its name on the Hugging Face hub."
    )
    args: tuple[str, ...] = Field(
        (), description='Further arguments of `vllm serve`, e.g. ["--max-model-len", "8192"].'
    )
    advanced: VLLMLocalAdvanced = Field(VLLMLocalAdvanced(), description="Less common settings.")

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
    role: Literal["lead", "understudy", "judge", "generator", "reader"] = Field(
        description="lead knows every fact, understudy a quarter; judge compares answers, generator varies requests; reader "
        "quotes the sentence of its prompt that fits the question best."
    )
    seed: int = Field(7, description="Seed of the world.")
    facts: int = Field(3000, ge=10, description="Facts in the world.")
    ttft_ms: float = Field(200, ge=0, description="Time to first token, in milliseconds.")
    token_ms: float = Field(5, ge=0, description="Time per further token, in milliseconds.")
    capacity: int = Field(16, ge=1, description="Requests served at once; more queue.")
    pace: float = Field(1, ge=0, description="Multiplies all its times; 0 answers at once.")
    turns_bad_at: Path | None = Field(
        None, description="Once this file is there, an understudy gets nearly everything wrong; null: never."
    )


def host_and_port(url: str) -> str:
    """Such as api.openai.com:443."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{f'[{host}]' if ':' in host else host}:{parts.port or _PORTS[parts.scheme]}"


def anthropic_url(url: str) -> str:
    """Anthropic's own clients are given the URL without the /v1 that their requests have."""
    return url if urlsplit(url).path else f"{url}/v1"


def azure_url(url: str) -> str:
    """A resource's URL, of one that may go on as Azure's own clients have it."""
    return url.removesuffix("/v1").removesuffix("/openai") if url.endswith(("/openai", "/openai/v1")) else url


def checked_url(url: str) -> str:
    """`url` without a trailing slash. Raises ValueError, saying what would be right, and never quoting the URL."""
    from yarl import URL

    try:
        parsed = URL(url)
    except ValueError:
        raise ValueError(f"is not a URL; {_RIGHT_URL} is right") from None
    # Credentials first: they are what must not be there at all.
    if parsed.user or parsed.password or "@" in url:
        raise ValueError("must not carry credentials; use api_key")
    if parsed.query_string or parsed.fragment or "?" in url or "#" in url:
        raise ValueError("must not carry a query or fragment; a key goes into api_key")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"must be an http:// or https:// URL such as {_RIGHT_URL}")
    base = url.rstrip("/")
    for endpoint in _ENDPOINTS:
        if base.endswith(endpoint):
            raise ValueError(f"must end before the endpoint: {base.removesuffix(endpoint)} is right")
    return base


_RIGHT_URL = "https://api.openai.com/v1"
_ENDPOINTS = ("/chat/completions", "/completions", "/responses", "/embeddings", "/messages")
"""What clients put behind a base URL themselves."""
