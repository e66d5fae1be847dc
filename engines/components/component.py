"""What a component is told and what it may say: the values that workflows and components exchange.

A component is an engine that is no chat: it embeds, reranks, searches the web or is a tool. It is described by a
`ComponentSpec` that the settings make, and asked through `Components` by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from engines.errors import Kind as Failure

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]
    """Embeddings, float32 (texts, dimensions), of any length."""

Kind = Literal["local", "openai", "rerank", "search", "tool", "simulated"]
Ability = Literal["embed", "rerank", "search", "tool"]
ABILITIES: Mapping[Kind, tuple[Ability, ...]] = MappingProxyType(
    {
        "local": ("embed", "rerank"),
        "openai": ("embed",),
        "rerank": ("rerank",),
        "search": ("search",),
        "tool": ("tool",),
        "simulated": ("embed", "rerank", "search", "tool"),
    }
)
"""What a component of each kind can be asked for."""


@dataclass(frozen=True, slots=True)
class ComponentLimits:
    """How much is asked of a component at once, and how long that may take."""

    max_in_flight: int
    """Requests under way at once; more wait in its queue."""
    batch: int | None
    """Most texts in one request; None: measured (doubled until throughput gains less than 5 %)."""
    attempts: int
    """Most tries of one request, the first included. A tool with effects is asked once."""
    answer_s: float
    """Longest wait for a whole answer."""
    max_queued: int
    """Parts of steps that may wait for it; more fail at once."""
    connect_s: float
    max_answer_bytes: int
    breaker_failures: int
    """Consecutive failures that open its circuit breaker."""
    breaker_open_s: float


@dataclass(frozen=True, slots=True)
class OverHTTP:
    """Where a component is asked. From the configuration only, never from a request."""

    url: str
    """`openai`: base URL, below which `/embeddings` is. Else the whole URL; of a search its query may hold `{query}` and
    `{k}` as values."""
    api_key: str | None = field(default=None, repr=False)
    """Sent as a bearer token."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further headers to send on every request, as Brave's `X-Subscription-Token`."""
    model: str = ""
    """Sent as `model`; empty: none is sent."""
    dimensions: int | None = None
    """Of an embedder: asked for as `dimensions`, and what is due. None: whatever its first answer has is due."""
    further_urls: tuple[str, ...] = ()
    """Further servers that answer the same (embedders and rerankers): each request goes to one of them."""


@dataclass(frozen=True, slots=True)
class SearchShape:
    """How the answer of a web search is read."""

    hits: str
    """JSON pointer to the array of hits."""
    text: tuple[str, ...]
    """JSON pointers within a hit to its texts, as `/title` and `/description`: a line each."""
    body: Mapping[str, Any] | None = None
    """Asked by POST with this JSON object, in which the values "{query}" and "{k}" are replaced; None: by GET."""


@dataclass(frozen=True, slots=True)
class ToolShape:
    """What a tool takes and answers. JSON schemas of the keywords that engines.components.schema knows."""

    args: Mapping[str, Any]
    """Schema of its arguments, which are sent as a JSON object (POST) or as query values (GET)."""
    answer: Mapping[str, Any] | None
    """Schema of its answer; None: anything, also a text that is no JSON."""
    text: str
    """JSON pointer to what is taken of its answer; empty: all of it."""
    method: Literal["POST", "GET"] = "POST"


@dataclass(frozen=True, slots=True)
class SimulatedPace:
    """How long a simulated component takes: `fixed_s` for a request, and `per_item_s` for each text or query in it."""

    fixed_s: float
    per_item_s: float
    dimensions: int


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """One configured component. `local` needs `limits` only; the other fields are each of the kinds that read them."""

    name: str
    kind: Kind
    limits: ComponentLimits
    http: OverHTTP | None = None
    """Of `openai`, `rerank`, `search` and `tool`."""
    search: SearchShape | None = None
    tool: ToolShape | None = None
    pace: SimulatedPace | None = None

    @property
    def abilities(self) -> tuple[Ability, ...]:
        """What it can be asked for."""
        return ABILITIES[self.kind]


@dataclass(frozen=True, slots=True)
class Shared:
    """One request to a component, as one step saw it: for the page of its run."""

    batch: str
    """Names the request: steps with the same name shared it."""
    items: int
    """How many of its texts were this step's."""
    size: int
    """How many it held in all."""
    waited_s: float
    took_s: float


@dataclass(frozen=True, slots=True)
class Work:
    """Where a request to a component stands: whose run, which step, how far from the run's output."""

    run: str
    tenant: str
    step: str
    depth: int
    """Steps to the output; the deepest of a run go first."""
    arrived_s: float
    """When the step could be carried out, by `time.monotonic`."""
    shared: list[Shared] = field(default_factory=list, compare=False)
    """Filled while it is carried out."""


class ComponentError(Exception):
    """A component did not answer, or its answer is none. The text names the component and says what came: numbers, sizes,
    member names, never a text, a key or a URL.

    `kind` as of engines; `retry_after_s` where waiting may help.
    """

    def __init__(
        self,
        message: str,
        *,
        component: str,
        kind: Failure = Failure.INVALID,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.component = component
        self.kind = kind
        self.retry_after_s = retry_after_s


class Components(Protocol):
    """All components of a process, by name. Cancelling a call ends what it asked at once, where nobody shares it.

    Each raises ComponentError; KeyError for a name or an ability that the configuration does not have, which definitions
    are checked for before.
    """

    async def embed(self, name: str, texts: Sequence[str], work: Work) -> Vectors:
        """Float32 (texts, dimensions), in the texts' order."""
        ...

    async def rerank(self, name: str, query: str, texts: Sequence[str], work: Work) -> list[float]:
        """A score for each text, in their order; higher is better. Each is of its text and the query alone."""
        ...

    async def search(self, name: str, query: str, k: int, work: Work) -> list[str]:
        """Texts of up to `k` hits, best first."""
        ...

    async def call(
        self, name: str, args: Mapping[str, Any], work: Work, idempotency_key: str, may_retry: bool
    ) -> str:
        """What a tool answers. `idempotency_key` is sent with it; without `may_retry` it is asked once at most."""
        ...

    def offsets(self, name: str, text: str) -> list[tuple[int, int]]:
        """Begin and end of each token in `text`, in characters, as an embedder reads it. Computes: a long text takes
        milliseconds per 10,000 characters, so call it from a thread."""
        ...

    def effective_batch(self, name: str) -> int:
        """With how many texts in a request its throughput stops to rise, as far as is known; 1 where it takes no batches."""
        ...

    def identity(self, name: str) -> str:
        """Changes whenever its embeddings would: those of different identities must never be compared."""
        ...

    def start(self) -> None:
        """Begin. Inside the running loop."""
        ...

    async def aclose(self) -> None:
        """Cancel what is under way and close all connections."""
        ...
