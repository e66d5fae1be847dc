"""Builds what carries applications' runs out, and its endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engines.engine import Engine
from gateway.handlers.handler import Handler
from gateway.handlers.runs import RunsHandler
from gateway.handlers.steps import RunCallers, Steps
from gateway.handlers.variables import Variables
from gateway.keys import Authenticator
from gateway.pipeline import Pipeline
from gateway.runs.intake import Intake
from gateway.runs.knobs import RunKnobs
from gateway.runs.runs import Runs
from learning.bank.contributor import EndUsers
from store.store import Store
from understudy.settings.config import Config


@dataclass(frozen=True, slots=True)
class RunParts:
    """What came of it."""

    runs: Runs
    steps: Steps
    """Chat completions that carry the object `understudy`."""
    handlers: Mapping[str, Handler]
    """By the first segment of the path."""


def run_parts(
    config: Config,
    store: Store,
    pipeline: Pipeline,
    engines: Mapping[str, Engine],
    keys: Authenticator,
    end_users: EndUsers,
    *,
    max_json_bytes: int,
    max_kept_bytes: int,
) -> RunParts:
    """The executor over this gateway's pipeline and store, and its handlers."""

    def may_ask(name: str) -> bool:
        model = pipeline.model(name)
        return model is not None and all(engines[each].info.holds_key for each in model.engines)

    runs = Runs(pipeline.answer, store.runs, knobs(config, max_json_bytes), may_ask=may_ask)
    intake = Intake(runs)
    callers = RunCallers(keys, end_users, max_kept_bytes=max_kept_bytes)
    variables = Variables(intake, callers, max_json_bytes=max_json_bytes)
    handlers: dict[str, Handler] = {
        "variables": variables,
        "apps": variables,
        "runs": RunsHandler(intake, callers, pipeline, max_json_bytes=max_json_bytes),
    }
    return RunParts(runs, Steps(intake, callers, pipeline), handlers)


def knobs(config: Config, max_json_bytes: int) -> RunKnobs:
    """The settings of the group `workflows`."""
    return RunKnobs(
        keep_values_s=3600.0,
        max_steps=1000,
        max_value_bytes=1024 * 1024,
        max_runs=1000,
        max_total_bytes=256 * 2**20,
        lease_s=10.0,
        poll_s=0.02,
        max_prompt_characters=max_json_bytes,
    )
