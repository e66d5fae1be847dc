"""Builds every object, top to bottom. Only this file and those in setup/ that it calls name concrete classes."""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from engines.engine import Engine
from engines.registry import Registry
from gateway.door import EntryHandler
from gateway.handlers.chat import ChatCompletions
from gateway.handlers.chat import Limits as Sizes
from gateway.handlers.handler import Handler
from gateway.handlers.health import Health
from gateway.handlers.models import Models
from gateway.keys import Authenticator, CredentialTenants, KeyAuthentication, NoAuthentication
from gateway.metrics import Metrics
from gateway.passthrough import Passthrough
from gateway.pipeline import Pipeline, ServedModel
from gateway.recorder import Recorder
from gateway.request_log import RequestLog
from gateway.routes import RouteTable
from gateway.websocket import with_upgrades
from router.finished import Ended, Finished
from router.plan import Policy
from router.policies.fixed import Fixed
from store.people.secret import tenant_id
from understudy.settings.config import Config, ModelSettings
from understudy.settings.memory import MemorySettings
from understudy.setup.engines import UPSTREAM, EngineMissing, Tenants, engines, tells_tenants_apart, upstream
from understudy.setup.keepers import keepers, keepers_at_once

if TYPE_CHECKING:
    from learning.bank.example_store import ExampleStore
    from learning.outcomes.judging import Judging
    from learning.training.artifact_follower import ArtifactFollower
    from learning.training.dial_follower import Apply, DialFollower
    from learning.training.metrics import LearningMetrics
    from understudy.memory import Memory
    from understudy.processes.engine_watch import EngineWatch
    from understudy.processes.load_report import LoadReporter
    from understudy.setup.semantic import SemanticParts

_DRAIN_S = 20.0


class CannotStart(Exception):
    """The gateway cannot be built as configured. The text says what to do about it."""


