"""The whole configuration. Each setting has a name, a default and a sentence, in the group it belongs to, and nowhere else.

Units are in the names. `config.example.yaml` shows the settings that an operator meets; those under `advanced` are listed in
docs/reference/settings.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, field_validator, model_validator

from engines.components.component import ABILITIES
from engines.run_call import WORKFLOW
from router.model_names import ByModelName, is_wildcard
from understudy.settings.admin import AdminSettings
from understudy.settings.apis import check_apis, unsalted, unspoken
from understudy.settings.client_key import check_client_key, is_loopback
from understudy.settings.components import AnyComponent
from understudy.settings.engines import (
    AnthropicEngine,
    AzureEngine,
    HealthSettings,
    HTTPEngine,
    OpenAIEngine,
    SimulatedEngineSettings,
    VLLMEngine,
    VLLMLocalEngine,
)
from understudy.settings.group import Settings
from understudy.settings.guardrails import GuardrailSettings
from understudy.settings.keys import KeySettings
from understudy.settings.learning import FeedbackSettings, JudgingSettings, LearningSettings
from understudy.settings.limits import LimitsSettings
from understudy.settings.listen import Listen
from understudy.settings.memory import MemorySettings
from understudy.settings.models import ModelSettings
from understudy.settings.private import PrivateSettings
from understudy.settings.reach import replay_out_of_reach
from understudy.settings.replay import ReplaySettings
from understudy.settings.retention import RetentionSettings
from understudy.settings.sharing import SharingSettings
from understudy.settings.telemetry import TelemetrySettings
from understudy.settings.tenants import TenantSettings
from understudy.settings.terms import check_names
from understudy.settings.upstream import Upstream
from understudy.settings.users import UsersSettings
from understudy.settings.webhooks import WebhookSettings
from understudy.settings.workflows import ApplicationsSettings, WorkflowsSettings
from workflows.declared import DefinitionError, World, read_definition
from workflows.definition import Definition


class LogSettings(Settings):
    """The log: one line of JSON per request on standard error."""

    requests: bool = Field(True, description="One line per request.")
    level: Literal["debug", "info", "warning", "error"] = Field("info", description="For everything else.")


AnyEngine = Annotated[
    OpenAIEngine | AnthropicEngine | AzureEngine | VLLMEngine | VLLMLocalEngine | SimulatedEngineSettings,
    Field(discriminator="kind"),
]
"""Settings of an engine of any kind."""


class Config(Settings):
    """The whole configuration."""

    listen: Listen = Field(Listen(), description="Where the gateway listens.")
    upstream: Upstream | None = Field(
        None, description="Default upstream, for everything `models` does not name."
    )
    engines: dict[str, AnyEngine] = Field({}, description="Engines by name.")
    health: HealthSettings = Field(HealthSettings(), description="Looking after engines.")
    models: dict[str, ModelSettings] = Field({}, description="Model names served by engines of ours.")
    memory: MemorySettings | None = Field(None, description="Null remembers nothing.")
    limits: LimitsSettings = Field(LimitsSettings(), description="How limits of keys and tenants are kept.")
    keys: dict[str, KeySettings] = Field(
        {}, description="The gateway's own API keys by name, beside those made with `understudy keys`."
    )
    tenants: dict[str, TenantSettings] = Field(
        {}, description="What holds for tenants, by name, beside what `understudy tenants` laid down."
    )
    users: UsersSettings = Field(UsersSettings(), description="End users, behind a client's requests.")
    retention: RetentionSettings = Field(
        RetentionSettings(), description="For how many days things are kept; a tenant may have its own."
    )
    sharing: SharingSettings = Field(
        SharingSettings(), description="Examples that one tenant may read of another; nothing by default."
    )
    components: dict[str, AnyComponent] = Field(
        {}, description="Embedders, rerankers, searches and tools by name: what workflows ask beside models."
    )
    workflows: WorkflowsSettings = Field(
        WorkflowsSettings(),
        description="Runs: applications whose calls feed each other, and workflows that clients call as models.",
    )
    applications: ApplicationsSettings = Field(
        ApplicationsSettings(), description="Applications that are found in plain calls; off by default."
    )
    learning: LearningSettings = Field(LearningSettings(), description="Training from outcomes.")
    judging: JudgingSettings | None = Field(
        None, description="An engine that judges a sample; null for none."
    )
    feedback: FeedbackSettings = Field(FeedbackSettings(), description="What users say of answers.")
    private: PrivateSettings = Field(
        PrivateSettings(), description="Tenants with differentially private banks."
    )
    replay: ReplaySettings = Field(ReplaySettings(), description="Improving the bank while traffic sleeps.")
    admin: AdminSettings = Field(AdminSettings(), description="The admin pages, on an address of their own.")
    webhooks: tuple[WebhookSettings, ...] = Field(
        (),
        description="Who is told of budgets nearly spent, engines down, a full disk and keys that end: each {url, shape, "
        "secret, events}. shape: standard (signed with secret), json, slack, teams or pagerduty; events null for all.",
    )
    log: LogSettings = Field(LogSettings(), description="Logging.")
    guardrails: dict[str, GuardrailSettings] = Field(
        {},
        description="Servers by name that are asked about requests before anything answers them, or about answers.",
    )
    otel: TelemetrySettings = Field(TelemetrySettings(), description="OpenTelemetry; off by default.")
    _told: tuple[str, ...] = PrivateAttr(())

    @field_validator("engines", mode="before")
    @classmethod
    def _openai_is_the_default_kind(cls, engines: Any) -> Any:
        if not isinstance(engines, dict):
            return engines
        return {
            name: {"kind": "openai", **engine} if isinstance(engine, dict) else engine
            for name, engine in engines.items()
        }

    @model_validator(mode="after")
    def _names_exist(self) -> Config:
        known = ", ".join(sorted(self.engines)) or "none are configured"
        for name, model in self.models.items():
            self._engines_are_known(name, model, known)
            self._policy_can_work(name, model)
        if self.judging is not None and self.judging.engine not in self.engines:
            raise ValueError(
                f"judging.engine is {self.judging.engine!r}; known engines: {known}"
                f"{meant(self.judging.engine, self.engines)}"
            )
        self._replay_has_what_it_needs(known)
        check_apis(self.engines, self.judging, self.replay)
        self._tasks_can_work()
        self._workflows_can_work()
        self._keys_can_be_kept()
        self._reaches_what_there_is()
        if self.webhooks and self.memory is None:
            raise ValueError(
                "webhooks names receivers, but nothing keeps what they are to be told: set `memory`"
            )
        check_workers(self.listen.workers, self.engines)
        check_client_key(self.engines, self.upstream)
        check_ports(self)
        if self.private.tenants and (self.memory is None or not self.memory.examples.enabled):
            raise ValueError(
                "private.tenants names tenants, but there is no bank to keep private: set `memory`, with "
                "examples.enabled left on"
            )
        if self.upstream is None and not self.models:
            raise ValueError("nowhere to send requests: set `upstream.base_url`, or `engines` and `models`")
        return self

    def _engines_are_known(self, name: str, model: ModelSettings, known: str) -> None:
        if is_wildcard(name) and (model.policy != "fixed" or model.tasks):
            raise ValueError(
                f"models.{name} stands for several names, and what is learnt of one says nothing of another: leave its "
                "policy fixed and its tasks away, and list names that are to be routed by themselves"
            )
        larger = (model.larger_context,) if model.larger_context else ()
        for engine in (*model.engines, *model.cascade, *larger):
            if engine not in self.engines:
                raise ValueError(
                    f"models.{name} names the engine {engine!r}; known engines: {known}{meant(engine, self.engines)}"
                )

        if model.agreement in self.engines:
            raise ValueError(
                f"models.{name}.cascade is asked under the name {model.agreement!r}, which an engine has: call that engine "
                "something else"
            )

    def _policy_can_work(self, name: str, model: ModelSettings) -> None:
        if model.policy == "in_context" and not any(map(self._price_of, model.engines)):
            raise ValueError(
                f"models.{name}: in_context weighs cost, but no engine of it has a price; set engines.*.price, "
                "if only in relation to each other"
            )
        if (model.policy, model.proof) == ("in_context", "floor") and (
            self.judging is None or self.judging.share_offloaded == 0 or not self.learning.enabled
        ):
            raise ValueError(
                f"models.{name}.proof is floor, but nothing shows whether max_loss holds: "
                "set `judging` with a share_offloaded above 0, and leave learning.enabled on"
            )

    def taken_along(self, told: tuple[str, ...]) -> Config:
        """This configuration, which tells of what its file has that was not taken as it is: a sentence for each."""
        self._told = told
        return self

    @property
    def told(self) -> tuple[str, ...]:
        """A sentence for each retired setting of the file, and for each price that is not on the list."""
        return self._told

    def references(self) -> dict[str, str]:
        """The reference engine of every model that another engine may answer, too."""
        return {name: model.engines[-1] for name, model in self.models.items() if len(model.engines) > 1}

    def definitions(self) -> dict[str, Definition]:
        """The configured workflows. Raises DefinitionError; not for a Config that was validated."""
        world = self.world()
        return {name: read_definition(name, each, world) for name, each in self.workflows.definitions.items()}

    def world(self) -> World:
        """What a workflow of this configuration may refer to."""
        settings = self.workflows
        names, served = frozenset(settings.definitions), ByModelName(self.models)
        anywhere = self.upstream is not None
        return World(
            {name: frozenset(ABILITIES[each.kind]) for name, each in self.components.items()},
            is_model=lambda name: name in served or (anywhere and name not in names),
            taken=lambda name: name in served,
            max_steps=settings.max_steps,
            max_items=settings.max_items,
        )

    def _workflows_can_work(self) -> None:
        """Every workflow's faults, all at once."""
        if WORKFLOW in self.engines:
            raise ValueError(
                f"engines.{WORKFLOW} has the name under which workflows are answered: call that engine something else"
            )
        if self.workflows.definitions and self.memory is None:
            raise ValueError(
                "workflows has workflows, but nothing keeps their runs: set `memory`, with data_dir null to forget them at "
                "the end"
            )
        if "local" in self.components and self.components["local"].kind != "local":
            raise ValueError(
                "components.local has the name of the house's own embedder and reranker: call it something else"
            )
        world = self.world()
        told = []
        for name, value in self.workflows.definitions.items():
            try:
                read_definition(name, value, world)
            except DefinitionError as error:
                told.append(error.message)
        if told:
            raise ValueError("\n".join(told))

    def _reaches_what_there_is(self) -> None:
        """Raises ValueError for what sends requests nowhere, or back here."""
        regions = {
            one.region for one in (*self.engines.values(), *((self.upstream,) if self.upstream else ()))
        } - {""}
        secrets: dict[str, str] = {}
        for name, tenant in self.tenants.items():
            if tenant.region and tenant.region not in regions:
                known = ", ".join(sorted(regions)) or "none has one: set engines.*.region or upstream.region"
                raise ValueError(
                    f"tenants.{name}.region is {tenant.region!r}, where no engine and no upstream is; known regions: {known}"
                )
            if tenant.upstream_key is not None and self.upstream is None:
                raise ValueError(f"tenants.{name}.upstream_key is a key for `upstream`, and there is none")
        for name, key in self.keys.items():
            if (first := secrets.setdefault(key.secret.get_secret_value(), name)) != name:
                raise ValueError(
                    f"keys.{first} and keys.{name} have the same secret: nobody could tell who asks"
                )
        self._asks_not_itself()

    def _asks_not_itself(self) -> None:
        for setting, url in self._urls():
            parts = urlsplit(url)
            here = parts.hostname == self.listen.host or is_loopback(parts.hostname or "")
            if here and self.listen.port and parts.port == self.listen.port:
                raise ValueError(
                    f"{setting} is {url}, which is this gateway itself (listen.port): name the API behind it"
                )

    def _urls(self) -> Iterator[tuple[str, str]]:
        if self.upstream is not None:
            yield "upstream.base_url", self.upstream.base_url
        for name, engine in self.engines.items():
            for server in engine.servers.values() if isinstance(engine, HTTPEngine) else ():
                yield f"engines.{name}.base_url", server.url

    def _keys_can_be_kept(self) -> None:
        check_names("key name", self.keys)
        check_names("tenant name", self.tenants)
        check_names("tenant name", dict.fromkeys(key.tenant for key in self.keys.values()))
        if (self.keys or self.tenants) and self.memory is None:
            raise ValueError(
                "there are keys or tenants, but nothing keeps them: set `memory`, with data_dir null to forget them at the "
                "end"
            )

    def _tasks_can_work(self) -> None:
        for name, model in self.models.items():
            if not model.tasks:
                continue
            if self.memory is None or not self.memory.examples.enabled:
                raise ValueError(
                    f"models.{name}.tasks names tasks, but nothing is remembered to learn them from: set `memory`, with "
                    "examples.enabled left on"
                )
            if "student" in self.engines:
                raise ValueError(
                    f"models.{name}.tasks names tasks, but engines.student has the name under which the gateway's own "
                    "student answers them: call that engine something else"
                )
            reference = model.engines[-1]
            for task, settings in model.tasks.items():
                if (
                    settings.budget
                    and settings.budget.usd_per_day is not None
                    and not self._price_of(reference)
                ):
                    raise ValueError(
                        f"models.{name}.tasks.{task}.budget.usd_per_day is {settings.budget.usd_per_day:g}, but engine "
                        f"{reference!r} has no price: set engines.{reference}.price, or calls_per_day or share instead"
                    )

    def _replay_has_what_it_needs(self, known: str) -> None:
        replay = self.replay
        advanced = replay.advanced
        named = {
            "judge": replay.judge,
            "advanced.engine": advanced.engine,
            "advanced.generator": advanced.generator,
        }
        planned = (("advanced.kv_plan.engines", name) for name in advanced.kv_plan.engines)
        for key, engine in (*named.items(), *planned):
            if engine is not None and engine not in self.engines:
                raise ValueError(f"replay.{key} names the engine {engine!r}; known engines: {known}")
        self._order_suits_the_plan()
        if not replay.enabled:
            if advanced.kv_plan.engines:
                raise ValueError(
                    "replay.advanced.kv_plan.engines names engines, but replay.enabled is false: nobody would make the plan"
                )
            return
        if self.memory is None or not self.memory.examples.enabled or not self.memory.log_requests:
            raise ValueError(
                "replay.enabled is true, but there is nothing to replay: set `memory`, with examples.enabled and "
                "log_requests left on"
            )
        if self.memory.data_dir is None:
            raise ValueError(
                "replay.enabled is true, but memory.data_dir is null, which forgets everything at the end: name a folder"
            )
        if replay.judge is None and self.judging is None:
            raise ValueError("replay.enabled is true, but nobody can judge: set replay.judge, or `judging`")
        beyond = self.replay_out_of_reach()
        if beyond is not None:
            raise ValueError(f"replay.enabled is true, but {beyond}")

    def unspoken(self) -> list[str]:
        """See understudy.settings.apis."""
        told = list(unspoken(self.engines, self.models, self.replay))
        # One tenant has nobody to be kept apart from.
        return [*told, *(unsalted(self.engines) if len(self.tenants) > 1 or len(self.keys) > 1 else ())]

    def replay_out_of_reach(self) -> str | None:
        """See understudy.settings.reach."""
        return replay_out_of_reach(self.engines, self.models, self.replay, self.judging)

    def _order_suits_the_plan(self) -> None:
        for name in self.replay.advanced.kv_plan.engines:
            used = [m for m in self.models.values() if m.engines[0] == name and m.policy == "in_context"]
            if not used or any(m.advanced.example_order != "stable" for m in used):
                raise ValueError(
                    f"replay.advanced.kv_plan.engines names {name!r}: every model whose smallest engine it is needs policy "
                    "in_context with advanced.example_order stable, and there must be one; prefixes are shared only in "
                    "that order"
                )

    def _price_of(self, engine: str) -> float:
        return self.engines[engine].price.both_usd_per_mtok


def check_workers(workers: int, engines: Mapping[str, AnyEngine]) -> None:
    """Raises ValueError where several workers would each bring up an engine of their own."""
    for name, engine in engines.items():
        if workers > 1 and isinstance(engine, VLLMLocalEngine):
            raise ValueError(
                f"listen.workers is {workers}, but engines.{name} is of kind vllm-local, which lives inside one worker; "
                "set it to 1, or run `vllm serve` beside the gateway and use kind vllm"
            )


def meant(given: str, known: Iterable[str]) -> str:
    """What was meant, most likely, to be put behind an error; empty where nothing comes near."""
    near = difflib.get_close_matches(given, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def check_ports(config: Config) -> None:
    """Raises ValueError where the admin pages would be served on the gateway's own port."""
    listen, admin = config.listen, config.admin
    served = admin.enabled and config.memory is not None and config.memory.data_dir is not None
    same_host = listen.host == admin.host or not {listen.host, admin.host}.isdisjoint(_EVERY_ADDRESS)
    if served and same_host and listen.port == admin.port != 0:
        raise ValueError(
            f"listen.port and admin.port are both {admin.port}: set one of them to another, or admin.enabled to false "
            "(--admin off)"
        )


_EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})
