"""What a process keeps while its configuration changes: the open memory, metrics, engines that stay as they are, runs.

Opened with the first configuration. Each configuration's `understudy.build.Gateway` works on it, one after the other; while
open requests of an older one end, several do.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from prometheus_client import CollectorRegistry

from engines.pool import EnginePool
from gateway.metrics import Metrics
from understudy.background.load_report import LoadMetrics, LoadReporter
from understudy.in_use import InUse
from understudy.parts import Parts
from understudy.settings.config import Config
from understudy.settings.memory import MemorySettings

if TYPE_CHECKING:
    from gateway.limits.ledger import Ledger
    from gateway.runs.runs import Runs
    from understudy.background.engine_watch import EngineWatch
    from understudy.memory import Memory

T = TypeVar("T")


class Serving(Protocol):
    """A configuration's gateway: understudy.build."""

    in_use: InUse

    @property
    def handle(self) -> Callable[[Any], Awaitable[Any]]:
        """Answers a request; see gateway.server.serve."""
        ...

    def handed_over(self) -> bool:
        """Whether everything it answered so far was handed over to the store."""
        ...

    def recorded_to_s(self) -> float:
        """See gateway.recorder.Recorder."""
        ...

    def queued(self) -> float:
        """See gateway.recorder.Recorder."""
        ...


class CannotStart(Exception):
    """The gateway cannot be built as configured. The text says what to do about it."""


class Lasting:
    """See the module. Raises CannotStart. To be closed: first `over`, then every gateway on it, then `aclose`."""

    def __init__(self, config: Config, *, chores: bool = True) -> None:
        """`chores`: this process is among those that keep the memory in order."""
        self.parts = Parts()
        self.over = Parts()
        """What asks the gateway that is serving, and so ends before the last one."""
        self.metrics = Metrics()
        self._made: dict[str, Any] = {}
        self.memory: Memory | None = None
        if config.memory is not None:
            self.memory = opened(config.memory, config, chores=chores)
            self.parts.add(self.memory, stop=self.memory.close)
        self.secret = self.memory.store.secret if self.memory is not None else secrets.token_bytes(32)
        """What tenants' salts hang on. Without memory of this process: several do not share their engines' prefix caches."""
        self.engines = EnginePool()
        store = self.memory.store if self.memory is not None else None
        self.load = LoadReporter(
            store.folder if store is not None else None,
            recorded_to_s=self._recorded_to_s,
            elsewhere=store.jobs.loads if store is not None and store.shared else None,
            metrics=self.series(LoadMetrics),
            all_ended=lambda: self.metrics.all_ended,
        )
        self.load.waits.append(self._queued)
        if self.memory is not None and self.memory.embedder is not None:
            self.load.waits += [self.memory.embedder.deadline.longest, self.memory.retrieval.longest]
        self.parts.add(self.load, stop=self.load.stop)
        self.engine_watch: EngineWatch | None = None
        self.ledger: Ledger | None = None
        self.runs: Runs | None = None
        self.reload_problem = ""
        """Why the latest configuration is not the one that serves; empty where it is."""
        self.serving: Serving | None = None
        """Who answers what comes now."""
        self.draining: set[Serving] = set()
        """Earlier ones, whose requests have not ended."""

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` gave when it was first asked for by this name."""
        if name not in self._made:
            self._made[name] = make()
        found: T = self._made[name]
        return found

    def series(self, kind: Callable[[CollectorRegistry], T]) -> T:
        """The metrics of a class that takes a registry: declared once, however often they are asked for."""
        assert isinstance(kind, type)
        name = f"{kind.__module__}.{kind.__qualname__}"
        make: Callable[[], T] = partial(kind, self.metrics.registry)
        return self.once(name, make)

    async def handle(self, request: Any) -> Any:
        """Answer a request by the configuration in force when it came, to its end."""
        gateway = self.serving
        assert gateway is not None, "begin to serve before requests come"
        with gateway.in_use:
            return await gateway.handle(request)

    def _recorded_to_s(self) -> float:
        gateways = [self.serving, *self.draining]
        return min((one.recorded_to_s() for one in gateways if one is not None), default=time.monotonic())

    def _queued(self) -> float:
        gateways = [self.serving, *self.draining]
        return max((one.queued() for one in gateways if one is not None), default=0.0)

    async def aclose(self) -> None:
        """Finish remembering, close the store."""
        await self.parts.aclose()


def opened(settings: MemorySettings, config: Config, *, chores: bool = True) -> Memory:
    """The memory. Raises CannotStart."""
    # A gateway without memory starts in a fraction of the time and space: nothing of it is even imported.
    from router.embedding.model import EmbeddingModelMissing
    from store.errors import StoreError
    from understudy.memory import Memory

    try:
        return Memory.open(
            settings, config.retention, scores=scores(config), private=config.private, chores=chores
        )
    except (EmbeddingModelMissing, StoreError) as error:
        raise CannotStart(f"memory.data_dir {settings.data_dir}: {error}") from error
    except OSError as error:
        raise CannotStart(
            f"memory.data_dir {settings.data_dir}: {error}; name a folder that this user may write to (--data,"
            " or memory.data_dir)"
        ) from error


def scores(config: Config) -> bool:
    """Whether some policy scores examples, and wants their answers' vectors."""
    return any(model.policy == "in_context" for model in config.models.values())
