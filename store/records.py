"""Frozen rows: what the store remembers, as values. Nothing here knows SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass as terms_dataclass

from store.people.limits import Moment, Region, Retention, Terms
from store.validating import CLOSED

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Vector: TypeAlias = "npt.NDArray[np.float32]"
"""A unit-length embedding, shape (dimensions,)."""

Kind = Literal["observed", "demonstration"]
"""Met in traffic, or given as the right answer by a person: an observation never takes a demonstration's place."""

GOOD_QUALITY = 0.8
"""From which quality on, on a scale from 0 to 1, an answer counts as judged good."""


HELD_BACK_S = 4_102_444_800.0
"""An example that is served from here on (the year 2100) is quarantined by a person, until a person lets it go."""


@dataclass(frozen=True, slots=True)
class NewExample:
    """A request and its answer, on their way into the bank."""

    tenant: str
    scope: str
    """Fingerprint of what must be equal for an example to apply (system prompt, response format): see router.digest."""
    question: str
    """The last user turn."""
    answer: str
    embedded_text: str
    """The text the vector stands for; kept so that a new embedder can re-embed."""
    vector: Vector | None
    """None when the embedder was late or broken; a background job fills it in."""
    embedding_version: str
    source_engine: str
    request_id: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    kind: Kind = "observed"
    contributor: str = ""
    """Opaque id of the key or user it came from, so that all of theirs can be removed; empty when unknown."""
    pinned: bool = False
    """Never evicted, and never overwritten by a twin."""
    served_from_s: float = 0.0
    """Quarantine: not returned for serving before this time (Unix seconds); 0 is at once."""
    quality: float | None = None
    """A judgement of this answer, 0 to 1, if there is one already."""
    neighbours: tuple[tuple[int, float], ...] = ()
    """(example id, cosine similarity) of the nearest of this tenant, among which a twin is looked for: see
    store.examples.twins.

    Empty: the pair is kept as it is. Ids that are gone, or of another tenant or scope, are passed over.
    """
    instructions: str = ""
    """What `scope` is the fingerprint of (router.digest.instructions), to ask again under; empty: not kept."""
    synthetic: bool = False
    """Written from what was told with noise (docs/explanation/admission.md): the only kind that enters a private
    tenant's bank."""


class Example(NamedTuple):
    """One row of the bank. `seq` is its place in the log: workers fold rows into their index in this order.

    What decays is given with the time it was true at: store.examples.accounting.decayed brings it to now. It is a tuple:
    every decision makes some twenty of them, and a frozen dataclass takes six times as long.
    """

    id: int
    seq: int
    tenant: str
    scope: str
    question: str
    answer: str
    source_engine: str
    created_at_s: float
    prompt_tokens: int = 0
    completion_tokens: int = 0
    request_id: str = ""
    embedding_version: str = ""
    kind: Kind = "observed"
    contributor: str = ""
    pinned: bool = False
    flagged: bool = False
    """It has a twin whose answer disagrees: the same question, two answers."""
    merged: int = 0
    """How many agreeing pairs were merged into this one."""
    served_from_s: float = 0.0
    size_bytes: int = 0
    """Its texts, its vector, and 1,024 for its row and its place in the index."""
    uses: int = 0
    last_used_at_s: float | None = None
    used: float = 0.0
    """Decayed use at `used_at_s`."""
    used_at_s: float = 0.0
    gain: float = 0.0
    """Decayed gain G(e) at `gain_at_s`."""
    gain_at_s: float = 0.0
    quality_sum: float = 0.0
    quality_count: int = 0
    """Judgements of this answer."""
    embedded_text: str = ""
    """What of the question its embedding is of."""

    @property
    def held_back_by_hand(self) -> bool:
        """Whether a person quarantined it; newcomers' own quarantine ends by itself."""
        return self.served_from_s >= HELD_BACK_S

    @property
    def quality(self) -> float | None:
        """The mean of the judgements, 0 to 1; None without any."""
        return self.quality_sum / self.quality_count if self.quality_count else None


@dataclass(frozen=True, slots=True)
class Account:
    """What an example went through before: times in Unix seconds, sums as in store.examples.accounting."""

    flagged: bool
    merged: int
    uses: int
    last_used_at_s: float | None
    used: float
    used_at_s: float
    gain: float
    gain_at_s: float
    quality_sum: float
    quality_count: int

    @classmethod
    def of(cls, example: Example) -> Account:
        """The account of an example as it is now."""
        return cls(
            example.flagged,
            example.merged,
            example.uses,
            example.last_used_at_s,
            example.used,
            example.used_at_s,
            example.gain,
            example.gain_at_s,
            example.quality_sum,
            example.quality_count,
        )


