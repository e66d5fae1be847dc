"""Takes what clients submit: names become variables, rows are committed, and only then ids are told.

What is wrong with it becomes an error in OpenAI's shape.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engines.errors import RequestError
from engines.off_loop import off_loop
from gateway.runs.caller import Caller
from store.errors import StoreBusy, StoreError
from store.workflows.records import (
    Begun,
    IdempotencyConflict,
    RunBudget,
    TooManyBytes,
    TooManyRuns,
    VariableExists,
)
from workflows.criteria import Criteria
from workflows.errors import WorkflowError
from workflows.names import RunId, StepId, VariableId, new_id, scoped
from workflows.progress import Failure
from workflows.running.live import LiveRun
from workflows.running.new_graph import NewGraph
from workflows.running.runs import Runs
from workflows.submitted import Limits, RunAsked, StepAsked, build, read_run, read_step, steps_of

_RETRY_AFTER_S = 5.0
_MAX_KEY_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A client's key for one request, and what that request was."""

    key: str = ""
    hash: bytes = b""


NEVER_REPEATED = Idempotency()


def idempotency(key: str | None, body: bytes, end_user: str) -> Idempotency:
    """Of the header `Idempotency-Key` and a request's body, among those of the end user. Raises RequestError."""
    if key is None:
        return NEVER_REPEATED
    if not key or len(key) > _MAX_KEY_CHARACTERS:
        raise RequestError(
            f"Idempotency-Key has {len(key)} characters; 1 to {_MAX_KEY_CHARACTERS} are right.",
            code="invalid_idempotency_key",
            param="Idempotency-Key",
        )
    return Idempotency(scoped(end_user, key), hashlib.blake2b(body, digest_size=32).digest())


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a submit."""

    run: RunId
    outputs: dict[str, VariableId]
    """Ids by name."""
    live: LiveRun | None
    """None for a repeat of an earlier request, whose run this is."""
    step: StepId = ""

    @classmethod
    def of(cls, begun: LiveRun | Begun) -> Taken:
        """Of a run of a workflow, whose variables are told with the run."""
        return cls(begun.id, {}, begun) if isinstance(begun, LiveRun) else cls(begun.run_id, {}, None)


class Intake:
    """Everything here raises RequestError."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        knobs = runs.knobs
        self._limits = Limits(knobs.max_steps, knobs.max_value_bytes)

    def read_step(self, fields: dict[str, Any]) -> StepAsked:
        """A chat body with the object `understudy`."""
        with refusals():
            return read_step(fields, self._limits, f"s{secrets.token_hex(6)}")

    def read_run(self, body: object) -> RunAsked:
        """The body of `POST /v1/runs`."""
        with refusals():
            return read_run(body, self._limits)

    async def call(
        self, caller: Caller, asked: StepAsked, repeat: Idempotency = NEVER_REPEATED, size_bytes: int = 0
    ) -> Taken:
        """One call: submitted, to be carried out by itself, or to be carried out with `Runs.call`."""
        refuse_unstored(caller, background=asked.submit)
        id, outputs = asked.spec.name, {name: new_id("var") for name in asked.spec.writes}
        names = await self._names(caller.tenant, asked.app, asked.names, "messages")
        waits = not asked.submit
        gets: dict[VariableId | StepId, Criteria] = {}
        if waits:
            gets[id] = asked.criteria or Criteria.LATENCY
        elif asked.criteria is not None:
            gets |= dict.fromkeys(outputs.values(), asked.criteria)
        new = NewGraph(
            caller,
            steps_of((asked.spec,), {**names, **outputs}),
            app=asked.app or "",
            gets=gets,
            background=asked.submit,
            attached=id if waits else None,
            idempotency_key="" if waits else repeat.key,
            idempotency_hash=b"" if waits else repeat.hash,
            size_bytes=size_bytes,
        )
        with refusals():
            begun = await self.runs.submit(new)
        return await self._taken(caller, begun, outputs, id)

    async def run(
        self, caller: Caller, asked: RunAsked, repeat: Idempotency = NEVER_REPEATED, size_bytes: int = 0
    ) -> Taken:
        """A whole run."""
        refuse_unstored(caller, background=asked.background)
        names = await self._names(caller.tenant, asked.app, asked.from_app, "steps")
        with refusals():
            built = await off_loop(size_bytes, build, asked, names)
            budget = RunBudget(asked.budget.usd, asked.budget.tokens, asked.budget.seconds)
            new = NewGraph(
                caller,
                tuple(built.graph.steps.values()),
                app=asked.app or "",
                gets=built.gets,
                budget=budget,
                background=asked.background,
                idempotency_key=repeat.key,
                idempotency_hash=repeat.hash,
                size_bytes=size_bytes,
            )
            begun = await self.runs.begin(new)
        return await self._taken(caller, begun, dict(built.variables), "")

    async def _taken(
        self, caller: Caller, begun: LiveRun | Begun, outputs: dict[str, VariableId], step: StepId
    ) -> Taken:
        if isinstance(begun, LiveRun):
            return Taken(begun.id, outputs, begun, step)
        whole = await self.runs.store.reads(self.runs.store.run, begun.run_id, caller.tenant)
        known = {v.name: v.id for v in whole.variables} if whole is not None else {}
        return Taken(begun.run_id, known, None)

    async def _names(
        self, tenant: str, app: str | None, names: tuple[str, ...], param: str
    ) -> dict[str, VariableId]:
        if not names:
            return {}
        with store_refusals():
            found = await self.runs.named(tenant, app, names) if app is not None else {}
        missing = next((name for name in names if name not in found), None)
        if missing is not None:
            raise RequestError(
                f"Nothing is called {missing!r}: it is not in `inputs`, and no variable of the app has this name.",
                code="unknown_name",
                param=param,
            )
        return found


