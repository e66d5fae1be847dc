"""Frozen rows of runs, steps and variables, and the errors of writing them. Nothing here knows SQL or what a template is.

Times are Unix seconds as the caller's clock has them. Ids are the caller's: 128 random bits, so that one says nothing of
another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

RunState = Literal["running", "done", "failed", "cancelled"]
StepState = Literal["waiting", "queued", "running", "done", "failed", "cancelled", "skipped", "unknown"]
"""unknown: a step with side effects was cut off while it was asked: it waits for a `Resolution`."""
VariableState = Literal["pending", "streaming", "ready", "failed", "cancelled", "skipped"]
Value = str | tuple[str, ...]
"""A text, or a list of texts."""


class VariableExists(Exception):
    """Names that are taken in their app, or variables that were written already; `names` has them."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"already there: {', '.join(names)}")
        self.names = tuple(names)


class IdempotencyConflict(Exception):
    """The tenant used this idempotency key for another request."""


class TooManyRuns(Exception):
    """The tenant has as many live runs as it may."""


class TooManyBytes(Exception):
    """The tenant's values would take more room than they may."""


class NoSuchRun(Exception):
    """There is no such run of that tenant, or it has ended."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tenant may have at once. None is no limit."""

    max_runs: int | None = None
    """Live runs."""
    max_total_bytes: int | None = None
    """Of values, of the bodies of steps, of definitions and of the texts of collections, in UTF-8; vectors count, too."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker writes into the steps that it carries out."""

    worker: str
    """Names the process, different after every start."""
    for_s: float
    """From then on, by the database's clock, another worker may claim them."""


@dataclass(frozen=True, slots=True)
class RunBudget:
    """What a run may spend; None is no limit."""

    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run, a step or a variable failed."""

    code: str
    """As in an error of the API: producer_failed, transform_failed, budget_exceeded... Stays when texts go."""
    message: str = ""
    """May quote the client's texts: goes with the values."""
    status: int = 0
    """Of the engine's answer; 0 where no engine answered."""
    chain: tuple[str, ...] = ()
    """Names of variables, from this one to where the failure began. Stays."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is to be carried out."""

    id: str
    tenant: str
    created_at_s: float
    key_id: str = ""
    contributor: str = ""
    """As of Example.contributor, so that it goes when its contributor is forgotten."""
    app: str = ""
    no_store: bool = False
    """Neither bodies nor values nor context are written: a restart fails the run."""
    background: bool = False
    """Goes on when the client leaves."""
    gets: Mapping[str, str] = field(default_factory=dict)
    """Variable id to criteria: latency, ttft or throughput."""
    budget: RunBudget = RunBudget()
    keep_values_s: float = 3600.0
    """How long values live after the run's end."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """JSON: what whoever carries the run on needs to ask in the client's name, and no credential. Goes with the values."""
    idempotency_key: str = ""
    """Of the tenant; empty for none. Held as long as the run's row."""
    idempotency_hash: bytes = b""
    """Of the request: tells a repeat from another request under the same key."""
    workflow: str = ""
    """The name of the workflow it is a run of; empty for steps that came one by one, or as a graph."""
    version: str = ""
    """Of that workflow."""
    end_user: str = ""
    """Whose it is, as a digest, where each end user has a memory of their own; empty: the tenant's."""


@dataclass(frozen=True, slots=True)
class NewStep:
    """One step of a run, as it was asked for."""

    id: str
    """Unique in its run."""
    name: str = ""
    model: str = ""
    body: bytes = b""
    """What is asked: the chat body, its transforms. The store does not read it. Goes with the values."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """Template name to variable id."""
    writes: Mapping[str, str] = field(default_factory=dict)
    """Output name to variable id."""
    contributor: str = ""
    """Who asked for it, where that is another than the run's: the whole run is forgotten with them."""
    primitive: str = "chat"
    """embed, ingest, search, rerank, tool, gather...: what kind of work it is."""
    component: str = ""
    """Who does it, where that is no engine and not the gateway itself."""
    effects: bool = False
    """It is asked once, and its row is there before."""
    waits: tuple[str, ...] = ()
    """Variables that it waits for without reading them."""
    held_bytes: int = 0
    """Of what a process holds of it in memory only: counts as a body does, while its run goes on."""

    @property
    def size_bytes(self) -> int:
        """What it counts with, stored or not."""
        return len(self.body) + self.held_bytes