@dataclass(frozen=True, slots=True)
class Restored:
    """A pair on its way in. `account` and `created_at_s` are given to it if it is added; None for a new one."""

    new: NewExample
    account: Account | None = None
    created_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """An example with everything that is kept of it."""

    example: Example
    embedded_text: str
    vector: Vector | None


@dataclass(frozen=True, slots=True)
class Admitted:
    """What became of a pair that was handed to the bank."""

    example: Example
    """The example that now stands for it."""
    outcome: Literal["added", "known", "merged", "replaced", "disagrees", "private"]
    """known: this request was kept before. merged: an agreeing twin stands for it. replaced: it took the place of its
    twin's texts. disagrees: added, and flagged with its twin. private: put aside (store.examples.private_bank), no
    example at all."""


@dataclass(frozen=True, slots=True)
class Depending:
    """What goes with an example when it is removed."""

    merged_requests: int
    """Requests whose pairs were merged into it."""
    stored_answers: int
    """Whole answers that are kept for similar questions."""


@dataclass(frozen=True, slots=True)
class Totals:
    """How much a tenant has in the bank."""

    examples: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Change:
    """One step in the log of examples: an index that takes every step in order holds what the table holds."""

    seq: int
    tenant: str
    id: int
    vector: Vector | None
    """None when removed, and while the example still waits for its embedding."""
    removed: bool
    embedding_version: str
    erase: bool = False
    """Removed because somebody wanted it gone: its vector must leave memory and files soon, not only be passed over."""


@dataclass(frozen=True, slots=True)
class Unembedded:
    """An example that waits for a vector."""

    id: int
    tenant: str
    embedded_text: str


@dataclass(frozen=True, slots=True)
class ExactAnswer:
    """A complete answer that may be replayed for the very same request."""

    body: bytes
    """The final JSON object, as the client would have got it without streaming."""
    content_type: str
    engine: str
    stored_at_s: float
    usage_estimated: bool = False
    """The engine told no usage."""
    ttl_s: float = 0.0
    """For how long after `stored_at_s` it may be replayed, as the store it came from says."""


TEXT_OF_KEY = "of_key"
"""Stands in RequestRecord.no_text of an exact repeat: its texts are those that are kept under its exact key."""


@dataclass(slots=True)
class RequestRecord:
    """What happened to one request: one row of the log, enough to explain it and to evaluate another policy on it.

    Not frozen: setting so many fields of a frozen one takes most of the time that it takes to make a row.
    """

    id: str
    tenant: str
    started_at_s: float
    endpoint: str
    model: str
    engine: str
    """Empty for an exact hit: no engine was asked."""
    outcome: str
    """hit | answered | upstream_error | refused | unavailable | failed | aborted"""
    status: int
    policy: str
    policy_version: str
    probability: float
    reason: str
    example_ids: tuple[int, ...]
    prompt_tokens: int
    completion_tokens: int
    usage_estimated: bool
    cost_usd: float | None
    """None: unpriced."""
    total_ms: float
    first_chunk_ms: float | None
    overhead_ms: float
    stages_ms: str
    """JSON object: stage name to milliseconds."""
    key_id: str = ""
    """The gateway's own key it came by; empty without one."""
    cached_tokens: int = 0
    """Of the prompt's, those the engine had in its prefix cache."""
    continued: str = ""
    """Engines that carried the answer on where the one before broke off, with commas between."""
    reference_cost_usd: float | None = None
    """What the model's reference engine would have charged, by its price; None where nobody reckoned."""
    exact_key: bytes | None = None
    """Under which its answer was looked for, or kept, for exact repeats."""
    failed_over: str = ""
    """The engine that was decided on and how it failed, where another one answered: such as `large; server`."""
    trail: str = ""
    """JSON object: `tried`, who was asked and what came of it; `error`, what the last one said that failed."""
    api: str = "chat"
    """Which API it spoke."""
    end_user: str = ""
    """The end user that it named, as a digest; empty where it named none."""
    cache_write_tokens: int = 0
    """Of the prompt's, those that were written to a cache and charged for as such."""
    images: int = 0
    service_tier: str = ""
    """The one the answer named."""
    examples_usd: float = 0.0
    """The part of `cost_usd` that examples of ours account for."""
    example_tokens: int = 0
    """The part of `prompt_tokens`, likewise."""
    completion_id: str = ""
    """The `id` of the answer that the client saw; empty when unknown."""
    session: str = ""
    """The digest of the conversation that it belongs to: see store.decisions.session_ids."""
    error_kind: str = ""
    """Why it failed, a code: of engines.errors.Kind, or the refusal's."""
    finish_reason: str = ""
    """Of the answer's first choice."""
    no_text: str = ""
    """Why no text of it is kept, a code; empty where there is one, and where nobody knows. See TEXT_OF_KEY."""
    run: str = ""
    """The run that it belongs to; empty for a plain request."""
    step: str = ""
    """The step of that run. Empty for a call of a workflow, which is all of its run: see `sums_up`."""

    @property
    def sums_up(self) -> bool:
        """Whether its tokens are those of other rows together, so that they count in no sum."""
        return self.run != "" and self.step == ""


