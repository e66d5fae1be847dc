"""Defines what carries runs out is handed: in whose name a step is asked, and its door. Interfaces only.

The gateway's side is gateway.runs.step_door: a step is let in, limited, answered and booked there as a request is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from engines.chat import ChatRequest, Usage
from engines.engine import Price
from engines.placement import Placement

Begun = Callable[[str], Awaitable[bool]]
"""Takes the id of a step's request once it is let in; False: it is no longer wanted, and is not asked."""


class Caller(Protocol):
    """The client behind a step. Never changed in place."""

    @property
    def tenant(self) -> str: ...

    @property
    def key_id(self) -> str | None: ...

    @property
    def contributor(self) -> str: ...

    @property
    def end_user(self) -> str: ...

    @property
    def no_store(self) -> bool:
        """Tell if nothing of its requests may be stored."""
        ...

    @property
    def credential_lost(self) -> bool:
        """Tell if it came with a credential for an upstream, which ended with the worker that it came to."""
        ...

    def kept(self) -> dict[str, Any]:
        """As JSON, without any credential: what another worker needs to ask in its name."""
        ...

    def stored_nowhere(self) -> Caller:
        """The same, of whose requests nothing is stored."""
        ...


@dataclass(slots=True)
class Answered:
    """The result of asking a chat."""

    status: int = 0
    """The status of the answer; 0 if none came."""
    text: str = ""
    refusal: str = ""
    """The engine's own error, where its answer is one."""
    broken: str = ""
    """Why the answer broke off after it had begun."""
    too_large: bool = False
    """Its text was longer than it might be, and the rest was not read."""
    calls_tools: bool = False
    """It holds calls of tools, and no text."""
    finish_reason: str = ""
    """Why the engine ended it; empty if it did not say."""
    engine: str = ""
    replica: str = ""
    asked_s: float | None = None
    """Seconds from its arrival to the engine's start; None if no engine was asked."""
    usage: Usage | None = None
    """None if no answer came, or nobody heard its end."""
    cost_usd: float = 0.0
    kept: bool = False
    """It was answered with a kept answer: no engine was asked, and nothing is charged."""
    repeatable: bool = True
    """True if it may be given to who asks the same again: no stand-in or student gave it, and its engine allows it."""
    calls: list[dict[str, Any]] = field(default_factory=list)
    """The calls of tools that it holds."""


class Bill(Protocol):
    """The amount that a step at a component has set aside."""

    def settle(self, usd: float, usage: Usage | None) -> object:
        """It cost so many dollars, and so many tokens, if any."""
        ...


class Door(Protocol):
    """Asks steps. What it raises for one is RequestError, EngineError or LookupError (nobody serves the model)."""

    async def ask(
        self,
        caller: Caller,
        chat: ChatRequest,
        placement: Placement,
        said: Callable[[str], object],
        max_text_bytes: int,
        begun: Begun,
    ) -> Answered | None:
        """The answer to a chat, whose text `said` takes as it comes; None if `begun` says that it is not wanted."""
        ...

    async def call(
        self,
        caller: Caller,
        chat: ChatRequest,
        placement: Placement,
        said: Callable[[str], object],
        max_text_bytes: int,
        client: Any,
        run_id: str,
        noted: Callable[[str], object],
    ) -> Answered:
        """The same for a step that its client's own request carries out: `client` gets the answer, too. `noted` takes the
        request's id."""
        ...

    def component(self, caller: Caller, name: str) -> Any:
        """Let a step ask a component, or what is kept here (an empty `name`). Raises RequestError. What it gives is for
        `reserve` and `book`."""
        ...

    async def reserve(self, admitted: Any, name: str, usd: float) -> Bill | None:
        """Set aside what a step may cost at a component; None if nothing of it is limited. Raises RequestError."""
        ...

    def book(self, admitted: Any, name: str, items: int, usd: float) -> None:
        """A component has charged so much."""
        ...

    def most(self, chat: ChatRequest) -> tuple[float, int]:
        """(dollars, tokens) that a chat may take."""
        ...

    def prices(self, model: str) -> Mapping[str, Price]:
        """Return the prices of a model's engines, by name."""
        ...

    def may_ask(self, model: str) -> bool:
        """Tell if a model can be asked without the client's own credential."""
        ...

    def caller(self, tenant: str, kept: Mapping[str, Any]) -> Caller:
        """The caller that `Caller.kept` was of."""
        ...
