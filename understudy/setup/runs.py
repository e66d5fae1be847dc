"""Builds what carries applications' runs out, and its endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engines.chat import ChatRequest
from engines.registry import Registry
from gateway.admission import Admission
from gateway.endpoints.collections import Collections
from gateway.endpoints.handler import Handler
from gateway.endpoints.runs import RunsHandler
from gateway.endpoints.steps import RunCallers, Steps
from gateway.endpoints.variables import Variables
from gateway.endpoints.workflows import Workflows
from gateway.keys import Authenticator
from gateway.pipeline import Pipeline
from gateway.runs.intake import Intake
from gateway.runs.metrics import RunMetrics
from gateway.runs.step_door import StepDoor
from gateway.stages.features import Features
from learning.bank.contributor import EndUsers
from store.store import Store
from understudy.settings.config import Config
from understudy.setup.workflows import WorkflowParts
from workflows.running.knobs import RunKnobs
from workflows.running.runs import Runs

MOST_PROMPT_CHARACTERS = 8_000_000
"""Of a step's prompt with its variables in place: some two million tokens, more than any engine's context window."""


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
    features: Features,
    admission: Admission,
    engines: Registry,
    workflows: WorkflowParts,
    keys: Authenticator,
    end_users: EndUsers,
    *,
    max_json_bytes: int,
    max_kept_bytes: int,
    began: Callable[[], None],
    metrics: RunMetrics,
) -> RunParts:
    """The executor over this gateway's pipeline and store, and its handlers. `began`: a request came in."""

    def may_ask(name: str) -> bool:
        model = pipeline.model(name)
        return model is not None and all(engines[each].info.holds_key for each in model.engines)

    def most(chat: ChatRequest) -> tuple[float, int]:
        return features.most(chat, pipeline.prices(chat.model).values())

    door = StepDoor(
        pipeline.answer, admission, may_ask, pipeline.prices, most, began, store.decisions.usage.book
    )
    runs = Runs(door, store.runs, knobs(config), metrics=metrics, move=engines.move, means=workflows.means)
    intake = Intake(runs)
    callers = RunCallers(
        keys,
        end_users,
        max_kept_bytes=max_kept_bytes,
        credential_headers=config.listen.tenant_headers,
    )
    variables = Variables(intake, callers, max_json_bytes=max_json_bytes)
    handlers: dict[str, Handler] = {
        "variables": variables,
        "apps": variables,
        "runs": RunsHandler(
            intake,
            callers,
            pipeline,
            workflows.catalogue,
            workflows.limits,
            max_json_bytes=max_json_bytes,
        ),
        "collections": Collections(store.runs.assets, callers),
        "workflows": Workflows(runs, workflows.catalogue, callers),
    }
    return RunParts(runs, Steps(intake, callers, pipeline, admission), handlers)


def knobs(config: Config) -> RunKnobs:
    """The settings of the group `workflows`."""
    settings = config.workflows
    return RunKnobs(
        keep_values_s=settings.keep_values_s,
        max_steps=settings.max_steps,
        max_items=settings.max_items,
        max_value_bytes=int(settings.max_value_kib * 1024),
        # Pieces of documents overlap.
        max_list_bytes=int(2 * settings.max_documents_mib * 2**20),
        max_runs=settings.max_runs,
        max_total_bytes=int(settings.max_total_mib * 2**20),
        max_wait_s=settings.max_wait_s,
        lease_s=settings.advanced.lease_s,
        poll_s=settings.advanced.poll_s,
        max_prompt_characters=MOST_PROMPT_CHARACTERS,
    )
