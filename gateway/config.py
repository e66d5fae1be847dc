"""Every setting: its name, its default and a sentence. Read once at start; objects get plain values, never this.

Units are in the names. `config.example.yaml` shows all of it and a test keeps the two equal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from gateway.config_learning import FeedbackSettings, InContextSettings, JudgingSettings, LearningSettings
from gateway.settings import Settings


class Listen(Settings):
    """Where the gateway listens."""

    host: str = Field(
        "127.0.0.1", description="Address to bind. 0.0.0.0 exposes the gateway: configure keys first."
    )
    port: int = Field(8080, ge=0, le=65535, description="Port; 0 takes a free one and prints it.")
    workers: int = Field(1, ge=1, le=64, description="Processes sharing the port (SO_REUSEPORT).")
    prefixes: tuple[str, ...] = Field(
        ("/v1",), description="Paths below these reach the upstream; others are 404."
    )
    max_body_mib: float = Field(512, gt=0, description="Largest request body passed through, in MiB.")
    max_json_mib: float = Field(
        32, gt=0, description="Largest body the pipeline will read and parse, in MiB."
    )
    max_header_kib: float = Field(32, gt=0, description="Largest single request header line, in KiB.")
    grace_s: float = Field(30, ge=0, description="At SIGTERM, how long open requests may take to finish.")


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


class OpenAIEngine(EngineSettings):
    """Any OpenAI-compatible API."""

    kind: Literal["openai"] = "openai"
    base_url: str = Field(
        description="Base URL as an OpenAI client would be given it, e.g. https://api.openai.com/v1."
    )
    api_key: SecretStr | None = Field(
        None, description="Sent instead of the client's key, e.g. ${OPENAI_API_KEY}."
    )
    headers: dict[str, SecretStr] = Field({}, description="Further headers to send on every request.")
    timeouts: TimeoutSettings = Field(TimeoutSettings(), description="Limits by phase.")

    _valid_url = field_validator("base_url")(lambda url: checked_url(url))


class SimulatedEngineSettings(EngineSettings):
    """An engine of the simulated world: for the demo, tests and load. It says so in every reply."""

    kind: Literal["simulated"]
    role: Literal["lead", "understudy", "judge"] = Field(
        description="What it knows: every fact, or a quarter of them; a judge compares two answers."
    )
    seed: int = Field(7, description="Seed of the world.")
    facts: int = Field(3000, ge=10, description="Facts in the world.")
    ttft_ms: float = Field(200, ge=0, description="Time to first token, in milliseconds.")
    token_ms: float = Field(5, ge=0, description="Time per further token, in milliseconds.")
    capacity: int = Field(16, ge=1, description="Requests served at once; more queue.")
    pace: float = Field(1, ge=0, description="Multiplies all its times; 0 answers at once.")


class Upstream(Settings):
    """Where everything goes that no model below names."""

    base_url: str = Field(description="Base URL as an OpenAI client would be given it.")
    api_key: SecretStr | None = Field(None, description="Sent instead of the client's key.")
    headers: dict[str, SecretStr] = Field({}, description="Further headers to send on every request.")
    timeouts: TimeoutSettings = Field(TimeoutSettings(), description="Limits by phase.")

    _valid_url = field_validator("base_url")(lambda url: checked_url(url))


class FewShotSettings(Settings):
    """Few-shot distillation by novelty: enough near neighbours make a request familiar."""

    theta: float = Field(
        0.8, ge=-1, le=1, description="Cosine similarity from which a past request counts as near."
    )
    m: int = Field(
        3, ge=1, le=50, description="Near neighbours needed to hand the request to the small engine."
    )
    max_examples: int = Field(5, ge=1, le=50, description="Most examples sent along.")
    max_example_tokens: int = Field(
        2000, ge=1, description="Token budget of all examples together (estimated)."
    )
    with_tools: bool = Field(False, description="Whether requests that carry tools may get examples.")
    same_names: bool = Field(
        False,
        description="Neighbours must name the same things: right for questions about facts, wrong for tasks.",
    )


class ModelSettings(Settings):
    """A model name clients ask for, and who may answer it."""

    engines: tuple[str, ...] = Field(
        min_length=1, description="Engines from small to large; the last is the reference."
    )
    policy: Literal["in_context", "few_shot", "fixed"] = Field(
        "fixed",
        description="in_context learns; few_shot is the rule it starts with; fixed: always the last engine.",
    )
    few_shot: FewShotSettings = Field(FewShotSettings(), description="Knobs of the few_shot rule.")
    in_context: InContextSettings = Field(InContextSettings(), description="Knobs of the in_context policy.")
    remember: bool = Field(True, description="Whether the large engine's answers become examples.")
    larger_context: str | None = Field(
        None, description="Engine that gets a request too long for the chosen one."
    )


class ExactSettings(Settings):
    """Answering the very same request from memory."""

    enabled: bool = Field(True, description="Off forwards repeats like any other request.")
    ttl_s: float = Field(86400, gt=0, description="How long an answer may be replayed, in seconds.")
    memory_mib: float = Field(64, ge=0, description="Hot answers kept in memory, in MiB.")
    disk_mib: float = Field(
        1024, gt=0, description="Answers kept on disk, in MiB; the least recently used go first."
    )
    max_entry_kib: float = Field(1024, gt=0, description="Larger answers are not kept, in KiB.")
    tool_calls: bool = Field(False, description="Whether answers that call tools may be replayed.")


class EmbeddingSettings(Settings):
    """Turning text into vectors."""

    source: str = Field("package", description="package (the PyPI wheel), folder:PATH, or hub:NAME.")
    deadline_ms: float = Field(
        50, gt=0, description="A request waits no longer for its embedding; it goes on without."
    )
    max_characters: int = Field(1500, ge=64, description="Text is cut to this before it is tokenised.")
    cache_dir: Path | None = Field(
        None, description="Where the built model is kept; null: `models` in data_dir."
    )


class AdmissionConfig(Settings):
    """Which pairs may become examples."""

    engines: tuple[Literal["reference", "demonstration", "import", "judged_good", "any"], ...] = Field(
        ("reference", "demonstration", "import", "judged_good"),
        description="Whose answers; any admits every engine's.",
    )
    good_quality: float = Field(
        0.8, ge=0, le=1, description="Judged quality from which an answer counts as good."
    )
    min_question_chars: int = Field(3, ge=0, description="Shorter questions are not kept.")
    min_answer_chars: int = Field(1, ge=0, description="Shorter answers are not kept.")
    secrets: Literal["refuse", "redact", "off"] = Field(
        "refuse", description="Keys, tokens, passwords: what to do."
    )
    private_data: Literal["refuse", "redact", "off"] = Field(
        "redact", description="Addresses, numbers, cards and the like; names of people are not found."
    )
    instructions: Literal["refuse", "off"] = Field(
        "refuse", description="Text that tries to instruct whoever reads it later."
    )
    public: tuple[str, ...] = Field((), description="Your own hotline, address or @domain: not private.")
    opted_out_keys: tuple[str, ...] = Field(
        (), description="Ids of keys whose requests never become examples."
    )
    contributor_max_examples: int | None = Field(
        20_000, ge=1, description="Examples per key, where several keys fill one bank; null for no cap."
    )
    contributor_max_per_hour: int | None = Field(
        2000, ge=1, description="The same within an hour; null for no cap."
    )
    quarantine_h: float = Field(
        24, ge=0, description="For how long a new key's examples are not served; 0 for none."
    )
    trusted_after: int = Field(5, ge=1, description="Good judgements that end a quarantine early.")


class ExampleSettings(Settings):
    """The bank of past requests and answers."""

    enabled: bool = Field(True, description="Off remembers no examples and offloads nothing.")
    embedding: EmbeddingSettings = Field(EmbeddingSettings(), description="The embedding model.")
    max_chars: int = Field(8000, ge=1, description="Longer questions or answers are not remembered.")
    neighbours: int = Field(
        32, ge=1, le=1000, description="Candidates fetched per request before they are filtered."
    )
    retrieve_deadline_ms: float = Field(50, gt=0, description="A request waits no longer for its neighbours.")
    admission: AdmissionConfig = Field(AdmissionConfig(), description="What may become an example.")
    max_stored: int = Field(
        1_000_000, ge=1, description="Most examples a tenant may have; the least useful go first."
    )
    max_stored_mib: float = Field(
        4096, gt=0, description="Most they may take, in MiB; least useful per byte first."
    )
    twin_similarity: float = Field(
        0.95, ge=0, le=1, description="How near a question must be to be one already kept."
    )
    twin_overlap: float = Field(0.75, ge=0, le=1, description="Words two answers must share to be merged.")
    keep_removals_s: float = Field(
        604_800, gt=0, description="How long a stopped gateway's snapshots stay useful."
    )


class SemanticReuseSettings(Settings):
    """Answering a similar question from memory: see docs/semantic-reuse.md."""

    deltas: dict[str, float] = Field(
        {},
        description="Key id (or `default`, clients without keys) to the share of reused answers that may be wrong, "
        "such as 0.02; who is not named gets no reuse.",
    )
    audit_share: float = Field(
        0.1, ge=0.01, le=0.5, description="Of what could be reused, this share is asked anyway and compared."
    )
    deadline_ms: float = Field(50, gt=0, description="A request waits no longer for it; the model is asked.")

    @field_validator("deltas")
    @classmethod
    def _are_small(cls, deltas: dict[str, float]) -> dict[str, float]:
        for key, delta in deltas.items():
            if not 0 < delta <= 0.2:
                raise ValueError(
                    f"delta of {key!r} is {delta}; it must be above 0 and at most 0.2, such as 0.02"
                )
        return deltas


class MemorySettings(Settings):
    """What is remembered, and where."""

    data_dir: Path | None = Field(
        None,
        description="Folder of database, index snapshots and secret; null: a temporary one, forgotten at the end.",
    )
    exact: ExactSettings = Field(ExactSettings(), description="Exact repeats.")
    examples: ExampleSettings = Field(ExampleSettings(), description="In-context examples.")
    semantic_reuse: SemanticReuseSettings = Field(
        SemanticReuseSettings(), description="Answers to similar questions; off, opted into per key."
    )
    log_requests: bool = Field(
        True, description="Keep a row per request (no content) for reports and evaluation."
    )
    requests_kept_days: float = Field(90, gt=0, description="How long those rows are kept.")

    @model_validator(mode="after")
    def _reuse_needs_examples(self) -> MemorySettings:
        if self.semantic_reuse.deltas and not self.examples.enabled:
            raise ValueError(
                "semantic_reuse.deltas names keys, but examples.enabled is false: it needs examples"
            )
        return self


class Grant(Settings):
    """One tenant's examples, readable by others. One way, and no further."""

    source: str = Field(
        alias="from", description="Tenant whose examples are read: a name as in `keys create`, or id:HEX."
    )
    to: tuple[str, ...] = Field(min_length=1, description="Tenants that may read them.")