@contextmanager
def refusals() -> Iterator[None]:
    """What is wrong with a request, or with the store, as RequestError."""
    try:
        yield
    except WorkflowError as error:
        retry_after_s = _RETRY_AFTER_S if error.status == 429 else None
        raise RequestError(
            error.message,
            status=error.status,
            code=error.code,
            param=error.param,
            retry_after_s=retry_after_s,
        ) from None
    except VariableExists as error:
        names = ", ".join(map(repr, error.names[:10]))
        raise RequestError(
            f"The app has a variable of this name already: {names}. A variable is written once.",
            status=409,
            code="variable_exists",
            param="understudy.output",
        ) from None
    except IdempotencyConflict:
        raise RequestError(
            "This Idempotency-Key was used before for another request.",
            status=409,
            code="idempotency_conflict",
            param="Idempotency-Key",
        ) from None
    except TooManyRuns:
        raise RequestError(
            "As many runs as workflows.max_runs allows are under way; try again when one has ended.",
            status=429,
            code="too_many_runs",
            retry_after_s=_RETRY_AFTER_S,
        ) from None
    except TooManyBytes:
        raise RequestError(
            "Values and bodies of runs would take more room than workflows.max_total_mib allows.",
            status=413,
            code="total_too_large",
        ) from None
    except KeyError:
        raise absent() from None
    except StoreError as error:
        raise _store_refusal(error) from error


@contextmanager
def store_refusals() -> Iterator[None]:
    """What is wrong with the store, as RequestError."""
    try:
        yield
    except StoreError as error:
        raise _store_refusal(error) from error


def _store_refusal(error: StoreError) -> RequestError:
    busy = isinstance(error, StoreBusy)
    return RequestError(
        "The store is busy; try again." if busy else "The store cannot be used just now; try again.",
        status=503,
        code="store_busy" if busy else "store_unavailable",
        retry_after_s=_RETRY_AFTER_S,
    )


def absent(what: str = "variable") -> RequestError:
    """The same for another tenant's, an expired and an absent one."""
    return RequestError(f"There is no such {what}.", status=404, code=f"{what}_not_found")


def no_value(name: str, failure: Failure | None) -> RequestError:
    """A variable that will never have a value: 424 with the chain of names that failed."""
    if failure is None:
        return RequestError(f"{name!r} was cancelled.", status=424, code="producer_failed", param=name)
    chain = " <- ".join(failure.chain) or name
    return RequestError(
        f"{name!r} has no value ({failure.code}; {chain}): {failure.message}",
        status=424,
        code="producer_failed",
        param=name,
    )


def refuse_unstored(caller: Caller, *, background: bool) -> None:
    """Raises RequestError for a run that nobody waits for and that is stored nowhere.

    Only memory would hold it: no limit of a tenant bounds that, and no client's leaving ends it.
    """
    if background and caller.controls.no_store:
        raise RequestError(
            "A run in the background is stored, and this one may be stored nowhere (no-store): wait for it, without"
            " `background` and `submit`, or let it be stored.",
            code="background_not_stored",
        )


def value_not_stored() -> RequestError:
    """Of a value that went with its run, as nothing of it was to be stored."""
    return RequestError(
        "This value was stored nowhere (no-store), and ended with its run.",
        status=409,
        code="value_not_stored",
    )
