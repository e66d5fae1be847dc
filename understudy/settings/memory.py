"""Settings of what is remembered: exact answers, examples, what may become one, and reuse for similar questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from understudy.settings.database import DatabaseUrl, checked_blobs_url
from understudy.settings.group import Settings


class ExactSettings(Settings):
    """Answering the very same request from the cache."""

    enabled: bool = Field(True, description="Off forwards repeats like any other request.")
    ttl_s: float = Field(3600, gt=0, description="How long an answer may be replayed, in seconds.")
    sampled: bool = Field(
        False,
        description="Whether to replay answers where another one is wanted each time: a temperature above 0 or n above 1 "
        "without a seed.",
    )
    headers: tuple[str, ...] = Field(
        (),
        description="Further request headers that make two requests different, beside those known to change answers: see "
        "docs/explanation/caching.md.",
    )
    disk_mib: float = Field(
        1024, gt=0, description="Answers kept on disk, in MiB; the least recently used go first."
    )


class AdmissionConfig(Settings):
    """Which pairs may become examples."""

    engines: tuple[Literal["reference", "demonstration", "import", "judged_good", "any"], ...] = Field(
        ("reference", "demonstration", "import", "judged_good"),
        description="Whose answers; any admits every engine's.",
    )
    secrets: Literal["refuse", "redact", "off"] = Field(
        "refuse", description="What to do with keys, tokens and passwords."
    )
    private_data: Literal["refuse", "redact", "off"] = Field(
        "redact",
        description="What to do with addresses, numbers, cards and the like; names of people are not found.",
    )
    public: tuple[str, ...] = Field(
        (), description="Your own hotline, address or @domain, which are not private."
    )
    opted_out_keys: tuple[str, ...] = Field(
        (), description="Keys, by their name in `keys` or their id, whose requests never become examples."
    )


class ExampleSettings(Settings):
    """The bank of past requests and answers."""

    enabled: bool = Field(True, description="Off remembers no examples and offloads nothing.")
    embedding_model: str = Field("package", description="package (the PyPI wheel), folder:PATH, or hub:NAME.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "cpu",
        description="Where texts are embedded: cuda needs the extra gpu, auto is cuda where it can be used. The same for "
        "all gateways on one database: embeddings of a GPU and of a CPU are not compared.",
    )
    admission: AdmissionConfig = Field(AdmissionConfig(), description="What may become an example.")
    follow_ups: Literal["off", "standalone", "all"] = Field(
        "off",
        description="Turns of a conversation after its first that become examples, and are given some: none, those whose "
        "question stands for itself as far as a learnt test tells, or all.",
    )
    max_stored: int = Field(
        1_000_000, ge=1, description="Most examples a tenant may have; the least useful go first."
    )

    @field_validator("follow_ups", mode="before")
    @classmethod
    def _was_a_boolean(cls, value: object) -> object:
        # `true` was what `all` is; YAML 1.1 takes a bare off for false.
        return {False: "off", True: "all"}[value] if isinstance(value, bool) else value


class SemanticReuseSettings(Settings):
    """Answering a similar question from the cache: see docs/explanation/caching.md."""

    deltas: dict[str, float] = Field(
        {},
        description="Key (its name in `keys`, its id, or `default`: clients without keys) to the share of reused "
        "answers that may be wrong, such as 0.02; who is not named gets no reuse.",
    )

    @field_validator("deltas")
    @classmethod
    def _are_small(cls, deltas: dict[str, float]) -> dict[str, float]:
        for key, delta in deltas.items():
            if not 0 < delta <= 0.2:
                raise ValueError(
                    f"delta of {key!r} is {delta}; it must be above 0 and at most 0.2, such as 0.02"
                )
        return deltas


class RequestTextSettings(Settings):
    """What was asked and answered, for people with a right to read it: see docs/how-to/use-the-admin-pages.md."""

    enabled: bool = Field(
        True, description="Off: the admin pages show what happened to requests, and no word of them."
    )


class MemoryAdvanced(Settings):
    """Less common settings of memory."""

    exact_max_entry_kib: float = Field(1024, gt=0, description="Cache: larger answers are not kept, in KiB.")
    exact_tool_calls: bool = Field(
        False, description="Cache: whether answers that call tools may be replayed."
    )
    embedding_deadline_ms: float | None = Field(
        None,
        gt=0,
        description="Longest wait of a request for its embedding; after it the request goes on without. null: by what one "
        "takes on this machine, 100 to 500.",
    )
    embedding_cache_dir: Path | None = Field(
        None,
        description="Where the built embedding model is kept; null: `understudy/models` in the user's cache folder where "
        "that exists, else `models` in data_dir.",
    )
    retrieve_deadline_ms: float | None = Field(
        None,
        gt=0,
        description="Longest wait of a request for its neighbours; after it the request goes on without. null: by what "
        "finding them takes on this machine, 100 to 500.",
    )
    max_stored_mib: float = Field(
        4096, gt=0, description="Most a tenant's examples may take, in MiB; least useful per byte first."
    )
    instructions: Literal["refuse", "off"] = Field(
        "refuse", description="Admission: what to do with text that tries to instruct whoever reads it later."
    )
    contributor_max_per_hour: int | None = Field(
        2000, ge=1, description="Admission: the same within an hour; null: no limit."
    )
    quarantine_h: float = Field(
        24, ge=0, description="Admission: hours for which a new key's examples are not served; 0 for none."
    )
    texts_max_mib: float = Field(
        512, gt=0, description="Most that request texts and their index may take, in MiB; oldest go first."
    )
    reuse_audit_share: float = Field(
        0.1,
        ge=0.01,
        le=0.5,
        description="Semantic reuse: share of what could be reused that is asked anyway and compared.",
    )
    reuse_deadline_ms: float | None = Field(
        None,
        gt=0,
        description="Semantic reuse: longest wait of a request for it; after it the model is asked. null: by what it takes "
        "on this machine, 100 to 500.",
    )


class MemorySettings(Settings):
    """What is remembered, and where."""

    data_dir: Path | None = Field(
        None,
        description="Folder of database, index snapshots and secret; null: a temporary one, forgotten at the end.",
    )
    database_url: DatabaseUrl | None = Field(
        None,
        description="PostgreSQL to keep rows in, for gateways on several machines; null: SQLite in data_dir.",
    )
    listen_url: DatabaseUrl | None = Field(
        None,
        description="PostgreSQL: how to reach it past a pooler, to hear of news; null: database_url.",
    )
    deadline_ms: float = Field(
        50,
        gt=0,
        description="PostgreSQL: longest wait of a request for what it reads; after it the request goes on without.",
    )
    stale_s: float = Field(
        600,
        ge=0,
        description="PostgreSQL: how long keys read last are good for while it cannot be read; then requests get 503.",
    )
    connections: int = Field(
        6, ge=3, le=100, description="PostgreSQL: most connections per process; two of them write and listen."
    )
    index: Literal["usearch", "pgvector", "auto"] = Field(
        "usearch",
        description="PostgreSQL: where the nearest examples are found: in each worker's memory, in the database, or by "
        "index_memory_mib.",
    )
    index_memory_mib: float = Field(
        2048,
        gt=0,
        description="PostgreSQL: with index auto, what a worker's indexes may take, in MiB, before the least used tenants "
        "move to the database.",
    )
    blobs_url: Annotated[str, AfterValidator(checked_blobs_url)] = Field(
        "",
        description="PostgreSQL: where artifacts and snapshots of indexes lie, such as s3://bucket/understudy; empty: in "
        "the database.",
    )
    partition: Literal["user", "tenant"] = Field(
        "user",
        description="user: a request that names its end user reads and writes what is remembered of that user only; "
        "tenant: end users share it.",
    )
    anonymous: bool = Field(
        False, description="Whether requests without any credential are remembered, all as one tenant."
    )
    exact: ExactSettings = Field(
        ExactSettings(), description="The cache of answers to the very same request."
    )
    examples: ExampleSettings = Field(ExampleSettings(), description="In-context examples.")
    semantic_reuse: SemanticReuseSettings = Field(
        SemanticReuseSettings(), description="Answers to similar questions; off, opted into per key."
    )
    log_requests: bool = Field(
        True, description="Keep a row per request (no content) for reports and evaluation."
    )
    request_texts: RequestTextSettings = Field(
        RequestTextSettings(),
        description="Keep the texts, too, for less long: by the rules of examples.admission, for those who may read.",
    )
    advanced: MemoryAdvanced = Field(MemoryAdvanced(), description="Less common settings.")

    @model_validator(mode="after")
    def _reuse_needs_examples(self) -> MemorySettings:
        if self.semantic_reuse.deltas and not self.examples.enabled:
            raise ValueError(
                "semantic_reuse.deltas names keys, but examples.enabled is false: it needs examples"
            )
        return self

    @model_validator(mode="after")
    def _database_suits(self) -> MemorySettings:
        if self.database_url is None:
            needing = {
                "listen_url": self.listen_url is not None,
                "index": self.index != "usearch",
                "blobs_url": bool(self.blobs_url),
            }
            for name, is_set in needing.items():
                if is_set:
                    raise ValueError(f"{name} is set, but database_url is not: it is for PostgreSQL only")
        elif self.data_dir is None:
            raise ValueError(
                "database_url is set, but data_dir is null: name a folder, which holds the file `secret` that every "
                "gateway on this database needs the same of"
            )
        return self
