"""What the pages read and change: the open store, and what the gateway provides because admin must not import it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from admin.actions import OperatorActions
from learning.evaluation.replayed import Exploring
from learning.guarantee.summary import ScopeSummary
from router.guarantee.floor import FloorSettings
from router.stand_ins import ANYBODY, StandIns
from router.tasks.task import Task
from store import Store
from store.decisions.rollups import RequestRollups
from store.jobs.replay_records import ReplayBudget
from store.people.sessions import AdminSessions
from store.sums import DELETED
from store.tasks.tasks import TaskRow
from workflows.declared import World, read_definition
from workflows.definition import Definition
from workflows.plan import Profile


def read_nothing(name: str, value: Any) -> Definition:
    """As where no model is served: raises DefinitionError for every chat."""
    return read_definition(name, value, World({}, lambda model: False, lambda taken: False))


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """An engine's configuration."""

    name: str
    kind: str
    model: str
    """The model name that the engine expects; empty if it takes the client's."""
    address: str
    """Base URL, without credentials; empty for an engine without one."""
    input_usd_per_mtok: float | None
    output_usd_per_mtok: float | None
    """None: unpriced."""
    context_tokens: int | None
    max_in_flight: int


@dataclass(frozen=True, slots=True)
class ServedFacts:
    """A model name that clients ask for, and the engines that may answer it."""

    name: str
    engines: tuple[str, ...]
    """Small to large; the last is the reference."""
    policy: str
    max_loss: float | None = None
    """The quality floor: the largest mean loss allowed; None without a floor."""
    floor: FloorSettings | None = None
    """The promise that limits what is offloaded; None without one."""
    exploring: Exploring | None = None
    """How in_context draws its actions; None for other policies."""
    stand_ins: StandIns = ANYBODY
    """Who answers where an engine of it cannot."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in force."""

    key: str
    """Dotted name, as in the configuration file."""
    value: str
    """As YAML; secrets masked."""
    source: str
    """"default", "file", "command line", or "environment: NAME"."""
    description: str


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a pasted configuration."""

    problems: tuple[str, ...]
    """Why it cannot be used; empty if it can."""
    changes: tuple[tuple[str, str, str], ...]
    """(key, present value, new value), secrets masked."""


@dataclass(frozen=True, slots=True)
class ReplayFacts:
    """The configuration of replay."""

    enabled: bool = False
    """Whether a process runs the wanted runs."""
    schedule: str = ""
    """A sentence about when it runs by itself."""
    next_s: Callable[[float], float | None] = field(default=lambda now_s: None)
    """When it runs next, by a schedule of the clock; None where that is not known."""
    lacks: str = ""
    """A sentence about what it needs and does not have; empty if nothing."""
    budget: ReplayBudget = field(default_factory=ReplayBudget)
    """Largest budget of one run."""


@dataclass(frozen=True, slots=True)
class WorkflowFacts:
    """The workflows of the configuration, and what tenants' own are read with."""

    configured: Mapping[str, Definition] = field(default_factory=dict)
    read: Callable[[str, Any], Definition] = field(default=read_nothing)
    """The definition of that name and JSON; raises workflows.declared.DefinitionError for what cannot be carried out."""
    profile: Callable[[], Profile] = field(default=Profile)
    """What is known of engines and components without asking them."""


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    """What the gateway tells the pages about itself, and does for them."""

    engines: tuple[EngineFacts, ...] = ()
    models: tuple[ServedFacts, ...] = ()
    settings: Callable[[], Sequence[Setting]] = field(default=lambda: ())
    settings_news: Callable[[], Sequence[str]] = field(default=lambda: ())
    """What a restart would change because the file was changed, or why the file could not be used."""
    check: Callable[[str], Checked] = field(default=lambda text: Checked((), ()))
    config_file: str = ""
    """Path of the configuration file; empty without one."""
    gateway_url: str = ""
    replay: ReplayFacts = field(default_factory=ReplayFacts)
    workflows: WorkflowFacts = field(default_factory=WorkflowFacts)
    infer: bool = False
    """Whether applications are found in plain calls (applications.infer)."""
    judged: bool = False
    """Whether a judge is configured: without one quality is known from feedback only."""
    quality_alarm: float = 0.9
    """Mean quality of offloaded answers below which the overview warns."""
    proven: Callable[[], Sequence[ScopeSummary]] = field(default=lambda: ())
    """What is proven of small engines, per scope."""
    task_of: Callable[[TaskRow], Task | None] = field(default=lambda row: None)
    """A listed task with its settings; None where it is none under this configuration."""
    actions: OperatorActions = field(default_factory=OperatorActions)

    def references(self) -> dict[str, str]:
        """The reference engine of every served model, by the model's name."""
        return {model.name: model.engines[-1] for model in self.models}


class Closeable(Protocol):
    """Background work of the pages that ends with them."""

    def close(self) -> None:
        """Ends it."""


Made = TypeVar("Made", bound=Closeable)


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that a summary may read, and an action may change."""

    store: Store
    sessions: AdminSessions
    rollups: RequestRollups
    gateway: GatewayInfo
    open_store: Callable[[], Store]
    """Opens the same store again, in a process of its own; picklable."""
    _shared: dict[str, Closeable] = field(default_factory=dict)
    _making: threading.Lock = field(default_factory=threading.Lock)

    def shared(self, name: str, make: Callable[[], Made]) -> Made:
        """The object that all pages share under this name, made at its first use; `close` closes it."""
        with self._making:
            if name not in self._shared:
                self._shared[name] = make()
            return self._shared[name]  # type: ignore[return-value]

    def close(self) -> None:
        """Ends background work. The store stays open: whoever opened it closes it, after this."""
        with self._making:
            for each in self._shared.values():
                each.close()

    def tenant_names(self) -> dict[str, str]:
        """The operator's names by tenant id, of tenants that keys were made for, and of deleted ones together."""
        names = {key.tenant: key.tenant_name for key in self.store.keys.listed()}
        return names | {DELETED: "Deleted tenants"}
