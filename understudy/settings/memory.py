"""Settings of what is remembered: exact answers, examples, what may become one, and reuse for similar questions."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from understudy.settings.group import Settings


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


class AnswerVectorSettings(Settings):
    """Vectors of examples' answers: the scorer of in_context compares requests with them."""

    enabled: bool = Field(True, description="Made in the background, where a model's policy is in_context.")
    max_characters: int = Field(
        400, ge=64, description="Answers are cut to this: more costs more, tells little."
    )
    share: float = Field(0.1, gt=0, le=1, description="Of the embedder's time; the rest is left to requests.")


class ExampleSettings(Settings):
    """The bank of past requests and answers."""

    enabled: bool = Field(True, description="Off remembers no examples and offloads nothing.")
    embedding: EmbeddingSettings = Field(EmbeddingSettings(), description="The embedding model.")
    answer_vectors: AnswerVectorSettings = Field(
        AnswerVectorSettings(), description="Vectors of answers, beside those of questions."
    )
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
    """Answering a similar question from memory: see docs/explanation/semantic-reuse.md."""

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


class RequestTextSettings(Settings):
    """What was asked and answered, for people with a right to read it: see docs/how-to/use-the-admin-pages.md."""

    enabled: bool = Field(
        True, description="Off: the admin pages show what happened to requests, and no word of them."
    )
    kept_days: float = Field(14, gt=0, description="How long texts are kept.")
    max_mib: float = Field(
        512, gt=0, description="Most they may take with their search index; oldest go first."
    )
    max_request_kib: float = Field(
        64, gt=0, description="Of a longer conversation the latest messages are kept; a longer answer is cut."
    )
    share: float = Field(
        0.1,
        gt=0,
        le=1,
        description="Of one core per worker for reading them for secrets; else some are left out.",
    )


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
    request_texts: RequestTextSettings = Field(
        RequestTextSettings(),
        description="Keep the texts, too, for less long: by the rules of examples.admission, for those who may read.",
    )

    @model_validator(mode="after")
    def _reuse_needs_examples(self) -> MemorySettings:
        if self.semantic_reuse.deltas and not self.examples.enabled:
            raise ValueError(
                "semantic_reuse.deltas names keys, but examples.enabled is false: it needs examples"
            )
        return self