MadeBy = Literal["cli", "config", "api"]
"""Where a record was made: on the command line or the admin pages, in the configuration, over the admin API."""


@terms_dataclass(frozen=True, slots=True, config=CLOSED)
class Key(Terms):
    """One of the gateway's own API keys. The secret itself is shown once and never stored."""

    id: str
    tenant: Annotated[str, Field(serialization_alias="tenant_id")]
    name: str
    prefix: Annotated[str, Field(description="How its secret begins, so that a person can recognise it.")]
    created_at_s: Annotated[Moment, Field(serialization_alias="created_at")]
    revoked_at_s: Moment | None = Field(default=None, serialization_alias="revoked_at")
    tenant_name: str = Field(default="", serialization_alias="tenant")
    """What the operator calls the tenant; `tenant` is the id derived from it."""
    source: MadeBy = "cli"
    rotated_until_s: Moment | None = Field(
        default=None,
        serialization_alias="rotated_until",
        description="Until when the secret before the last rotation is still taken; null: it has none.",
    )


@terms_dataclass(frozen=True, slots=True, config=CLOSED)
class Tenant(Terms):
    """What an operator has laid down for a tenant. A tenant without a record has no limits of its own."""

    id: str
    name: str
    created_at_s: Annotated[Moment, Field(serialization_alias="created_at")]
    region: Region = ""
    retention: Retention = Retention()
    source: MadeBy = "cli"
    closed_at_s: Moment | None = Field(default=None, serialization_alias="closed_at")
    """Since when none of its keys opens anything, until somebody opens it again."""


class Found(NamedTuple):
    """A key in force, and what is laid down for its tenant."""

    key: Key
    tenant: Tenant | None
    until_s: float | None
    """When its secret stops being taken; None: never."""


PROOF_LEAST, PROOF_LOWER, PROOF_UPPER, PROOF_COMPARED = (
    "proof.least",
    "proof.lower",
    "proof.upper",
    "proof.compared",
)
"""Names in ChoiceRecord.noted of the bounds that decided whether a small engine may answer, where proof is asked for."""