class SharingSettings(Settings):
    """What may cross from one tenant to another. Exact answers and everything else never do."""

    grants: tuple[Grant, ...] = Field(
        (), description="Explicit grants, each {from: TENANT, to: [TENANT, ...]}; none by default."
    )


class LogSettings(Settings):
    """The log: one line of JSON per request on standard error."""

    requests: bool = Field(True, description="One line per request.")
    level: Literal["debug", "info", "warning", "error"] = Field("info", description="For everything else.")


class Config(Settings):
    """The whole configuration."""

    listen: Listen = Field(Listen(), description="Where the gateway listens.")
    upstream: Upstream | None = Field(
        None, description="Default upstream, for everything `models` does not name."
    )
    engines: dict[str, Annotated[OpenAIEngine | SimulatedEngineSettings, Field(discriminator="kind")]] = (
        Field({}, description="Engines by name.")
    )
    models: dict[str, ModelSettings] = Field({}, description="Model names served by engines of ours.")
    memory: MemorySettings | None = Field(None, description="Null remembers nothing.")
    sharing: SharingSettings = Field(
        SharingSettings(), description="Examples that one tenant may read of another; nothing by default."
    )
    learning: LearningSettings = Field(LearningSettings(), description="Training from outcomes.")
    judging: JudgingSettings | None = Field(
        None, description="An engine that judges a sample; null for none."
    )
    feedback: FeedbackSettings = Field(FeedbackSettings(), description="What users say of answers.")
    log: LogSettings = Field(LogSettings(), description="Logging.")

    @field_validator("engines", mode="before")
    @classmethod
    def _openai_is_the_default_kind(cls, engines: Any) -> Any:
        if not isinstance(engines, dict):
            return engines
        return {
            name: {"kind": "openai", **engine} if isinstance(engine, dict) else engine
            for name, engine in engines.items()
        }

    @model_validator(mode="after")
    def _names_exist(self) -> Config:
        known = ", ".join(sorted(self.engines)) or "none are configured"
        for name, model in self.models.items():
            for engine in (*model.engines, *((model.larger_context,) if model.larger_context else ())):
                if engine not in self.engines:
                    raise ValueError(f"models.{name} names the engine {engine!r}; known engines: {known}")
            if model.policy != "fixed" and len(model.engines) < 2:
                raise ValueError(f"models.{name}: policy {model.policy} needs two engines, small then large")
            if model.policy == "in_context" and len(model.engines) > 8:
                raise ValueError(
                    f"models.{name} has {len(model.engines)} engines; in_context chooses among 8 at most"
                )
            if model.in_context.quality_floor.max_loss is not None and self.judging is None:
                raise ValueError(
                    f"models.{name}.in_context.quality_floor.max_loss is set, but nothing is judged: set `judging`"
                )
        if self.judging is not None and self.judging.engine not in self.engines:
            raise ValueError(f"judging.engine is {self.judging.engine!r}; known engines: {known}")
        if self.upstream is None and not self.models:
            raise ValueError("nowhere to send requests: set `upstream.base_url`, or `engines` and `models`")
        return self


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
