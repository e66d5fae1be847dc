"""Knobs as the default settings give them, with what a test changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engines.engine import Engine
from engines.servers.breaker import Breaker
from engines.servers.limits import Credentials
from engines.servers.server import Limits, Server
from engines.servers.servers import Servers
from engines.timeouts import Timeouts
from learning.outcomes.judging_limits import JudgingLimits
from router.choosing import chooser
from router.choosing.load import LoadKnobs
from router.examples import count
from router.policies import few_shot, in_context
from store.admission import AdmissionSettings, ContributorLimits
from understudy.settings.engines import EngineSettings, HTTPAdvanced
from understudy.settings.knobs import knobs_of
from understudy.settings.learning import JudgingSettings
from understudy.settings.memory import MemorySettings
from understudy.settings.models import FewShotSettings, InContextSettings, ModelAdvanced
from understudy.setup.examples import admission

MODEL, MEMORY, ENGINE = ModelAdvanced(), MemorySettings(), EngineSettings()


def timeouts() -> Timeouts:
    return knobs_of(Timeouts, HTTPAdvanced())


def limits(**changes: Any) -> Limits:
    return replace(knobs_of(Limits, ENGINE, ENGINE.advanced), **changes)


def breaker() -> Breaker:
    advanced = ENGINE.advanced
    return Breaker(failures=advanced.breaker_failures, open_s=advanced.breaker_open_s)


def few_shot_knobs(**changes: Any) -> few_shot.Knobs:
    groups = FewShotSettings(), MODEL, MEMORY.advanced, MEMORY.examples
    return replace(knobs_of(few_shot.Knobs, *groups, with_tools="off"), **changes)


def load_knobs(**changes: Any) -> LoadKnobs:
    made = LoadKnobs(MODEL.load_strength)
    return replace(made, **changes)


def chooser_knobs(**changes: Any) -> chooser.Knobs:
    made = chooser.Knobs(least_probability=0.01, load=load_knobs())
    return replace(made, **changes)


def in_context_knobs(**changes: Any) -> in_context.Knobs:
    made = knobs_of(
        in_context.Knobs,
        InContextSettings(),
        FewShotSettings(),
        MODEL,
        MEMORY.examples,
        with_tools="off",
        deadline_s=0.1,
        counts=count.Knobs(),
        least_probability=0.01,
        max_loss=None,
    )
    return replace(made, **changes)


def admission_settings(**changes: Any) -> AdmissionSettings:
    return replace(admission(MEMORY).settings, **changes)


def contributor_limits(**changes: Any) -> ContributorLimits:
    return replace(admission(MEMORY).settings.contributors, **changes)


def judging_limits(**changes: Any) -> JudgingLimits:
    settings = JudgingSettings(engine="judge")
    return replace(knobs_of(JudgingLimits, settings, settings.advanced), **changes)


def servers_of(
    engine: Engine,
    within: Limits | None = None,
    rest: Breaker | None = None,
    credentials: Credentials | None = None,
) -> Servers:
    """The engine as a list of one server."""
    return Servers([Server(engine, within or limits(), rest or breaker(), credentials)])