@dataclass(frozen=True, slots=True)
class ChoiceRecord:
    """What the router saw and weighed for one request: enough to learn from, and to evaluate any other policy on."""

    request_id: str
    tenant: str
    contributor: str
    """As of Example.contributor, so that it goes when its contributor is forgotten."""
    at_s: float
    model: str
    completion_id: str
    """The `id` of the answer the client saw; empty when unknown. Feedback may name it."""
    engine: str
    """Who answered in the end."""
    example_ids: tuple[int, ...]
    """What was sent along, in order."""
    policy: str
    policy_version: str
    probability: float
    """Of the action taken."""
    vector: Vector | None
    """The request's embedding; 16-bit floats on disk."""
    embedding_version: str
    context: Mapping[str, float]
    features_version: str
    actions: tuple[Mapping[str, Any], ...]
    """One JSON object per action, in order: engine, with_examples, probability, probability_without_load, quality,
    cost_usd, latency_s, reward, features; of in_context also deviation and sure (of the quality)
    and allowed."""
    chosen: int
    """Index into `actions`; -1 when what answered is none of them (a stand-in, a forced engine)."""
    chosen_without_load: int
    explored: bool
    floored: bool
    scorer: str
    scorer_features_version: str
    candidates: tuple[Mapping[str, Any], ...]
    """One JSON object per scored candidate, best first: id, similarity, gain, sent (bool); left_out where not chosen;
    counts: how many past answers it stands for, where the rule counted it as near."""
    candidate_features: Vector | None
    """Scalars, [candidates, features], 32-bit floats."""
    quality_alone: float
    quality_with: float
    most_examples: int
    examples_explored: str
    examples_probability: float
    cost_usd: float
    total_ms: float
    first_chunk_ms: float | None
    scope: str = ""
    """Of its instructions, where a proof was asked for."""
    noted: Mapping[str, float] = field(default_factory=dict)
    """What the proof noted (router.proving.standing.Proof), and under the names above the bounds that decided."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """What it was decided with, so that other settings can be replayed: theta, m, max_examples; of in_context also
    preference, own_preference (1: the request's or its key's own), may_explore, offload_cap, learned (lessons of the bandit)
    and picked (index of the rule's action, -1 where a bandit decided); by_proof (1: what is proven decided). Empty in rows
    of earlier releases."""


Source = Literal["user", "judge", "implicit", "label"]


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """How good one answer to a request was: the one that was sent, or another engine's that was asked for comparison."""

    request_id: str
    tenant: str
    at_s: float
    source: Source
    key: str
    """Unique per request: the same key again replaces nothing and adds nothing."""
    engine: str
    example_ids: tuple[int, ...]
    served: bool
    """Whether the client got this answer."""
    quality: float
    """0 to 1; 1 is as good as the reference engine's own answer, or better."""
    probability: float = 1.0
    """With which this outcome was looked for, given the request: judging is sampled."""
    cost_usd: float = 0.0
    """Of finding it out: judge and shadow answers."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float | None = None
    detail: str = "{}"
    """JSON; never text of the request or the answer."""
    id: int = 0
    """Its place in the log; 0 before it is stored."""


@dataclass(frozen=True, slots=True)
class ArtifactRecord:
    """One version of something learnt. Its bytes lie in a file whose checksum is here."""

    id: int
    kind: str
    """scorer, bandit or counts."""
    tenant: str
    """Whose outcomes it was learnt from; empty for what the operator brought (labels of their own), which all may use."""
    model: str
    """The served model it is for; empty for any."""
    created_at_s: float
    sha256: str
    size_bytes: int
    parent: int | None
    """The version it was trained from, or beat."""
    metrics: Mapping[str, Any]
    note: str
    state: Literal["active", "retired", "rejected"]


AnsweredBy = Literal["teacher", "student", "other", "sample", "person"]
"""Who gave a task's answer, or said what is right: `other` is an engine that teaches nothing, `sample` the teacher, asked in
the background about a request that another engine answered."""


DRAWN, ALL_TO_TEACHER = 1, 2
"""Why what the teacher said to a task's request is a fair comparison: it was drawn for one; what the student left was the
teacher's at that time."""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What was learnt of one request of a task. A label by a person or a sample is a later row of the same request."""

    tenant: str
    slot: str
    """Names the task: router.tasks.task.Task.slot."""
    request_id: str
    at_s: float
    answered_by: AnsweredBy
    input: str = ""
    """What the request does not share with others of the task, with what is private in it replaced."""
    label: str | None = None
    """The teacher's or a person's; None where the student answered, and where the teacher gave none."""
    unread: str = ""
    """Why the teacher's answer is no label: a short code; empty where it is one."""
    answer: str = ""
    """The teacher's text as it came, or another engine's; empty where it is no label."""
    soft: Mapping[str, float] | None = None
    """The teacher's probabilities by label, where it told them."""
    weight: float = 1.0
    student_label: str | None = None
    """What the student made of it, whoever answered; None where there was none, or it might not tell."""
    confidence: float | None = None
    """The student's, 0 to 1."""
    version: int | None = None
    """The student's."""
    checked: int = 0
    """DRAWN, ALL_TO_TEACHER, their sum, or 0; from the third bit on what router.tasks.takeover notes."""
    contributor: str = ""
    """As of Example.contributor, so that it goes when its contributor is forgotten."""
    end_user: str = ""
    """The end user's digest where end users are told apart; empty: what the tenant shares."""
    vector: Vector | None = None
    """The input's embedding; 16-bit floats on disk."""
    embedding_version: str = ""
    id: int = 0
    """Its place in the log; 0 before it is stored."""