class Gateway:
    """A built gateway: `handle` answers requests, `aclose` ends what it owns, in order."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.metrics = Metrics()
        self._log = RequestLog() if config.log.requests else None
        self.memory = _memory(config.memory, config) if config.memory else None
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="retrieve")
        self._upstream = upstream(config.upstream) if config.upstream else None
        tenants = self._tenants()
        try:
            self._engines = Registry(engines(config, tenants) | self._upstream_engine())
        except EngineMissing as error:
            raise CannotStart(str(error)) from error
        self._keys = self._gatekeeper(tenants)
        self._semantic = self._make_semantic()
        self._learning_metrics: LearningMetrics | None = None
        self._followers: list[ArtifactFollower] = []
        self._turns: dict[str, Apply] = {}
        self._engine_watch = self._make_engine_watch()
        self._policies = {name: self._policy(name, model) for name, model in config.models.items()}
        self._dials = self._make_dials()
        self._judging = self._make_judging()
        self._recorder = self._make_recorder() if self._has_pipeline() else None
        self._load = self._make_load_reporter()
        self.handle = EntryHandler(
            self._routes(),
            self._keys,
            began=self._began if self._load else self.metrics.began,
            ended=self._ended,
        )

    def start(self) -> None:
        """Start what works in the background. Inside the running loop."""
        self._engines.start()
        for follower in self._followers:
            follower.start()
        if self._dials is not None:
            self._dials.start()
        if self._engine_watch is not None:
            self._engine_watch.start()
        if self._judging is not None:
            self._judging.start()
        if self._load is not None:
            self._load.start()

    def problems(self) -> list[str]:
        """What keeps this gateway from serving as configured; empty when it is ready."""
        down = (self._engines.problem(model.engines) for model in self._config.models.values())
        return [*(self.memory.problems() if self.memory else ()), *filter(None, dict.fromkeys(down))]

    def settled(self) -> bool:
        """Whether everything answered so far is committed and findable."""
        recorded = self._recorder is None or self._recorder.settled()
        return recorded and (self.memory is None or self.memory.settled())

    async def aclose(self) -> None:
        """Stop judging, close engines, finish remembering, close the store."""
        if self._judging is not None:
            await self._judging.aclose()
        await self._engines.aclose()
        await asyncio.to_thread(self._close_blocking)

    def _close_blocking(self) -> None:
        if self._load is not None:
            self._load.stop()
        if self._recorder:
            self._recorder.close(_DRAIN_S)
        self._threads.shutdown()
        for follower in self._followers:
            follower.stop()
        if self._dials is not None:
            self._dials.stop()
        if self._engine_watch is not None:
            self._engine_watch.stop()
        if self._semantic:
            self._semantic.answers.close()
        if self.memory:
            self.memory.close()

    def _tenants(self) -> Tenants:
        if self.memory is None:
            # Of this process: several workers do not share their engines' prefix caches then.
            return Tenants(secrets.token_bytes(32))
        store = self.memory.store
        return Tenants(store.secret, store.keys.tenant_named)

    def _gatekeeper(self, tenants: Tenants) -> Authenticator:
        if self.memory is not None:
            return KeyAuthentication(self.memory.store.keys, self.memory.tenant_of)
        if tells_tenants_apart(self._config):
            return CredentialTenants(partial(tenant_id, tenants.secret))
        return NoAuthentication()

    def _has_pipeline(self) -> bool:
        return bool(self._config.models) or self.memory is not None

    def _make_recorder(self) -> Recorder:
        return Recorder(
            keepers(self.memory, self._config, self._semantic),
            self.metrics,
            self._report,
            at_once=keepers_at_once(self.memory, self._config),
        )

    def _make_engine_watch(self) -> EngineWatch | None:
        if self.memory is None or not self._config.engines:
            return None
        from understudy.processes.engine_watch import EngineWatch

        return EngineWatch(self.memory.store.jobs.engine_states, self._engines)

    def _make_dials(self) -> DialFollower | None:
        if self.memory is None or not self._turns:
            return None
        from learning.training.dial_follower import DialFollower

        return DialFollower(self.memory.store.dials, self._turns)

    def _make_semantic(self) -> SemanticParts | None:
        memory, settings = self.memory, self._config.memory
        if memory is None or settings is None or not settings.semantic_reuse.deltas:
            return None
        from understudy.setup.semantic import semantic_parts

        return semantic_parts(memory, settings, self.metrics)

    def _make_judging(self) -> Judging | None:
        memory, settings = self.memory, self._config.judging
        if memory is None or settings is None:
            return None
        from understudy.setup.judging import judging

        return judging(settings, self._config, memory.store, self._engines, self.metrics)

    def _make_load_reporter(self) -> LoadReporter | None:
        memory = self._config.memory
        if not self._config.replay.enabled or memory is None or memory.data_dir is None:
            return None
        from understudy.processes.load_report import LoadReporter

        return LoadReporter(memory.data_dir)

    def _began(self) -> None:
        assert self._load is not None
        self._load.began()
        self.metrics.began()

    def _ended(self, ended: Ended) -> None:
        """A request ended that never reached the pipeline."""
        if self._load is not None:
            self._load.ended()
        self._report(ended)

    def _finished(self, finished: Finished) -> None:
        """A request ended that the pipeline had."""
        assert self._recorder is not None
        if self._load is not None:
            self._load.ended()
        if self._learning_metrics is not None:
            plan = finished.plan
            self._learning_metrics.decided(finished.model, plan.choice if plan is not None else None)
        if self._judging is not None:
            self._judging.take(finished)
        self._recorder.take(finished)

    def _report(self, ended: Ended) -> None:
        self.metrics.ended(ended)
        if self._log is not None:
            self._log.write(ended)

    def _routes(self) -> RouteTable:
        listen = self._config.listen
        health = Health(self.metrics, problems=self.problems, settled=self.settled)
        passthrough = None
        if self._upstream:
            passthrough = Passthrough(
                self._upstream, self._keys, max_body_bytes=int(listen.max_body_mib * 2**20)
            )
        endpoints: dict[tuple[str, str], Handler] = {("POST", "/chat/completions"): self._chat(passthrough)}
        if self._config.models:
            endpoints["GET", "/models"] = Models(self._config.models, self._upstream, self._keys)
        if passthrough and self.memory and self.memory.exact:
            endpoints["POST", "/embeddings"] = self._embeddings(passthrough)
        if self.memory and self._config.models and self._config.feedback.enabled:
            endpoints["POST", "/feedback"] = self._feedback(self.memory)
        otherwise = (
            with_upgrades(passthrough, self._upstream, self._keys)
            if passthrough is not None and self._upstream is not None
            else None
        )
        if self.memory or not passthrough:
            otherwise = self._examples_before(otherwise)
        return RouteTable(
            prefixes=listen.prefixes,
            own={
                ("GET", "/healthz"): health.healthz,
                ("GET", "/readyz"): health.readyz,
                ("GET", "/metrics"): health.metrics,
            },
            endpoints=endpoints,
            otherwise=otherwise,
        )

    def _chat(self, passthrough: Passthrough | None) -> ChatCompletions:
        exact = self.memory.exact if self.memory else None
        similar = self._semantic.answers if self._semantic else None
        # Models that are not listed go straight to the upstream: nothing but exact repeats stands between.
        otherwise = ServedModel("", (UPSTREAM,), Fixed((UPSTREAM,), reason="not_listed"), remember=False)
        pipeline = Pipeline(
            self._engines,
            {name: self._served(name, model) for name, model in self._config.models.items()},
            otherwise if exact and self._upstream else None,
            exact=exact,
            similar=similar,
            ended=self._finished,
        )
        return ChatCompletions(
            pipeline if self._has_pipeline() else None,
            passthrough,
            self._keys,
            Sizes(int(self._config.listen.max_json_mib * 2**20), self._kept_bytes()),
        )

    def _embeddings(self, passthrough: Passthrough) -> Handler:
        from gateway.handlers.embeddings import Embeddings

        assert self.memory is not None and self.memory.exact is not None
        max_json_bytes = int(self._config.listen.max_json_mib * 2**20)
        return Embeddings(
            self.memory.exact,
            passthrough,
            self._keys,
            max_json_bytes=max_json_bytes,
            max_kept_bytes=self._kept_bytes(),
        )

    def _examples_before(self, otherwise: Handler | None) -> Handler:
        # Imported here: the admission rules behind it weigh ten megabytes that a mere pass-through must not carry.
        from gateway.handlers.examples import Examples, mounted
        from learning.bank.forgetting import Forgetter

        memory = self.memory
        forgetter = Forgetter(memory.store) if memory is not None else None
        limit = int(self._config.listen.max_json_mib * 2**20)
        return mounted(Examples(self._example_store(), forgetter, max_json_bytes=limit), otherwise)

    def _feedback(self, memory: Memory) -> Handler:
        from gateway.handlers.feedback import Feedback
        from gateway.limits.feedback_rate import FeedbackRate
        from understudy.setup.feedback import feedback_intake, known_quality

        settings = self._config.feedback
        intake = feedback_intake(
            memory,
            self._example_store(),
            window_s=settings.window_h * 3600,
            survive_power_cut=settings.survive_power_cut,
            known=known_quality(memory.store, self._config),
        )
        rate = FeedbackRate(settings.per_minute)
        return Feedback(intake, rate, max_json_bytes=int(settings.max_kib * 1024))

    def _example_store(self) -> ExampleStore | None:
        memory = self.memory
        if memory is None or memory.embedder is None or self._config.memory is None:
            return None
        from understudy.setup.examples import example_store

        return example_store(memory, self._config.memory.examples)

    def _kept_bytes(self) -> int:
        # A stream is several times the size of the answer in it.
        return int(self._config.memory.exact.max_entry_kib * 1024) * 8 if self._config.memory else 2**20

    def _served(self, name: str, settings: ModelSettings) -> ServedModel:
        return ServedModel(
            name,
            settings.engines,
            self._policies[name],
            remember=settings.remember,
            continue_broken=settings.continue_broken,
            larger_context=settings.larger_context,
        )

    def _policy(self, name: str, settings: ModelSettings) -> Policy:
        # The reference stands first, smaller engines behind it as stand-ins.
        fixed = Fixed(tuple(reversed(settings.engines)))
        memory, remembered = self.memory, self._config.memory
        if settings.policy == "fixed" or memory is None or remembered is None:
            return fixed
        if memory.embedder is None or memory.store.indexes is None:
            return fixed
        if settings.policy == "in_context":
            return self._in_context(name, settings, memory)
        from understudy.setup.few_shot import few_shot

        parts = few_shot(settings, self._config, memory, self._engines, self._threads)
        self._turns[name] = parts.turn
        return parts.policy

    def _in_context(self, name: str, settings: ModelSettings, memory: Memory) -> Policy:
        from learning.training.metrics import LearningMetrics
        from understudy.setup.in_context import in_context

        self._learning_metrics = self._learning_metrics or LearningMetrics(self.metrics.registry)
        parts = in_context(
            name, settings, self._config, memory, self._engines, self._threads, self._learning_metrics
        )
        self._followers.append(parts.follower)
        self._turns[name] = parts.turn
        return parts.policy

    def _upstream_engine(self) -> dict[str, Engine]:
        # No guard: the default upstream is passed through, not managed, and its head leaves as soon as it is here.
        return {UPSTREAM: self._upstream} if self._upstream else {}


def _memory(settings: MemorySettings, config: Config) -> Memory:
    # A gateway without memory starts in a fraction of the time and space: nothing of it is even imported.
    from router.embedding.model import EmbeddingModelMissing
    from store.errors import StoreError
    from understudy.memory import Memory

    try:
        return Memory.open(
            settings,
            versions_kept=config.learning.versions_kept,
            scores=any(model.policy == "in_context" for model in config.models.values()),
            private=config.private,
        )
    except (EmbeddingModelMissing, StoreError, OSError) as error:
        raise CannotStart(f"memory.data_dir {settings.data_dir}: {error}") from error
