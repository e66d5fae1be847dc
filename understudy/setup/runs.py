"""Builds what carries applications' runs out, and its endpoints."""

from __future__ import annotations

from engines.chat import ChatRequest
from gateway.endpoints.collections import Collections
from gateway.endpoints.handler import Handler, mounted
from gateway.endpoints.runs import RunsHandler
from gateway.endpoints.steps import RunCallers, Steps
from gateway.endpoints.variables import Variables
from gateway.endpoints.workflows import Workflows
from gateway.runs.intake import Intake
from gateway.runs.metrics import RunMetrics
from gateway.runs.step_door import StepDoor
from understudy.built import Built
from understudy.settings.config import Config
from workflows.running.knobs import RunKnobs
from workflows.running.runs import Runs

MOST_PROMPT_CHARACTERS = 8_000_000
"""Of a step's prompt with its variables in place: some two million tokens, more than any engine's context window."""


def add_to(built: Built) -> None:
    """Carry runs out over this gateway's pipeline and store, and serve them."""
    config, store, engines = built.config, built.remembered.store, built.engines
    pipeline, catalogue, end_users = built.pipeline, built.catalogue, built.end_users
    assert pipeline is not None and catalogue is not None and end_users is not None
    admission, max_json_bytes = built.admission, built.max_json_bytes

    def may_ask(name: str) -> bool:
        model = pipeline.model(name)
        return model is not None and all(engines[each].info.holds_key for each in model.engines)

    def most(chat: ChatRequest) -> tuple[float, int]:
        return built.stages.most(chat, pipeline.prices(chat.model).values())

    book = store.decisions.usage.book
    door = StepDoor(pipeline.answer, admission, may_ask, pipeline.prices, most, built.began, book)
    runs = built.runs = Runs(
        door,
        store.runs,
        knobs(config),
        metrics=RunMetrics(built.metrics.registry),
        move=engines.move,
        means=built.means,
    )
    built.parts.add(runs, start=runs.start, aclose=runs.aclose)
    intake = Intake(runs)
    callers = RunCallers(
        built.keys,
        end_users,
        max_kept_bytes=built.kept_bytes,
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
            catalogue,
            built.call_limits,
            max_json_bytes=max_json_bytes,
        ),
        "collections": Collections(store.runs.assets, callers),
        "workflows": Workflows(runs, catalogue, callers),
    }
    built.steps = Steps(intake, callers, pipeline, admission)
    built.otherwise = mounted(handlers, built.otherwise)


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