@dataclass(slots=True)
class StepProgress:
    """How far a step is: what changes. A copy is written, every field of it, with each change."""

    state: StepState = "waiting"
    attempts: int = 0
    """How often an engine was asked, or was about to be."""
    rank: str = ""
    """latency, group or throughput; empty before it is known."""
    group: str = ""
    depth: int = 0
    engine: str = ""
    replica: str = ""
    request_id: str = ""
    """Of its row in the log of requests."""
    ready_at_s: float | None = None
    """When its last input was there."""
    queued_at_s: float | None = None
    started_at_s: float | None = None
    """When the engine began (prefill)."""
    first_at_s: float | None = None
    """When the first token came (decode)."""
    ended_at_s: float | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    items: int = 0
    """How many texts, queries or pairs it works on; 0 where it works on one thing."""
    batch: str = ""
    """Unique among all processes: steps of any run that went to their component in one call. Of several, the last."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Resolution:
    """What somebody decided about a step whose outcome is unknown."""

    how: Literal["retry", "skip", "value"]
    value: Value | None = None
    """Taken for the step's answer where `how` is value."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step and how far it is."""

    run_id: str
    position: int
    plan: NewStep
    progress: StepProgress
    resolution: Resolution | None = None
    """Decided, and not acted on yet."""
    claimed_by: str = ""
    """The worker that carries it out, or did."""


@dataclass(frozen=True, slots=True)
class NewVariable:
    """A variable that is declared, or set at once where `value` is given.

    One whose id is there already, of the same tenant and name, pending and without a producer, gets this producer.
    """

    id: str
    name: str = ""
    app: str = ""
    """Names are unique within tenant and app; without an app there is no look-up by name."""
    step: str = ""
    """The step that produces it, in the run that it is begun with; empty: nobody does, it is set."""
    value: Value | None = None
    end_user: str = ""
    """As of NewRun."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable. Written once: what has ended does not change any more."""

    id: str
    tenant: str
    app: str
    name: str
    run_id: str
    """Empty: it was declared or set by itself."""
    step: str
    state: VariableState
    value: Value | None
    """None unless ready; also None when its run is not stored."""
    failure: Failure | None
    attempt: int
    """How often its text began anew because a process died: what was read of an earlier attempt does not count."""
    size_bytes: int
    created_at_s: float
    ended_at_s: float | None
    expires_at_s: float | None
    """None while its run goes on."""
    end_user: str = ""
    """As of NewRun."""


@dataclass(frozen=True, slots=True)
class VariableEnd:
    """How a variable ended."""

    id: str
    state: VariableState
    value: Value | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended. What had not ended of it must be ended in the same change."""

    state: RunState
    at_s: float
    failure: Failure | None = None
    critical_path: tuple[str, ...] = ()
    """Step ids."""
    round_trips_saved: int = 0


@dataclass(frozen=True, slots=True)
class RunChange:
    """What happened to one run, written in one transaction: a step is never done without its values being there."""

    run_id: str
    at_s: float
    steps: Mapping[str, StepProgress] = field(default_factory=dict)
    streaming: Sequence[str] = ()
    """Variables of which the first text came."""
    variables: Sequence[VariableEnd] = ()
    end: RunEnd | None = None
    new_steps: Sequence[NewStep] = ()
    """Steps that it grew by."""
    new_variables: Sequence[NewVariable] = ()
    reads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """All that a step reads, by step, where it has learned of more: template name to variable id."""


@dataclass(frozen=True, slots=True)
class Run(NewRun):
    """A run, as it was asked for and as it is. Its context is empty once its values are gone."""

    state: RunState = "running"
    cancel_asked: bool = False
    adoptions: int = 0
    """How often another worker claimed its steps, as the one that had them ended."""
    ended_at_s: float | None = None
    expires_at_s: float | None = None
    """When its values go."""
    failure: Failure | None = None
    critical_path: tuple[str, ...] = ()
    round_trips_saved: int = 0


@dataclass(frozen=True, slots=True)
class Sharer:
    """A step that went to its component in one call with others."""

    batch: str
    tenant: str
    run_id: str
    step: str
    items: int


@dataclass(frozen=True, slots=True)
class WholeRun:
    """A run with its steps in their order and its variables, ended or not, expired ones without a value."""

    run: Run
    steps: tuple[Step, ...]
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list."""

    run: Run
    steps: Mapping[str, int]
    """How many are in which state."""
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class Begun:
    """What became of `begin`."""

    run_id: str
    repeated: bool
    """The idempotency key was used before: this is the run of then, and nothing was written."""


@dataclass(frozen=True, slots=True)
class TenantUse:
    """What a tenant has at the moment."""

    live_runs: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class News:
    """What others did to runs that a worker carries out."""

    there: frozenset[str]
    """The runs that are not forgotten."""
    lost: frozenset[str]
    """Runs that another worker has claimed."""
    cancelled: frozenset[str]
    """Runs that are to be cancelled."""
    gets: Mapping[str, Mapping[str, str]]
    """By run: variables that somebody waits for, with the strictest criteria."""
    streamed: frozenset[str]
    """Variables whose text somebody reads elsewhere as it comes."""
    resolved: Sequence[tuple[str, str, Resolution]]
    """(run, step, what was decided) of steps whose outcome is unknown."""
