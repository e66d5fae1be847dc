"""What pages are made from: the open store, and what the gateway hands over because admin must not import it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from admin.hands import Hands
from store import Store
from store.decisions.rollups import RequestRollups
from store.jobs.replay_records import ReplayBudget
from store.people.sessions import AdminSessions


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the configuration says of an engine."""

    name: str
    kind: str
    model: str
    """The model name it expects; empty when it takes the client's."""
    address: str
    """Its base URL, which holds no credentials; empty for an engine without one."""
    input_usd_per_mtok: float
    output_usd_per_mtok: float
    context_tokens: int | None
    max_in_flight: int


@dataclass(frozen=True, slots=True)
class ServedFacts:
    """A model name clients ask for, and who may answer it."""

    name: str
    engines: tuple[str, ...]
    """Small to large; the last is the reference."""
    policy: str
    max_loss: float | None = None
    """The quality floor: the largest mean loss that is promised; None for no promise."""
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in force."""

    key: str
    """Dotted, as in the configuration file."""
    value: str
    """As YAML; secrets masked."""
    source: str
    """default, file, command line, or environment: NAME."""
    description: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What a pasted configuration comes to."""

    problems: tuple[str, ...]
    """Empty when it could be used."""
    changes: tuple[tuple[str, str, str], ...]
    """(key, value now, value then), secrets masked."""


@dataclass(frozen=True, slots=True)
class ReplayFacts:
    """How replay is set."""

    enabled: bool = False
    """Whether a process runs what is wanted."""
    schedule: str = ""
    """When it runs by itself, in a sentence."""
    lacks: str = ""
    """What it needs and does not have, in a sentence; empty when nothing."""
    budget: ReplayBudget = field(default_factory=ReplayBudget)
    """What one run may spend at most."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the gateway hands over."""

    engines: tuple[EngineFacts, ...] = ()
    models: tuple[ServedFacts, ...] = ()
    settings: Callable[[], Sequence[Setting]] = field(default=lambda: ())
    settings_news: Callable[[], Sequence[str]] = field(default=lambda: ())
    """What a restart would change, since the file was changed; or why the file could not be used."""
    check: Callable[[str], Checked] = field(default=lambda text: Checked((), ()))
    config_file: str = ""
    """Where the settings came from; empty for a command line."""
    gateway_url: str = ""
    replay: ReplayFacts = field(default_factory=ReplayFacts)
    judged: bool = False
    """Whether a judge is configured: without one quality is known from feedback only."""
    hands: Hands = field(default_factory=Hands)
    """What it does for the pages."""


class Lasting(Protocol):
    """What goes on beside the pages, and ends with them."""

    def close(self) -> None:
        """End it."""


Made = TypeVar("Made", bound=Lasting)


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything a summary may look at, and an action may change."""

    store: Store
    sessions: AdminSessions
    rollups: RequestRollups
    given: Given
    _lasting: dict[str, Lasting] = field(default_factory=dict)
    _making: threading.Lock = field(default_factory=threading.Lock)

    def lasting(self, name: str, make: Callable[[], Made]) -> Made:
        """What all pages share under this name, made at its first use; `close` ends it."""
        with self._making:
            if name not in self._lasting:
                self._lasting[name] = make()
            return self._lasting[name]  # type: ignore[return-value]

    def close(self) -> None:
        """End what goes on in the background. The store stays open: whoever opened it closes it, after this."""
        with self._making:
            for each in self._lasting.values():
                each.close()

    def tenant_names(self) -> dict[str, str]:
        """Tenant id to what the operator calls it, for tenants that keys were made for."""
        return {key.tenant: key.tenant_name for key in self.store.keys.list()}
