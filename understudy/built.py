"""A gateway while it is built: each feature finds here what stands, and adds its own."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from engines.engine import Engine
from gateway.endpoints.handler import Handler
from gateway.endpoints.usage import Bills
from gateway.metrics import Metrics
from router.plan import Policy
from store.changes import Follower
from understudy.opening import opened
from understudy.parts import Parts
from understudy.settings.config import Config

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from engines.openai_http import OpenAIHTTP
    from engines.registry import Registry
    from gateway.admission import Admission
    from gateway.endpoints.by_model import ByModel
    from gateway.endpoints.steps import Steps
    from gateway.guardrails.stage import Guardrails
    from gateway.http.plain import Handle
    from gateway.keepers.embedding import EmbeddingKeeper
    from gateway.keepers.keeper import Keeper
    from gateway.keepers.request import RequestKeeper
    from gateway.keys import Authenticator
    from gateway.limits.limiter import Limiter
    from gateway.passthrough import Passthrough
    from gateway.pipeline import Pipeline
    from gateway.recorder import Recorder
    from gateway.response_owners import ResponseOwners
    from gateway.reuse.stage import SemanticAnswers
    from gateway.same_request import SameRequest
    from gateway.stages.features import Features
    from gateway.telemetry.export import Telemetry
    from learning.bank.contributor import EndUsers
    from learning.bank.example_store import ExampleStore
    from learning.training.metrics import LearningMetrics
    from router.finished import Journey
    from router.proving.standing import Proof
    from router.turns.conversations import Conversations
    from understudy.background.load_report import LoadReporter
    from understudy.memory import Memory
    from understudy.setup.engines import Tenants
    from workflows.called import CallLimits
    from workflows.running.catalogue import Catalogue
    from workflows.running.means import Means
    from workflows.running.runs import Runs

EnginesAs = Callable[[Mapping[str, Engine]], Mapping[str, Engine]]


class Built:
    """What features share. What has no value at first is set by the feature of that name (understudy.features)."""

    load: LoadReporter
    tenants: Tenants
    keys: Authenticator
    engines: Registry
    owners: ResponseOwners
    same: SameRequest
    stages: Features
    admission: Admission
    report: Callable[[Journey], None]
    """Told of everything that ended."""
    threads: Executor
    """Looks examples up."""
    learning_metrics: LearningMetrics
    call_limits: CallLimits
    """Limits of the inputs of one workflow's call."""
    door: Handle
    """Answers a request as if it had come in over HTTP; set once the gateway is built."""
    means: Means
    """What the steps of workflows are carried out with."""

    def __init__(self, config: Config, engines_as: EnginesAs | None, *, chores: bool) -> None:
        """Open the memory. Blocks. Raises CannotStart. See understudy.build.Gateway."""
        self.config = config
        self.engines_as = engines_as
        self.parts = Parts()
        self.metrics = Metrics()
        self.bills = Bills()
        settings = config.memory
        self.memory: Memory | None = None
        if settings is not None:
            self.memory = opened(settings, config, chores=chores)
            self.parts.add(self.memory, stop=self.memory.close)
        self.secret = self.memory.store.secret if self.memory is not None else secrets.token_bytes(32)
        """Tenants' salts are made of it. Without memory each worker has its own, and shares no engine's prefix cache."""
        self._followers: list[Follower] = []
        self.parts.add(self._followers, start=self._follow_all, stop=self._follow_no_more)
        self.telemetry: Telemetry | None = None
        self.end_users: EndUsers | None = None
        self.upstream: OpenAIHTTP | None = None
        self.semantic: SemanticAnswers | None = None
        self.around_examples: Callable[[Keeper], list[Keeper]] = lambda examples: [examples]
        """Puts what belongs to reuse around the keeper of examples."""
        self.limiter: Limiter | None = None
        self.recorder: Recorder | None = None
        self.books: RequestKeeper | None = None
        self.conversations: Conversations | None = None
        """Those of models that are routed; None where none is."""
        self.policies: Mapping[str, Policy] = {}
        self.guardrails: Guardrails | None = None
        self.too_dear: Callable[[str, str, Proof | None], bool] = lambda model, tenant, proof: False
        self.told: Callable[[str, str, float, str], None] | None = None
        self.catalogue: Catalogue | None = None
        self.pipeline: Pipeline | None = None
        self.runs: Runs | None = None
        self.passthrough: Passthrough | None = None
        self.steps: Steps | None = None
        self.by_model: ByModel | None = None
        self.embeddings_kept: EmbeddingKeeper | None = None
        self.endpoints: dict[tuple[str, str], Handler] = {}
        self.otherwise: Handler | None = None
        """What answers all other paths: a feature that serves some of them puts itself before it."""

    @property
    def remembered(self) -> Memory:
        """The memory, for features that are only wanted with one."""
        assert self.memory is not None
        return self.memory

    @property
    def has_pipeline(self) -> bool:
        """Tell whether requests go through stages: else they are only passed through."""
        return bool(self.config.models) or self.memory is not None

    def follow(self, follower: Follower) -> None:
        """Have it look on the one thread that follows the store, from the gateway's start to its end."""
        self._followers.append(self.parts.add(follower))

    def _follow_all(self) -> None:
        for follower in self._followers:
            self.remembered.store.followers.add(follower)

    def _follow_no_more(self) -> None:
        for follower in reversed(self._followers):
            follower.stop()

    def example_store(self) -> ExampleStore | None:
        """What the examples' endpoints work on; None without examples."""
        if self.memory is None or self.config.memory is None:
            return None
        return self.memory.example_store(self.config.memory)

    @property
    def max_json_bytes(self) -> int:
        """Largest body of JSON that is read."""
        return int(self.config.listen.advanced.max_json_mib * 2**20)

    @property
    def kept_bytes(self) -> int:
        """Largest stream that is kept: several times the size of the answer in it."""
        settings = self.config.memory
        return int(settings.advanced.exact_max_entry_kib * 1024) * 8 if settings else 2**20

    def began(self) -> None:
        """Count a request that came in."""
        if self.memory is not None:
            self.load.began()
        self.metrics.began()
