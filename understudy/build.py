"""Builds every object, top to bottom. Only this file and those in setup/ that it calls name concrete classes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import structlog

from engines.codecs.chat import CHAT
from engines.codecs.codec import Codec
from engines.codecs.responses import RESPONSES
from engines.codecs.table import CODECS
from engines.engine import Engine
from engines.registry import Registry
from engines.servers.prober import Pace, Prober
from engines.servers.server import Server
from engines.servers.servers import Servers
from engines.servers.standing import Since
from gateway.endpoints.by_model import PATHS as BY_MODEL
from gateway.endpoints.by_model import ByModel
from gateway.endpoints.by_pipeline import ByPipeline
from gateway.endpoints.handler import Handler, mounted
from gateway.endpoints.health import Health
from gateway.endpoints.model_endpoint import Instead, ModelEndpoint, Serving
from gateway.endpoints.models import Models
from gateway.endpoints.responses import StoredAnswers
from gateway.endpoints.steps import WithoutMemory
from gateway.endpoints.stored_responses import StoredResponses
from gateway.endpoints.stored_responses import mounted as below_responses
from gateway.endpoints.usage import Bills, UsageOfOne
from gateway.entry import EntryHandler
from gateway.guardrails.guardrail import GuardrailMetrics
from gateway.guardrails.passed_on import GuardedPassing
from gateway.guardrails.stage import Guardrails
from gateway.in_flight import InFlight
from gateway.keys import Authenticator, CredentialTenants, KeyAuthentication, NoAuthentication
from gateway.limits.settling import settle
from gateway.metrics import Metrics
from gateway.passthrough import Passthrough
from gateway.pipeline import Pipeline
from gateway.recorder import Recorder
from gateway.request_log import RequestLog
from gateway.routes import RouteTable
from gateway.same_request import SameRequest
from gateway.served_model import ServedModel
from gateway.stages.features import Features
from gateway.stages.stage import Stage
from gateway.telemetry.trace_context import continued
from gateway.websocket import with_upgrades
from learning.poller import Pollers
from router.finished import Finished, Journey
from router.plan import Policy
from router.policies.fixed import Fixed
from router.stand_ins import StandIns
from store.people.secret import tenant_id
from understudy.background.load_report import LoadMetrics, LoadReporter
from understudy.cannot_start import CannotStart
from understudy.opening import opened
from understudy.parts import Parts
from understudy.settings.config import AnyEngine, Config
from understudy.settings.doubts import doubts
from understudy.settings.knobs import knobs_of
from understudy.settings.models import ModelSettings
from understudy.settings.reloading import digest_of
from understudy.settings.upstream import Upstream
from understudy.setup.access import admission, end_users
from understudy.setup.engines import (
    UPSTREAM,
    EngineMissing,
    Tenants,
    engines,
    keys_of,
    tells_tenants_apart,
    upstream,
)
from understudy.setup.exposure import exposure
from understudy.setup.guardrails import guardrails
from understudy.setup.keepers import books, exact_keeper, keepers
from understudy.setup.responses import response_owners, still_stands
from understudy.setup.scraping import reads_people
from understudy.setup.served_by import digest, ignored_fields, unknown_servers
from understudy.setup.telemetry import TelemetryMissing, telemetry
from understudy.setup.unknown_tenants import tell_unknown_tenants, unknown_tenants

__all__ = ["CannotStart", "Gateway"]

if TYPE_CHECKING:
    from gateway.endpoints.embeddings import Embeddings, ServedBy
    from gateway.keepers.embedding import EmbeddingKeeper
    from gateway.limits.limiter import Limiter
    from gateway.telemetry.export import Telemetry
    from learning.bank.contributor import EndUsers
    from learning.bank.example_store import ExampleStore
    from learning.training.dial_follower import Apply
    from learning.training.metrics import LearningMetrics
    from router.proving.gate import Gate
    from router.proving.standing import Proof
    from understudy.memory import Memory
    from understudy.setup.runs import RunParts
    from understudy.setup.semantic import SemanticParts
    from understudy.setup.workflows import WorkflowParts

log = structlog.get_logger(__name__)

_DRAIN_S = 20.0
_FEEDBACK_BYTES = 256 * 1024
"""Largest body of feedback: a correction that fits an example is far smaller."""


EnginesAs = Callable[[Mapping[str, Engine]], Mapping[str, Engine]]


class Gateway:
    """A built gateway: `handle` answers requests, `start` begins what works beside them, `aclose` ends all of it.

    A worker has one, from its start to its end: another configuration is another worker's.
    """

    def __init__(
        self,
        config: Config,
        *,
        engines_as: EnginesAs | None = None,
        chores: bool = True,
    ) -> None:
        """Open the memory and build everything on it. Blocks. Raises CannotStart.

        `engines_as` may put others in the place of the configured engines: the replay of a log does. `chores`: this process
        is among those that keep the memory in order.
        """
        self._config = config
        self.config_hash = digest_of(config)
        self._engines_as = engines_as
        self.parts = Parts()
        self.metrics = Metrics()
        self.refused = ""
        """Why the latest configuration is not the one that serves; empty if it is."""
        self.memory = self._open_memory(chores)
        self._secret = self.memory.store.secret if self.memory is not None else secrets.token_bytes(32)
        """Tenants' salts are made of it. Without memory each worker has its own, and shares no engine's prefix cache."""
        self._log = RequestLog() if config.log.requests else None
        self._telemetry = self._make_telemetry()
        self._load = self._make_load_report()
        self._check_keys()
        self._take_keys()
        has_keys = self.memory is not None and (bool(config.keys) or self.memory.store.keys.any_configured())
        if (why := exposure(config, has_keys=has_keys)) is not None:
            raise CannotStart(why)
        tenants = self._tenants()
        self._keys = self._gatekeeper(tenants)
        self._upstream = upstream(config, tenants)
        self._engines = self._make_engines(tenants)
        self._semantic = self._make_semantic()
        followers = self._followers = Pollers()
        self.parts.add(followers, start=followers.start, stop=followers.stop)
        self._add_engine_watch()
        self._learning_metrics: LearningMetrics | None = None
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="retrieve")
        self._policies = self._with_tasks(self._make_policies())
        self.parts.add(self._threads, stop=self._threads.shutdown)
        self._limiter = self._make_limiter()
        self._owners = response_owners(self.memory)
        self._recorder = self._make_recorder()
        self._add_learning_metrics()
        self._books = books(self.memory, config, self._load.shedding)
        self._bills = Bills()
        self._add_webhooks()
        self._add_quality_watch()
        self.parts.add(self._engines, start=self._engines.start, aclose=self._engines.aclose)
        self._guardrails = self._make_guardrails()
        self._too_dear: Callable[[str, str, Proof | None], bool] = lambda model, tenant, proof: False
        self._told: Callable[[str, str, float, str], None] | None = None
        prober = Prober(self._engines.servers, knobs_of(Pace, config.health), self._stands)
        self.parts.add(prober, start=prober.start, aclose=prober.aclose)
        self.parts.add(self._engines.managed, start=self._count_lines)
        self._add_judging()
        self._embeddings_kept: EmbeddingKeeper | None = None
        self._same = self._make_same()
        self._workflows = self._make_workflows()
        self._features = self._make_features()
        self.pipeline = self._make_pipeline() if self._has_pipeline() else None
        self._admission = admission(
            config,
            self.memory,
            self._engines,
            tenants,
            self._limiter,
            owners=self._owners if self.memory is not None else None,
            max_json_bytes=self._max_json_bytes(),
        )
        self._runs = self._make_runs()
        self.handle = EntryHandler(
            self._routes(),
            self._keys,
            self._admission,
            self._limiter,
            began=self._began,
            ended=self._ended,
            bills=self._bills,
            answers_preflights=bool(config.models or config.listen.cors),
            guardrails=self._guardrails,
            trace_of=continued(config.otel.advanced.sampled_share) if self._telemetry is not None else None,
        )

    def refuse(self, why: str) -> None:
        """Note why the latest configuration is not taken, for those who look."""
        self.refused = why
        self.metrics.refused.inc()

    @property
    def config(self) -> Config:
        """What it was built from."""
        return self._config

    def start(self) -> None:
        """Start what works in the background. Inside the running loop."""
        self.parts.start()
        self._bills.rows = self.memory is not None and self.memory.requests is not None
        self.metrics.config.labels(self.config_hash).set(1)

    def problems(self) -> list[str]:
        """What keeps this gateway from serving as configured; empty when it is ready."""
        return [*(self.memory.problems() if self.memory else ()), *self._engines_down()[0]]

    def impaired(self) -> list[str]:
        """What requests are served without, although it is configured; empty when nothing is missing."""
        problem = self.memory.store.problem() if self.memory is not None else None
        refused = self.refused
        told = [problem, f"the configuration could not be loaded anew: {refused}" if refused else None]
        return [*filter(None, told), *self._engines_down()[1]]

    def _engines_down(self) -> tuple[list[str], list[str]]:
        """Why no model can be answered, and why some cannot: one of the two is empty."""
        down = [self._engines.problem(model.engines) for model in self._config.models.values()]
        told = list(filter(None, dict.fromkeys(down)))
        # What `models` does not name goes to the upstream, of which nothing is known.
        return (told, []) if self._upstream is None and all(down) else ([], told)

    def warnings(self) -> list[str]:
        """Settings that can be used and are most likely not what was meant."""
        memory = self.memory
        unknown = unknown_tenants(self._config, memory.store.keys) if memory is not None else []
        return [*doubts(self._config), *(one.told for one in unknown)]

    def settled(self) -> bool:
        """Whether everything answered so far is committed and findable. Blocks for a read."""
        # In this order: what a keeper hands over, the recorder follows, and the store then has to write.
        return self._handed_over() and (self.memory is None or self.memory.settled())

    async def _is_settled(self) -> bool:
        return self.settled() if self.memory is None else await self.memory.store.reads(self.settled)

    def _handed_over(self) -> bool:
        """Whether everything it answered so far was handed over to the store."""
        kept = self._embeddings_kept is None or self._embeddings_kept.settled()
        return kept and (self._recorder is None or self._recorder.settled())

    def _recorded_to_s(self) -> float:
        """See gateway.recorder.Recorder."""
        return time.monotonic() if self._recorder is None else self._recorder.recorded_to_s()

    def _queued(self) -> float:
        """See gateway.recorder.Recorder."""
        return 0.0 if self._recorder is None else self._recorder.queued()

    async def aclose(self) -> None:
        """Stop judging, close engines, finish remembering, close the store."""
        await self.parts.aclose()

    def _tenants(self) -> Tenants:
        if self.memory is None:
            return Tenants(self._secret)
        return Tenants(self._secret, self.memory.store.keys.tenant_named)

    def _gatekeeper(self, tenants: Tenants) -> Authenticator:
        if self.memory is None and not tells_tenants_apart(self._config):
            return NoAuthentication()
        settings = self._config.memory
        keyless = CredentialTenants(
            partial(tenant_id, tenants.secret),
            headers=self._config.listen.tenant_headers,
            anonymous=settings is not None and settings.anonymous,
        )
        return keyless if self.memory is None else KeyAuthentication(self.memory.store.keys, keyless)

    def _end_users(self) -> EndUsers | None:
        return end_users(self._config, self.memory)

    def _has_pipeline(self) -> bool:
        return bool(self._config.models) or self.memory is not None

    def _open_memory(self, chores: bool) -> Memory | None:
        settings = self._config.memory
        if settings is None:
            return None
        memory = opened(settings, self._config, chores=chores)
        self.parts.add(memory, stop=memory.close)
        tell_unknown_tenants(self._config, memory.store.keys)
        return memory

    def _take_keys(self) -> None:
        """Have the store take the configuration's keys and private tenants. Blocks. Raises CannotStart."""
        memory = self.memory
        if memory is None:
            return
        # Imports the store, which a gateway without memory does not need.
        from store.errors import StoreError
        from understudy.setup.keys import Clash, reconcile

        try:
            reconcile(self._config, memory.store)
        except (Clash, ValueError, StoreError, TimeoutError) as error:
            raise CannotStart(f"the configured keys and tenants cannot be taken: {error}") from error

    def _check_keys(self) -> None:
        """Raises CannotStart where the configuration's keys cannot be those of this store."""
        if self.memory is None:
            return
        from understudy.setup.keys import clashes

        if told := clashes(self._config, self.memory.store):
            raise CannotStart("\n".join(told))

    def _make_engines(self, tenants: Tenants) -> Registry:
        # No guard around the default upstream: it is passed through, not managed, and its head leaves as soon as it is here.
        passed_through: dict[str, Engine] = {UPSTREAM: self._upstream} if self._upstream else {}
        try:
            if self._engines_as is None:
                configured: Mapping[str, Engine] = engines(self._config, tenants)
            else:
                configured = self._engines_as(engines(self._config, tenants))
            return Registry({**configured, **passed_through, **self._carrying_out()})
        except EngineMissing as error:
            raise CannotStart(str(error)) from error

    def _carrying_out(self) -> dict[str, Engine]:
        """The engine that workflows are answered by, where runs can be kept."""
        if self.memory is None:
            return {}
        from engines.run_call import WORKFLOW
        from gateway.runs.engine import WorkflowEngine

        return {WORKFLOW: WorkflowEngine(lambda: self._runs.runs if self._runs is not None else None)}

    def _make_recorder(self) -> Recorder | None:
        if not self._has_pipeline():
            return None
        exact = exact_keeper(self.memory, self._config)
        load = self._load.shedding
        others = keepers(self.memory, self._config, self.metrics.registry, load, self._semantic)
        recorder = Recorder(
            others if exact is None else [exact, *others], self.metrics, self._report, expecting=exact
        )
        return self.parts.add(recorder, stop=partial(recorder.close, _DRAIN_S), finished=recorder.take)

    def _make_limiter(self) -> Limiter | None:
        if self.memory is None:
            return None
        from understudy.setup.limits import ledger, limiter

        store = self.memory.store
        made = ledger(store, self._config.listen.workers)
        self.parts.add(made, start=made.start, aclose=made.aclose)
        return limiter(self._config.limits, store, made)

    def _make_semantic(self) -> SemanticParts | None:
        memory, settings = self.memory, self._config.memory
        if memory is None or settings is None or not settings.semantic_reuse.deltas:
            return None
        from gateway.reuse.metrics import SemanticMetrics
        from understudy.setup.semantic import semantic_parts

        made = semantic_parts(memory, settings, SemanticMetrics(self.metrics.registry))
        if made is not None:
            self.parts.add(made.answers, stop=made.answers.close)
        return made

    def _add_engine_watch(self) -> None:
        if self.memory is None or not self._config.engines:
            return
        from understudy.background.engine_watch import EngineWatch

        states, servers = self.memory.store.jobs.engine_states, self._engines.servers
        watch = EngineWatch(states, servers, keys=keys_of(self._config))
        self.parts.add(watch, start=watch.begin)
        self._followers.add(watch)

    def _add_judging(self) -> None:
        memory, models = self.memory, self._config.models.values()
        compares = self._config.judging or any(model.policy != "fixed" for model in models)
        if memory is None or not compares:
            return
        from learning.outcomes.judging_metrics import JudgingMetrics
        from understudy.setup.outcomes import judging

        counters, load = JudgingMetrics(self.metrics.registry), self._load.shedding
        made = judging(self._config, memory.store, self._engines, counters, load)
        self._too_dear, self._told = made.too_dear, made.told
        self.parts.add(made, start=made.start, aclose=made.aclose, finished=made.take)

    def _add_quality_watch(self) -> None:
        """Where answers can be offloaded, and what becomes known of them is kept."""
        references = self._config.references()
        if self.memory is None or not references:
            return
        from understudy.background.quality_watch import QualityMetrics, QualityWatch

        made = QualityWatch(
            self.memory.store.decisions.quality,
            references,
            self._config.learning.quality_alarm,
            QualityMetrics(self.metrics.registry),
            clock=time.time,
        )
        self.parts.add(made, start=made.start, stop=made.stop)

    def _add_webhooks(self) -> None:
        if self.memory is None or not self._config.webhooks:
            return
        from understudy.setup.webhooks import webhooks

        made = webhooks(self._config, self.memory.store, self.metrics.registry)
        self.parts.add(made, start=made.start, aclose=made.aclose)

    def _make_load_report(self) -> LoadReporter:
        memory = self.memory
        store = memory.store if memory is not None else None
        load = LoadReporter(
            store.folder if store is not None else None,
            recorded_to_s=self._recorded_to_s,
            elsewhere=store.jobs.loads if store is not None and store.shared else None,
            metrics=LoadMetrics(self.metrics.registry),
            all_ended=lambda: self.metrics.all_ended,
        )
        load.waits.append(self._queued)
        if memory is not None and memory.embedder is not None:
            load.waits += [memory.embedder.deadline.longest, memory.retrieval.longest]
        finished = None if memory is None else lambda _: load.ended()
        return self.parts.add(load, start=load.start, stop=load.stop, finished=finished)

    def _began(self) -> None:
        if self.memory is not None:
            self._load.began()
        self.metrics.began()

    def _ended(self, ended: Journey) -> None:
        """A request ended that never reached the pipeline."""
        if self.memory is not None:
            self._load.ended()
        if self._books is not None and self._recorder is not None:
            self._books.take(ended, self._recorder.follow)
        self._report(ended)

    def _report(self, ended: Journey) -> None:
        settle(ended)
        self._bills.ended(ended)
        self.metrics.ended(ended)
        if isinstance(ended, Finished) and ended.complete and ended.usage and not ended.by_stand_in:
            engine = self._engines.get(ended.engine)
            if isinstance(engine, Servers):
                engine.said(ended.usage.completion_tokens)
        if self._log is not None:
            self._log.write(ended)
        if self._telemetry is not None:
            self._telemetry.take(ended)

    def _make_guardrails(self) -> Guardrails | None:
        made = guardrails(
            self._config, GuardrailMetrics(self.metrics.registry), max_json_bytes=self._max_json_bytes()
        )
        return made and self.parts.add(made, aclose=made.aclose)

    def _make_telemetry(self) -> Telemetry | None:
        try:
            made = telemetry(self._config, self.metrics.registry)
        except TelemetryMissing as error:
            raise CannotStart(str(error)) from error
        # First of the parts, so that it is the last to end: the recorder reports while it finishes.
        return made and self.parts.add(made, start=made.start, stop=made.close)

    def _count_lines(self) -> None:
        for name, engine in self._engines.managed.items():
            engine.line.on_change = partial(self.metrics.waits, name)
            engine.placing.on_placed = partial(self.metrics.placed, name)

    def _stands(self, server: Server, since: Since, was: Since | None) -> None:
        """The state of an engine has changed."""
        info = server.info
        self.metrics.engine_stands(info.name, info.replica, since.state)
        if was is not None:
            log.info("engine_state", engine=info.name, replica=info.replica, state=since.state, was=was.state)

    def _routes(self) -> RouteTable:
        listen = self._config.listen
        health = Health(
            self.metrics,
            problems=self.problems,
            impaired=self.impaired,
            settled=self._is_settled,
            warnings=self.warnings,
            reads_people=reads_people(self.memory),
            config=self.config_hash,
        )
        passthrough = None
        if self._upstream:
            passthrough = Passthrough(
                self._upstream,
                self._keys,
                max_body_bytes=int(listen.advanced.max_body_mib * 2**20),
                booked=self.memory is not None or bool(self._upstream.info.prices),
                limiter=self._limiter,
                guarded=GuardedPassing(self._guardrails, self._kept_bytes()) if self._guardrails else None,
            )
        endpoints: dict[tuple[str, str], Handler] = {
            ("POST", codec.path): self._model_endpoint(codec, passthrough)
            for codec in CODECS.values()
            if self.pipeline is not None or codec is not RESPONSES
        }
        models: Models | None = None
        if self._config.models or self._runs is not None:
            workflows = self._workflows.catalogue.known if self._workflows is not None else None
            models = endpoints["GET", "/models"] = Models(
                self._config.models, self._upstream, self._keys, workflows, passthrough
            )
        by_model = None
        if self._config.models:
            served = {name: _stand_ins(model) for name, model in self._config.models.items()}
            by_model = ByModel(self._engines, served, limiter=self._limiter)
            serving = self._endpoint(None, by_model, passthrough)
            endpoints |= {("POST", path): serving for path in BY_MODEL}
        if self.memory and self.memory.exact:
            embeddings = self._embeddings(passthrough, by_model)
            endpoints["POST", "/embeddings"] = self._endpoint(None, embeddings, passthrough)
        if self.memory and self._config.models and self._config.feedback.enabled:
            endpoints["POST", "/feedback"] = self._feedback(self.memory)
        otherwise = (
            with_upgrades(passthrough, self._upstream, self._keys, self._admission.again)
            if passthrough is not None and self._upstream is not None
            else None
        )
        if self.memory or not passthrough:
            otherwise = self._examples_before(otherwise)
        if self.pipeline is not None:
            below = StoredResponses(self._engines, self._keys, self._owners, self._end_users(), passthrough)
            otherwise = below_responses(below, otherwise)
        if self.memory is not None:
            otherwise = UsageOfOne(self._bills, self.memory.store.decisions.requests.get, otherwise)
        if self._runs is not None:
            otherwise = mounted(self._runs.handlers, otherwise)
        if models is not None and otherwise is not None:
            otherwise = models.before(otherwise)
        return RouteTable(
            prefixes=listen.advanced.prefixes,
            own={
                ("GET", "/healthz"): health.healthz,
                ("GET", "/readyz"): health.readyz,
                ("GET", "/metrics"): health.metrics,
            },
            endpoints=endpoints,
            otherwise=otherwise,
        )

    def _model_endpoint(self, codec: Codec, passthrough: Passthrough | None) -> ModelEndpoint:
        instead: Instead | None = None
        if codec is CHAT:
            instead = self._runs.steps if self._runs is not None else WithoutMemory()
        serving = None
        if self.pipeline is not None:
            stored = None
            if codec is RESPONSES:
                stored = StoredAnswers(self.pipeline, self._engines, self._owners)
            kept_bytes, end_users = self._kept_bytes(), self._end_users()
            serving = ByPipeline(
                codec.path, self.pipeline, end_users, max_kept_bytes=kept_bytes, stored=stored
            )
        return self._endpoint(codec, serving, passthrough, instead)

    def _endpoint(
        self,
        codec: Codec | None,
        serving: Serving | None,
        passthrough: Passthrough | None,
        instead: Instead | None = None,
    ) -> ModelEndpoint:
        limit = self._max_json_bytes()
        return ModelEndpoint(codec, serving, passthrough, self._keys, max_json_bytes=limit, instead=instead)

    def _make_workflows(self) -> WorkflowParts | None:
        if self.memory is None:
            return None
        from gateway.components.metrics import ComponentMetrics
        from understudy.setup.workflows import workflow_parts

        counted = ComponentMetrics(self.metrics.registry)
        made = workflow_parts(self._config, self.memory, counted.of)
        parts = self.parts
        parts.add(made.components, start=made.components.start, aclose=made.components.aclose)
        prober = Prober(made.components.probed, knobs_of(Pace, self._config.health), counted.stands)
        parts.add(prober, start=prober.start, aclose=prober.aclose)
        return made

    def _make_runs(self) -> RunParts | None:
        end_users = self._end_users()
        workflows = self._workflows
        if self.memory is None or self.pipeline is None or end_users is None or workflows is None:
            return None
        from gateway.runs.metrics import RunMetrics
        from understudy.setup.runs import run_parts

        metrics = RunMetrics(self.metrics.registry)
        made = run_parts(
            self._config,
            self.memory.store,
            self.pipeline,
            self._features,
            self._admission,
            self._engines,
            workflows,
            self._keys,
            end_users,
            max_json_bytes=self._max_json_bytes(),
            max_kept_bytes=self._kept_bytes(),
            began=self._began,
            metrics=metrics,
        )
        self.parts.add(made.runs, start=made.runs.start, aclose=made.runs.aclose)
        return made

    def _make_features(self) -> Features:
        settings = self._config.memory
        exact = self.memory.exact if self.memory else None
        return Features(
            self._engines,
            exact,
            InFlight() if exact is not None else None,
            self._semantic.answers if self._semantic else None,
            sampled=settings is not None and settings.exact.sampled,
            limiter=self._limiter,
            guardrails=self._guardrails,
            too_dear=self._too_dear,
            stands=partial(still_stands, self._owners),
            same=self._same,
            workflow=self._workflow_stage(),
        )

    def _workflow_stage(self) -> Stage | None:
        if self._workflows is None:
            return None
        from gateway.stages.workflow import WorkflowStage

        lend = self._limiter.lend if self._limiter is not None else lambda request_id: None
        headers = self._config.listen.tenant_headers
        return WorkflowStage(self._workflows.catalogue, self._workflows.limits, lend, headers)

    def _make_pipeline(self) -> Pipeline:
        upstreams = [self._config.upstream] if self._config.upstream else []
        # Models that are not listed go straight to the upstream: nothing but exact repeats stands between.
        # It is asked once: with nobody else to carry on, it would be paid twice.
        otherwise = ServedModel(
            "",
            (UPSTREAM,),
            Fixed((UPSTREAM,), reason="not_listed"),
            remember=False,
            continue_broken=False,
            digest=digest(upstreams),
            ignored_fields=ignored_fields(upstreams),
            unknown_servers=unknown_servers(upstreams),
        )
        workflows: dict[str, ServedModel] = {}
        if self._workflows is not None:
            from understudy.setup.workflows import served

            workflows = served(self._config, self._workflows.catalogue)
        return Pipeline(
            self._engines,
            {name: self._served(name, model) for name, model in self._config.models.items()} | workflows,
            otherwise if self._features.exact and self._upstream else None,
            stages=self._features.stages,
            ended=self.parts.finished,
        )

    def _embeddings(self, passthrough: Passthrough | None, by_model: ByModel | None) -> Embeddings:
        from gateway.endpoints.embeddings import Embeddings
        from gateway.keepers.embedding import EmbeddingKeeper

        settings = self._config.memory
        end_users = self._end_users()
        assert settings is not None and end_users is not None
        assert self.memory is not None and self.memory.exact is not None and self._recorder is not None
        keeper = self._embeddings_kept = EmbeddingKeeper(self.memory.exact, self._recorder.follow)
        self.parts.add(keeper, stop=keeper.close)
        return Embeddings(
            self.memory.exact,
            keeper,
            passthrough,
            served_by=lru_cache(maxsize=1024)(self._embedded_by),
            max_kept_bytes=int(settings.advanced.exact_max_entry_kib * 1024),
            end_users=end_users,
            by_model=by_model,
            same=self._same,
        )

    def _make_same(self) -> SameRequest:
        exact = self._config.memory.exact if self._config.memory is not None else None
        if exact is None or not exact.enabled:
            return SameRequest()
        from gateway.unique_headers import HeaderMetrics, SeenHeaders

        always = (*self._config.listen.tenant_headers, *exact.headers)
        return SameRequest(always, SeenHeaders(HeaderMetrics(self.metrics.registry)))

    def _embedded_by(self, engines: tuple[str, ...]) -> ServedBy:
        from gateway.endpoints.embeddings import ServedBy

        config = self._config
        servers: list[AnyEngine | Upstream] = [config.engines[name] for name in engines]
        if not engines and config.upstream is not None:
            servers = [config.upstream]
        return ServedBy(
            "\n".join([*engines, digest(servers)]), ignored_fields(servers), unknown_servers(servers)
        )

    def _examples_before(self, otherwise: Handler | None) -> Handler:
        # Imported here: the admission rules behind it weigh ten megabytes that a mere pass-through must not carry.
        from gateway.endpoints.examples import Examples
        from learning.bank.forgetting import Forgetter

        memory = self.memory
        forgetter = Forgetter(memory.store) if memory is not None else None
        limit = self._max_json_bytes()
        examples = Examples(self._example_store(), forgetter, self._end_users(), max_json_bytes=limit)
        return mounted({"examples": examples}, otherwise)

    def _feedback(self, memory: Memory) -> Handler:
        from gateway.endpoints.feedback import Feedback
        from gateway.limits.feedback_rate import FeedbackRate
        from understudy.setup.outcomes import feedback_intake, known_quality

        known = known_quality(memory.store, self._config)
        end_users = self._end_users()
        assert end_users is not None
        intake = feedback_intake(
            memory, self._example_store(), apart=end_users.apart, known=known, told=self._told
        )
        rate = FeedbackRate(self._config.feedback.advanced.per_minute)
        return Feedback(intake, rate, end_users, max_json_bytes=_FEEDBACK_BYTES)

    def _example_store(self) -> ExampleStore | None:
        if self.memory is None or self._config.memory is None:
            return None
        return self.memory.example_store(self._config.memory)

    def _max_json_bytes(self) -> int:
        return int(self._config.listen.advanced.max_json_mib * 2**20)

    def _kept_bytes(self) -> int:
        # A stream is several times the size of the answer in it.
        settings = self._config.memory
        return int(settings.advanced.exact_max_entry_kib * 1024) * 8 if settings else 2**20

    def _served(self, name: str, settings: ModelSettings) -> ServedModel:
        larger = (settings.larger_context,) if settings.larger_context else ()
        servers = [self._config.engines[engine] for engine in (*settings.engines, *larger)]
        return ServedModel(
            name,
            settings.engines,
            self._policies[name],
            remember=settings.remember,
            continue_broken=settings.advanced.continue_broken,
            larger_context=settings.larger_context,
            digest=digest(servers),
            ignored_fields=ignored_fields(servers),
            unknown_servers=unknown_servers(servers),
            stand_ins=_stand_ins(settings),
            key_dials=settings.advanced.key_preferences if settings.policy == "in_context" else {},
        )

    def _make_policies(self) -> dict[str, Policy]:
        memory = self.memory
        if memory is None or memory.embedder is None or memory.store.indexes is None:
            return {name: _fixed(model) for name, model in self._config.models.items()}
        turns: dict[str, Apply] = {}
        gates = self._make_gates(memory)
        policies = {
            name: self._policy(name, model, memory, turns, gates.get(name))
            for name, model in self._config.models.items()
        }
        if turns:
            from learning.training.dial_follower import DialFollower

            dials = DialFollower(memory.store.dials, turns)
            self._followers.add(self.parts.add(dials))
        return policies

    def _with_tasks(self, policies: dict[str, Policy]) -> Mapping[str, Policy]:
        memory = self.memory
        if memory is None or memory.embedder is None or not policies:
            return policies
        from learning.training.metrics import LearningMetrics
        from understudy.setup.tasks import task_parts

        metrics = self._learning_metrics = self._learning_metrics or LearningMetrics(self.metrics.registry)
        made = task_parts(self._config, memory, policies, self._engines, self._threads, metrics)
        if made is None:
            return policies
        for follower in made.followers:
            self._followers.add(self.parts.add(follower))
        return made.policies

    def _make_gates(self, memory: Memory) -> dict[str, Gate]:
        from learning.guarantee.proof import ProofFollower
        from learning.rehearsal.kept import latest
        from understudy.setup.proof import gates

        rehearsal, load = latest(memory.store.folder), self._load.shedding
        made = gates(self._config.models, self._config.engines, rehearsal, load)
        if not made:
            return made
        follower = ProofFollower(memory.store.outcomes, memory.store.decisions.choices, made)
        self._followers.add(self.parts.add(follower))
        return made

    def _policy(
        self,
        name: str,
        settings: ModelSettings,
        memory: Memory,
        turns: dict[str, Apply],
        gate: Gate | None,
    ) -> Policy:
        if settings.policy == "fixed":
            return _fixed(settings)
        if settings.policy == "few_shot":
            from understudy.setup.few_shot import few_shot

            rule = few_shot(settings, self._config, memory, self._engines, self._threads, gate)
            turns[name] = rule.turn
            return rule.policy
        from learning.training.metrics import LearningMetrics
        from understudy.setup.in_context import in_context

        metrics = self._learning_metrics = self._learning_metrics or LearningMetrics(self.metrics.registry)
        learned = in_context(
            name, settings, self._config, memory, self._engines, self._threads, metrics, gate
        )
        self._followers.add(self.parts.add(learned.follower))
        turns[name] = learned.turn
        return learned.policy

    def _add_learning_metrics(self) -> None:
        metrics = self._learning_metrics
        if metrics is None:
            return

        def count(finished: Finished) -> None:
            plan = finished.plan
            metrics.decided(finished.model, plan.choice if plan is not None else None)

        self.parts.add(metrics, finished=count)


def _stand_ins(settings: ModelSettings) -> StandIns:
    return StandIns(
        settings.engines, settings.stand_ins, "off" if settings.policy == "fixed" else settings.proof
    )


def _fixed(settings: ModelSettings) -> Fixed:
    # The reference stands first, smaller engines behind it as stand-ins.
    return Fixed(tuple(reversed(settings.engines)))
