"""From the settings to the admin pages: opens the store of the data folder, and hands over what admin must not import."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

import structlog

from admin.actions import OperatorActions
from admin.app import AdminApp, Options
from admin.oidc import OidcOptions, OidcSignIn
from admin.pages import PAGES
from admin.sources import EngineFacts, GatewayInfo, ReplayFacts, ServedFacts, Sources, WorkflowFacts
from learning.evaluation.replayed import Exploring
from learning.guarantee.summary import ProofReader
from learning.replay.nightly import WINDOW_S
from learning.ticks import next_tick
from store import Store
from understudy.operator_actions import AdminActions
from understudy.settings.admin import OidcSettings
from understudy.settings.config import Config
from understudy.settings.effective import EffectiveSettings
from understudy.settings.engines import HTTPEngine
from understudy.settings.models import ModelSettings
from understudy.settings.replay import time_zone
from understudy.setup.assumed_profile import profile
from understudy.setup.learner import promised
from understudy.setup.pipeline import stand_ins
from understudy.setup.proof import gates
from understudy.setup.replay import budget_of
from understudy.setup.store import open_store
from understudy.setup.tasks import task_of
from workflows.declared import read_definition

log = structlog.get_logger(__name__)


@contextmanager
def admin(
    config: Config, port: int, gateway_url: str = "", config_file: Path | None = None
) -> Iterator[tuple[AdminApp, Sources]]:
    """The application over the open store, which is closed again. Raises what opening a store raises."""
    memory = config.memory
    assert memory is not None and memory.data_dir is not None, "admin_wanted"
    store = open_store(memory)
    try:
        actions = AdminActions(config, store)
        made = sources(config, store, gateway_url, config_file, actions.actions())
        app = AdminApp(
            PAGES,
            made,
            Options(
                cookie=f"understudy_admin_{port}",
                secure=config.admin.https,
                oidc=_oidc(config.admin.oidc, store.secret),
                failed=lambda path, error: log.error("admin_failed", path=path, error=error),
                zone=time_zone(config.admin.time_zone),
                version=version("understudy-gateway"),
            ),
        )
        app.app.on_cleanup.append(lambda _: actions.aclose())
        try:
            yield app, made
        finally:
            app.close()
    finally:
        store.close()


def _oidc(settings: OidcSettings | None, secret: bytes) -> OidcSignIn | None:
    """Who signs people in beside passwords; None, and an error in the log, where the extra is not installed."""
    if settings is None:
        return None
    own, advanced = settings.client_secret, settings.advanced
    try:
        return OidcSignIn(
            OidcOptions(
                settings.issuer,
                settings.client_id,
                settings.public_url,
                settings.roles,
                client_secret=own.get_secret_value() if own is not None else "",
                role_claim=settings.role_claim,
                default_role=advanced.default_role,
                scopes=advanced.scopes,
            ),
            secret,
        )
    except ImportError:
        log.error("oidc_missing", remedy="install the extra: pip install 'understudy-gateway[oidc]'")
        return None


def sources(
    config: Config,
    store: Store,
    gateway_url: str = "",
    config_file: Path | None = None,
    actions: OperatorActions | None = None,
) -> Sources:
    """What the pages of this configuration are made from."""
    settings, memory = config.admin.advanced, config.memory
    assert memory is not None, "pages are made from a store"
    effective = EffectiveSettings(config, config_file)
    return Sources(
        store,
        store.sessions(idle_s=settings.idle_min * 60, longest_s=settings.longest_h * 3600),
        store.decisions.rollups(config.models),
        GatewayInfo(
            engines=tuple(_engine(config, name) for name in config.engines),
            models=tuple(_model(config, name) for name in config.models),
            settings=effective.rows,
            settings_news=effective.news,
            check=effective.check,
            config_file=str(config_file or ""),
            gateway_url=gateway_url,
            replay=_replay(config),
            workflows=WorkflowFacts(
                config.definitions(),
                lambda name, value: read_definition(name, value, config.world()),
                lambda: profile(config),
            ),
            infer=config.applications.infer == "show",
            judged=config.judging is not None or any(m.policy != "fixed" for m in config.models.values()),
            quality_alarm=config.learning.quality_alarm,
            proven=ProofReader(
                store.outcomes, store.decisions.choices, gates(config.models, config.engines)
            ).scopes,
            task_of=partial(task_of, config),
            actions=actions or OperatorActions(),
        ),
        partial(open_store, memory),
    )


def _replay(config: Config) -> ReplayFacts:
    settings, lacks = config.replay, ""
    if config.memory is None or not config.memory.examples.enabled:
        lacks = "There are no examples to better: set memory.examples.enabled."
    elif not (settings.judge or config.judging):
        lacks = "Replay needs a judge: set replay.judge, or judging.engine."
    when = f"at {settings.cron!r}" if settings.cron else "in the hour that is usually quietest"
    return ReplayFacts(
        settings.enabled and not lacks,
        f"It runs by itself {when} ({settings.time_zone}), for at most {WINDOW_S / 3600:g} hours, while traffic is low.",
        partial(next_tick, settings.cron, time_zone(settings.time_zone))
        if settings.cron
        else lambda now_s: None,
        lacks,
        budget_of(config),
    )


def _engine(config: Config, name: str) -> EngineFacts:
    settings = config.engines[name]
    return EngineFacts(
        name,
        settings.kind,
        settings.model or "",
        ", ".join(one.url for one in settings.servers.values()) if isinstance(settings, HTTPEngine) else "",
        settings.price.input_usd_per_mtok,
        settings.price.output_usd_per_mtok,
        settings.context_tokens,
        settings.max_in_flight,
    )


def _model(config: Config, name: str) -> ServedFacts:
    settings = config.models[name]
    return ServedFacts(
        name,
        settings.ways,
        settings.policy,
        settings.max_loss if settings.proof == "floor" else None,
        promised(config, settings),
        _exploring(settings),
        stand_ins(settings),
    )


def _exploring(settings: ModelSettings) -> Exploring | None:
    if settings.policy != "in_context":
        return None
    from understudy.setup.in_context import chooser_knobs

    return Exploring(chooser_knobs(settings), settings.max_loss if settings.proof == "floor" else None)
