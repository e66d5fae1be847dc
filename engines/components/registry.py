"""All components of a process by name: see engines.components.component.Components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engines.closing import close_all
from engines.components import tokens
from engines.components.batch import EffectiveBatch
from engines.components.component import Ability, ComponentLimits, Work
from engines.components.counting import UNCOUNTED, Uncounted
from engines.components.embeddings import EmbeddingsOverHTTP
from engines.components.http import URLAsked
from engines.components.rerank import RerankOverHTTP
from engines.components.running import Ask, Portion, Running
from engines.components.tool import Call, ToolOverHTTP
from engines.components.web_search import WebSearch
from engines.servers.server import Server

if TYPE_CHECKING:
    from engines.components.component import ComponentSpec, Vectors

Offsets = Callable[[str], list[tuple[int, int]]]
Counted = Callable[[str, Ability], Uncounted]
"""Who counts an ability of a component."""
_BATCHED: tuple[Ability, ...] = ("embed", "rerank")


@dataclass(frozen=True, slots=True)
class Member:
    """One component: how each of its abilities is carried out."""

    name: str
    limits: ComponentLimits
    asks: Mapping[Ability, Ask[Any, Any]]
    identity: Callable[[], str] = str
    """Of its embeddings. See Components."""
    offsets: Offsets = tokens.offsets
    url: URLAsked | None = None
    """What stands behind it, where that is asked over HTTP."""
    one_by_one: bool = False
    """Whether nothing is gained by several texts in one request."""
    closing: Callable[[], None] = field(default=lambda: None)

    async def aclose(self) -> None:
        """End it, and close its connections."""
        self.closing()
        if self.url is not None:
            await self.url.aclose()


def over_http(spec: ComponentSpec) -> Member:
    """A component of kind openai, rerank, search or tool. Raises ValueError for a URL that cannot be."""
    one: EmbeddingsOverHTTP | RerankOverHTTP | WebSearch | ToolOverHTTP
    identity: Callable[[], str] = str
    if spec.kind == "openai":
        one = EmbeddingsOverHTTP(spec)
        identity = one.identity
    elif spec.kind == "rerank":
        one = RerankOverHTTP(spec)
    elif spec.kind == "search":
        one = WebSearch(spec)
    elif spec.kind == "tool":
        one = ToolOverHTTP(spec)
    else:
        raise ValueError(f"a component of kind {spec.kind} is not asked over HTTP")
    return Member(spec.name, spec.limits, {spec.abilities[0]: one.ask}, identity, url=one.url)


def uncounted(component: str, ability: Ability) -> Uncounted:
    """Nobody counts."""
    return UNCOUNTED


class ComponentRegistry:
    """Implements Components over its members."""

    def __init__(self, members: Iterable[Member], counted: Counted = lambda name, ability: UNCOUNTED) -> None:
        self._members = {member.name: member for member in members}
        self._running: dict[tuple[str, Ability], Running[Any, Any]] = {}
        for member in self._members.values():
            for ability, ask in member.asks.items():
                self._running[member.name, ability] = _running(member, ability, ask, counted)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    # ---- what workflows ask: see Components

    async def embed(self, name: str, texts: Sequence[str], work: Work) -> Vectors:
        """See Components."""
        import numpy as np

        rows = await self._running[name, "embed"].of(Portion(None, texts), work)
        return np.array(rows, dtype=np.float32) if rows else np.empty((0, 0), np.float32)

    async def rerank(self, name: str, query: str, texts: Sequence[str], work: Work) -> list[float]:
        """See Components."""
        return await self._running[name, "rerank"].of(Portion(query, texts), work)

    async def search(self, name: str, query: str, k: int, work: Work) -> list[str]:
        """See Components."""
        found: list[list[str]] = await self._running[name, "search"].of(Portion(k, [query]), work)
        return found[0]

    async def call(
        self, name: str, args: Mapping[str, Any], work: Work, idempotency_key: str, may_retry: bool
    ) -> str:
        """See Components."""
        call = Call(args, idempotency_key, may_retry)
        found: list[str] = await self._running[name, "tool"].of(Portion(None, [call]), work)
        return found[0]

    def offsets(self, name: str, text: str) -> list[tuple[int, int]]:
        """See Components."""
        return self._members[name].offsets(text)

    def effective_batch(self, name: str) -> int:
        """See Components. Of a component with several abilities: of the first that is batched."""
        for ability in _BATCHED:
            if (running := self._running.get((name, ability))) is not None:
                return running.batch.size
        if name not in self._members:
            raise KeyError(name)
        return 1

    def identity(self, name: str) -> str:
        """See Components."""
        return self._members[name].identity()

    # ---- for pages, metrics and the prober

    @property
    def probed(self) -> list[Server]:
        """Those that may be asked in the background whether they live."""
        urls = [member.url for member in self._members.values() if member.url is not None]
        return [server for url in urls if url.probed for server in url.servers]

    def load(self) -> Mapping[tuple[str, Ability], tuple[int, int, int]]:
        """By component and ability: texts that wait, requests under way, and the effective batch as far as known."""
        return {
            key: (running.waiting, running.in_flight, running.batch.size)
            for key, running in self._running.items()
        }

    # ---- life

    def start(self) -> None:
        """See Components."""

    async def aclose(self) -> None:
        """See Components."""
        for running in self._running.values():
            await running.aclose()
        await close_all([member.aclose for member in self._members.values()])


def _running(member: Member, ability: Ability, ask: Ask[Any, Any], counted: Counted) -> Running[Any, Any]:
    batched = ability in _BATCHED and not member.one_by_one
    return Running(
        member.name,
        ask,
        max_in_flight=member.limits.max_in_flight * (1 if member.url is None else len(member.url.servers)),
        max_queued=member.limits.max_queued,
        batch=EffectiveBatch(member.limits.batch if batched else 1),
        told=counted(member.name, ability),
        label=member.name if len(member.asks) == 1 else f"{member.name}.{ability}",
    )
