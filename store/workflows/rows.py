"""Rows of the tables of runs as values, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any

import orjson

from store.workflows.records import (
    Failure,
    NewStep,
    Resolution,
    Run,
    RunBudget,
    Step,
    StepProgress,
    Variable,
)
from store.workflows.values import as_value, without_texts

_BUDGET = ("budget_usd", "budget_tokens", "budget_s")
_NOT_READ = ("budget", "idempotency_key", "idempotency_hash")
_OF_RUN = (*_BUDGET, *(field.name for field in fields(Run) if field.name not in _NOT_READ))
RUN = f"SELECT {', '.join(f'r.{column}' for column in _OF_RUN)} FROM workflow_runs r"  # noqa: S608 - constants
PROGRESS = (
    "state, attempts, rank, task_group, depth, engine, replica, request_id, ready_at_s, queued_at_s, started_at_s,"
    " first_at_s, ended_at_s, prompt_tokens, cached_tokens, completion_tokens, cost_usd, items, batch, failure"
)
"""The columns of a step's progress, in the order of StepProgress."""
_plain_progress = attrgetter(*(field.name for field in fields(StepProgress) if field.name != "failure"))
STEP = (
    f"SELECT s.run_id, s.position, s.step, s.name, s.model, s.body, s.reads, s.writes, s.primitive,"  # noqa: S608 - constants
    f" s.component, s.effects, s.waits, s.claimed_by, s.resolution, {PROGRESS}"
    " FROM workflow_steps s"
)
VARIABLE = (
    "SELECT v.id, v.tenant, v.app, v.name, v.run_id, v.step, v.state, v.value, v.is_list, v.failure, v.attempt,"
    " v.size_bytes, v.created_at_s, v.ended_at_s, v.expires_at_s, v.end_user FROM variables v"
)
HELD = (
    "v.expired = 0 AND (v.expires_at_s IS NULL OR v.expires_at_s > :now"
    " OR EXISTS (SELECT 1 FROM workflow_steps h WHERE h.claimed_until_s IS NOT NULL"
    " AND (h.reads LIKE '%' || v.id || '%' OR h.waits LIKE '%' || v.id || '%')))"
)
"""What has not expired at `:now`, or is read by a step that has not ended."""
CLAIMED_BY_ANOTHER = (
    "EXISTS (SELECT 1 FROM workflow_steps c WHERE c.run_id = r.id AND c.claimed_until_s IS NOT NULL"
    " AND c.claimed_by <> ?)"
)
"""Whether another than the worker asked for carries the run `r` out: a step that has not ended is always claimed."""


def as_run(row: Sequence[Any]) -> Run:
    """A row of `RUN`."""
    told: dict[str, Any] = dict(zip(_OF_RUN, row, strict=True))
    budget = RunBudget(*(told.pop(column) for column in _BUDGET))
    for flag in ("no_store", "background", "cancel_asked"):
        told[flag] = bool(told[flag])
    told["gets"] = json.loads(told["gets"])
    told["context"] = json.loads(told["context"] or b"{}")
    told["failure"] = as_failure(told["failure"])
    told["critical_path"] = tuple(json.loads(told["critical_path"]))
    return Run(budget=budget, **told)


def as_step(row: Sequence[Any]) -> Step:
    """A row of `STEP`."""
    run_id, position, step, name, model, body, reads, writes, primitive, component, effects, waits, *rest = (
        row
    )
    claimed_by, resolution, *progress, failure = rest
    plan = NewStep(
        *(step, name, model, body or b"", json.loads(reads), json.loads(writes)),
        primitive=primitive,
        component=component,
        effects=bool(effects),
        waits=tuple(json.loads(waits)),
    )
    columns: list[Any] = [*progress, as_failure(failure)]
    return Step(run_id, position, plan, StepProgress(*columns), as_resolution(resolution), claimed_by)


def as_variable(row: Sequence[Any]) -> Variable:
    """A row of `VARIABLE`."""
    id, tenant, app, name, run_id, step, state, value, is_list, failure, *rest = row
    return Variable(
        *(id, tenant, app, name, run_id or "", step, state),
        as_value(value, bool(is_list)) if state == "ready" and value is not None else None,
        as_failure(failure),
        *rest,
    )


def progress_row(progress: StepProgress, *, no_store: bool) -> tuple[Any, ...]:
    """The values of `PROGRESS`."""
    return (*_plain_progress(progress), failure_json(progress.failure, no_store=no_store))


def failure_json(failure: Failure | None, *, no_store: bool) -> str | None:
    """A failure as JSON, without what may quote a text where nothing may be stored."""
    kept = without_texts(failure) if no_store else failure
    return None if kept is None else json.dumps(asdict(kept))


def as_failure(text: str | None) -> Failure | None:
    """What `failure_json` was given; what has expired of it is empty."""
    if text is None:
        return None
    told = json.loads(text)
    return Failure(told["code"], told.get("message", ""), told["status"], tuple(told["chain"]))


def resolution_json(resolution: Resolution) -> str:
    """A resolution as JSON."""
    return json.dumps(asdict(resolution))


def as_resolution(text: str | None) -> Resolution | None:
    """What `resolution_json` was given."""
    if text is None:
        return None
    told = json.loads(text)
    return Resolution(told["how"], tuple(told["value"]) if isinstance(told["value"], list) else told["value"])


def ids_json(ids: Iterable[str]) -> str:
    """For `IN (SELECT value FROM json_each(?))`."""
    return orjson.dumps(list(ids)).decode()


def mapping_json(mapping: Mapping[str, str]) -> str:
    """Names and ids as a JSON object."""
    return orjson.dumps(dict(mapping)).decode()
