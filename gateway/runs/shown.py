"""Variables and runs as JSON, as their own tenant sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from engines.chat import ChatRequest
from gateway.errors import error_body
from gateway.runs.cell import Cell
from gateway.runs.intake import Taken, no_value
from store.workflows.records import Failure, Variable, WholeRun
from workflows.progress import Failure as WhyFailed


def submitted(taken: Taken, chat: ChatRequest, now_s: float) -> dict[str, Any]:
    """The answer to a submit: a chat completion without choices, so that SDKs read it."""
    return {
        "id": f"chatcmpl-{taken.run}",
        "object": "chat.completion",
        "created": int(now_s),
        "model": chat.model,
        "choices": [],
        "understudy": {"run": taken.run, "outputs": taken.outputs},
    }


def variable(cell: Cell) -> dict[str, Any]:
    """A variable."""
    return {
        "id": cell.id,
        "object": "variable",
        "app": cell.app.rpartition("/")[2] or None,
        "name": cell.name,
        "run": cell.run or None,
        "status": cell.state,
        "value": cell.value,
        "attempt": cell.attempt,
        "error": failure(cell.failure),
        "expires_at": None if cell.expires_at_s is None else int(cell.expires_at_s),
    }


def failure(why: WhyFailed | Failure | None) -> dict[str, Any] | None:
    """Why something failed."""
    if why is None:
        return None
    return {"code": why.code, "message": why.message, "chain": list(why.chain), "status": why.status or None}


def run(whole: WholeRun, cells: Mapping[str, Cell]) -> dict[str, Any]:
    """A run with its steps and variables. `cells`: of those that this process has in memory."""
    row = whole.run
    return {
        "id": row.id,
        "object": "run",
        "status": row.state,
        "app": row.app.rpartition("/")[2] or None,
        "workflow": {"id": row.workflow, "version": row.version} if row.workflow else None,
        "background": row.background,
        "created_at": int(row.created_at_s),
        "ended_at": None if row.ended_at_s is None else int(row.ended_at_s),
        "expires_at": None if row.expires_at_s is None else int(row.expires_at_s),
        "error": failure(row.failure),
        "adoptions": row.adoptions,
        "variables": {one.name or one.id: _variable(one, cells.get(one.id)) for one in whole.variables},
        "steps": [_step(one) for one in whole.steps],
        "usage": {
            "prompt_tokens": sum(s.progress.prompt_tokens for s in whole.steps),
            "cached_tokens": sum(s.progress.cached_tokens for s in whole.steps),
            "completion_tokens": sum(s.progress.completion_tokens for s in whole.steps),
        },
        "cost_usd": sum(s.progress.cost_usd for s in whole.steps),
        "critical_path": list(row.critical_path),
        "round_trips_saved": row.round_trips_saved,
    }


def _variable(one: Variable, cell: Cell | None) -> dict[str, Any]:
    if cell is not None and cell.ended and cell.kept:
        return {"id": one.id, "status": cell.state, "value": cell.value, "error": failure(cell.failure)}
    value = list(one.value) if isinstance(one.value, tuple) else one.value
    return {"id": one.id, "status": one.state, "value": value, "error": failure(one.failure)}


def _step(one: Any) -> dict[str, Any]:
    progress = one.progress
    return {
        "id": one.plan.id,
        "name": one.plan.name,
        "primitive": one.plan.primitive,
        "component": one.plan.component or None,
        "model": one.plan.model,
        "status": progress.state,
        "items": progress.items,
        "batch": progress.batch or None,
        "effects": one.plan.effects,
        "attempts": progress.attempts,
        "class": progress.rank or None,
        "group": progress.group or None,
        "engine": progress.engine or None,
        "request": progress.request_id or None,
        "usage": {
            "prompt_tokens": progress.prompt_tokens,
            "cached_tokens": progress.cached_tokens,
            "completion_tokens": progress.completion_tokens,
        },
        "cost_usd": progress.cost_usd,
        "error": failure(progress.failure),
    }


def no_value_told(name: str, why: WhyFailed | None) -> dict[str, Any]:
    """The error of a variable that will never have a value, with the names from it to where the failure began."""
    refusal = no_value(name, why)
    told: dict[str, Any] = orjson.loads(
        error_body(refusal.status, refusal.message, code=refusal.code, param=refusal.param)
    )
    told["error"]["chain"] = list(why.chain) if why is not None else [name]
    return told
