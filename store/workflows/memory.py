"""Runs of applications in one process's memory: `RunStore` for a gateway without memory, and for a simulated clock.

Nothing of it outlives the process, and no other process sees it. Every write is done when its future is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from store.reading import FromMemory
from store.workflows.assets import Assets
from store.workflows.memory_assets import MemoryAssets, done
from store.workflows.records import (
    ENDED,
    Begun,
    Change,
    ChangeKind,
    Changes,
    IdempotencyConflict,
    LeaseLost,
    Limits,
    NewRun,
    NewStep,
    NewVariable,
    NoSuchRun,
    Resolution,
    Run,
    RunChange,
    RunState,
    RunSummary,
    Sharer,
    Step,
    StepProgress,
    TenantUse,
    TooManyRuns,
    Variable,
    VariableEnd,
    VariableExists,
    WholeRun,
)
from store.workflows.run_store import NO_LIMITS
from store.workflows.values import added_bytes, hold_room, size_of, strictest, without_texts

_CHANGES_KEPT = 10_000


@dataclass(slots=True)
class _Held:
    """A run with what belongs to it."""

    run: Run
    asked: NewRun
    steps: dict[str, Step] = field(default_factory=dict)
    outside: set[str] = field(default_factory=set)
    """Variables of others that its steps read."""
    expired: bool = False

    def behind(self) -> set[str]:
        """Who asked for any of it."""
        return {self.run.contributor, *(step.plan.contributor for step in self.steps.values())}


@dataclass(slots=True)
class _Kept:
    """A variable with what no reader sees."""

    variable: Variable
    contributor: str
    text: str = ""
    """What came of it so far."""
    expired: bool = False


class MemoryRuns:
    """Runs, steps, variables, leases, and the log of changes: see `RunStore` for what each does.

    For one thread. A run that is not to be stored is kept here as any other: nothing is written anywhere.
    """

    def __init__(self) -> None:
        self._runs: dict[str, _Held] = {}
        self._variables: dict[str, _Kept] = {}
        self._names: dict[tuple[str, str, str], str] = {}
        self._live: set[str] = set()
        self._bytes: Counter[str] = Counter()
        self._log: list[Change] = []
        self._cut = 0
        """How many lines were dropped from the beginning of the log."""
        self.reads = FromMemory()
        self._assets = MemoryAssets(self._bytes)
        self.assets: Assets = self._assets

    # ---- a run's life

    def begin(
        self,
        run: NewRun,
        steps: Sequence[NewStep],
        variables: Sequence[NewVariable],
        limits: Limits = NO_LIMITS,
    ) -> Future[Begun]:
        """Keep a run with all its steps and variables, or nothing of it."""
        return done(lambda: self._begin(run, steps, variables, limits))

    def _begin(
        self, run: NewRun, steps: Sequence[NewStep], variables: Sequence[NewVariable], limits: Limits
    ) -> Begun:
        for held in self._runs.values() if run.idempotency_key else ():
            if (held.asked.tenant, held.asked.idempotency_key) == (run.tenant, run.idempotency_key):
                if held.asked.idempotency_hash != run.idempotency_hash:
                    raise IdempotencyConflict(run.idempotency_key)
                return Begun(held.run.id, repeated=True)
        if limits.max_runs is not None and self.use(run.tenant).live_runs >= limits.max_runs:
            raise TooManyRuns(f"{limits.max_runs} runs go on already")
        held = _Held(_as_run(run), run)
        self._add(held, steps, variables, run.created_at_s, limits)
        self._runs[run.id] = held
        self._live.add(run.id)
        self._note("run", run.id)
        return Begun(run.id, repeated=False)

    def extend(
        self,
        tenant: str,
        run_id: str,
        steps: Sequence[NewStep],
        variables: Sequence[NewVariable],
        *,
        now_s: float,
        limits: Limits = NO_LIMITS,
        owner: str | None = None,
    ) -> Future[None]:
        """Add steps to a live run."""

        def extend() -> None:
            held = self._runs.get(run_id)
            if held is None or held.run.tenant != tenant or run_id not in self._live:
                raise NoSuchRun(run_id)
            if owner is not None and held.run.owner != owner:
                raise NoSuchRun(run_id)
            self._add(held, steps, variables, now_s, limits)
            self._note("steps", run_id)

        return done(extend)

    def save(self, owner: str, changes: Sequence[RunChange]) -> Future[None]:
        """Write what happened to runs."""

        def save() -> None:
            lost = [change.run_id for change in changes if not self._owned(owner, change.run_id)]
            if lost:
                raise LeaseLost(lost)
            for change in changes:
                self._save(self._runs[change.run_id], change)

        return done(save)

    def _save(self, held: _Held, change: RunChange) -> None:
        for id, progress in change.steps.items():
            known = held.steps[id]
            resolution = known.resolution if progress.state == "unknown" else None
            held.steps[id] = replace(known, progress=progress, resolution=resolution)
        for id, reads in change.reads.items():
            held.steps[id] = replace(held.steps[id], plan=replace(held.steps[id].plan, reads=reads))
        for id in change.streaming:
            kept = self._mine(held, id)
            if kept is not None and kept.variable.state == "pending":
                kept.variable = replace(kept.variable, state="streaming")
                self._note("variable", held.run.id, id)
        for ended in change.variables:
            self._end_variable(held, ended, change.at_s)
        end = change.end
        if end is not None and held.run.state == "running":
            expires_at_s = end.at_s + held.run.keep_values_s
            held.run = replace(
                held.run,
                state=end.state,
                ended_at_s=end.at_s,
                expires_at_s=expires_at_s,
                failure=end.failure,
                critical_path=end.critical_path,
                round_trips_saved=end.round_trips_saved,
            )
            for kept in self._of_run(held.run.id):
                kept.variable = replace(kept.variable, expires_at_s=expires_at_s)
            self._live.discard(held.run.id)
            self._free(held)
            self._note("run", held.run.id)

    def _free(self, held: _Held) -> None:
        """What was held of its steps in memory only is held no more."""
        self._bytes[held.run.tenant] -= sum(step.plan.held_bytes for step in held.steps.values())
        for id, step in held.steps.items():
            if step.plan.held_bytes:
                held.steps[id] = replace(step, plan=replace(step.plan, held_bytes=0))

    def _end_variable(self, held: _Held, ended: VariableEnd, at_s: float) -> None:
        kept = self._mine(held, ended.id)
        if kept is None or kept.variable.state in ENDED:
            return
        size = size_of(ended.value)
        kept.variable = replace(
            kept.variable,
            state=ended.state,
            value=ended.value,
            failure=ended.failure,
            size_bytes=size,
            ended_at_s=at_s,
        )
        kept.text = ""
        self._bytes[held.run.tenant] += size
        self._note("variable", held.run.id, ended.id)

    def append(self, owner: str, variable_id: str, offset: int, text: str) -> Future[None]:
        """Add to the text of a streaming variable."""

        def append() -> None:
            kept = self._variables.get(variable_id)
            if (
                kept is None
                or not self._owned(owner, kept.variable.run_id)
                or kept.variable.run_id not in self._live
                or kept.variable.state in ENDED
            ):
                return
            kept.text = kept.text[:offset] + text
            kept.variable = replace(kept.variable, state="streaming")
            self._note("variable", kept.variable.run_id, variable_id)

        return done(append)

    def ahead_s(self, now_s: float) -> float:
        """0: the process's clock is the store's."""
        return 0.0

    def renew(self, owner: str, run_ids: Sequence[str], until_s: float) -> Future[frozenset[str]]:
        """Hold on to runs until then; gives those that are still this owner's."""

        def renew() -> frozenset[str]:
            held = frozenset(id for id in run_ids if id in self._live and self._owned(owner, id))
            for id in held:
                self._runs[id].run = replace(self._runs[id].run, lease_until_s=until_s)
            return held

        return done(renew)

    def adopt(self, owner: str, *, now_s: float, until_s: float, limit: int = 100) -> Future[tuple[str, ...]]:
        """Take over live runs whose lease is over; gives their ids."""

        def adopt() -> tuple[str, ...]:
            over = [self._runs[id].run for id in self._live if self._runs[id].run.lease_until_s < now_s]
            over.sort(key=lambda run: (run.created_at_s, run.id))
            for run in over[:limit]:
                held = self._runs[run.id]
                held.run = replace(run, owner=owner, lease_until_s=until_s, adoptions=run.adoptions + 1)
                self._note("run", run.id)
                for kept in self._of_run(run.id):
                    if kept.variable.state == "streaming":
                        again = kept.variable.attempt + 1
                        kept.variable = replace(kept.variable, state="pending", attempt=again)
                        kept.text = ""
                        self._note("variable", run.id, kept.variable.id)
            return tuple(run.id for run in over[:limit])

        return done(adopt)

    def request_cancel(self, tenant: str, run_id: str, *, now_s: float) -> Future[bool]:
        """Have a live run's owner cancel it."""

        def ask() -> bool:
            if run_id not in self._live or self._runs[run_id].run.tenant != tenant:
                return False
            self._runs[run_id].run = replace(self._runs[run_id].run, cancel_asked=True)
            self._note("cancel", run_id)
            return True

        return done(ask)

    def resolve(
        self, tenant: str, run_id: str, step: str, resolution: Resolution, *, now_s: float
    ) -> Future[bool]:
        """Have a live run's owner go on with a step that is `unknown`."""

        def resolve() -> bool:
            held = self._runs[run_id] if run_id in self._live else None
            known = held.steps.get(step) if held is not None and held.run.tenant == tenant else None
            if held is None or known is None or known.progress.state != "unknown":
                return False
            if held.run.no_store and resolution.value is not None:
                return False
            held.steps[step] = replace(known, resolution=resolution)
            self._note("resolve", run_id)
            return True

        return done(resolve)

    # ---- variables

    def put(
        self,
        tenant: str,
        variable: NewVariable,
        *,
        now_s: float,
        keep_s: float,
        contributor: str = "",
        limits: Limits = NO_LIMITS,
    ) -> Future[str]:
        """Declare or set a variable that no step produces; gives its id."""

        def put() -> str:
            known = self._holder(tenant, variable, now_s)
            if known is not None and (known.state != "pending" or known.run_id):
                raise VariableExists([variable.name])
            if known is None and variable.id in self._variables:
                raise VariableExists([variable.name or variable.id])
            hold_room(self._bytes[tenant], added_bytes((), (variable,)), limits)
            id = variable.id if known is None else known.id
            if known is None or variable.value is not None:
                made = _as_variable(replace(variable, id=id), tenant, "", now_s, now_s + keep_s)
                created_at_s = now_s if known is None else known.created_at_s
                self._keep(_Kept(replace(made, created_at_s=created_at_s), contributor))
            if known is not None and variable.value is not None:
                self._note("variable", "", id)
            return id

        return done(put)

    def note_get(
        self, tenant: str, variable_id: str, criteria: str, *, stream: bool, now_s: float
    ) -> Future[None]:
        """Tell the variable's owner that somebody waits for it."""

        def note() -> None:
            kept = self._variables.get(variable_id)
            if kept is None or kept.variable.tenant != tenant or kept.variable.run_id not in self._live:
                return
            held = self._runs[kept.variable.run_id]
            stricter = strictest(held.run.gets.get(variable_id), criteria)
            held.run = replace(held.run, gets={**held.run.gets, variable_id: stricter})
            self._note("get", held.run.id, variable_id, criteria, stream)

        return done(note)

    def variable(self, tenant: str, variable_id: str, *, now_s: float) -> Variable | None:
        """One variable, or None where it is absent, another tenant's or expired."""
        kept = self._variables.get(variable_id)
        if kept is None or kept.variable.tenant != tenant or self._over(kept, now_s):
            return None
        return kept.variable

    def variables(self, tenant: str, variable_ids: Sequence[str], *, now_s: float) -> dict[str, Variable]:
        """Those of them that are there, by id."""
        found = {id: self.variable(tenant, id, now_s=now_s) for id in variable_ids}
        return {id: variable for id, variable in found.items() if variable is not None}

    def named(self, tenant: str, app: str, names: Sequence[str], *, now_s: float) -> dict[str, Variable]:
        """Variables of an app by name; those that are not there are left out."""
        ids = {name: self._names.get((tenant, app, name), "") for name in names}
        found = {name: self.variable(tenant, id, now_s=now_s) for name, id in ids.items()}
        return {name: variable for name, variable in found.items() if variable is not None}

    def text(self, tenant: str, variable_id: str, after: int = 0) -> str:
        """What is kept of a streaming variable's text from `after` characters on."""
        kept = self._variables.get(variable_id)
        return "" if kept is None or kept.variable.tenant != tenant else kept.text[after:]

    # ---- what others did

    def place(self) -> int:
        """The last place in the log of changes."""
        return self._cut + len(self._log)

    def changes(self, after: int, limit: int = 1000) -> Changes:
        """What happened after that place, in order."""
        first = max(0, after - self._cut)
        found = tuple(self._log[first : first + limit])
        if not found:
            return Changes(after, False, ())
        return Changes(self._cut + first + len(found), after < self._cut, found)

    def version(self) -> bytes | int:
        """Differs from the last one seen whenever anything was written."""
        return self.place()

    # ---- runs

    def run(self, run_id: str, tenant: str | None = None) -> WholeRun | None:
        """One run with everything; None where it is absent, or another's than the tenant named."""
        held = self._runs.get(run_id)
        if held is None or (tenant is not None and held.run.tenant != tenant):
            return None
        variables = tuple(kept.variable for kept in self._of_run(run_id))
        return WholeRun(held.run, tuple(held.steps.values()), variables)

    def runs(
        self,
        *,
        tenant: str | None = None,
        app: str | None = None,
        workflow: str | None = None,
        states: Sequence[RunState] = (),
        before: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[RunSummary]:
        """The latest runs, newest first."""
        found = [
            held
            for held in self._runs.values()
            if (tenant is None or held.run.tenant == tenant)
            and (app is None or held.run.app == app)
            and (workflow is None or held.run.workflow == workflow)
            and (not states or held.run.state in states)
            and (before is None or (held.run.created_at_s, held.run.id) < before)
        ]
        found.sort(key=lambda held: (held.run.created_at_s, held.run.id), reverse=True)
        return [_as_summary(held) for held in found[:limit]]

    def sharers(self, batches: Sequence[str]) -> list[Sharer]:
        """The steps of any tenant's runs that went in these batches."""
        found = [
            Sharer(step.progress.batch, held.run.tenant, held.run.id, step.plan.id, step.progress.items)
            for held in self._runs.values()
            for step in held.steps.values()
            if step.progress.batch and step.progress.batch in batches
        ]
        return sorted(found, key=lambda one: (one.batch, one.run_id))

    def undecided(self, limit: int = 10) -> list[tuple[str, str]]:
        """(run id, step) of steps that are `unknown` and wait for somebody."""
        steps = (step for id in sorted(self._live) for step in self._runs[id].steps.values())
        unknown = (one for one in steps if one.progress.state == "unknown" and one.resolution is None)
        return sorted((one.run_id, one.plan.id) for one in unknown)[:limit]

    def counts(self, *, since_s: float = 0.0, tenant: str | None = None) -> Mapping[RunState, int]:
        """How many runs that began since then are in which state."""
        return Counter(
            held.run.state
            for held in self._runs.values()
            if held.run.created_at_s >= since_s and (tenant is None or held.run.tenant == tenant)
        )

    def use(self, tenant: str) -> TenantUse:
        """What the tenant has at the moment."""
        live = sum(self._runs[id].run.tenant == tenant for id in self._live)
        return TenantUse(live, self._bytes[tenant])

    # ---- away

    def forget_run(self, tenant: str, run_id: str, *, now_s: float) -> Future[bool]:
        """Delete a run, cancelling it where it goes on."""

        def forget() -> bool:
            held = self._runs.get(run_id)
            if held is None or held.run.tenant != tenant:
                return False
            self._delete(held)
            return True

        return done(forget)

    def forget_app(self, tenant: str, app: str, *, now_s: float) -> Future[int]:
        """Cancel and delete an app's runs, and its variables."""
        return self._forget(
            lambda held: bool(app) and (held.run.tenant, held.run.app) == (tenant, app),
            lambda kept: bool(app) and (kept.variable.tenant, kept.variable.app) == (tenant, app),
        )

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Cancel and delete everything of a tenant."""
        return self._forget(
            lambda held: held.run.tenant == tenant,
            lambda kept: kept.variable.tenant == tenant,
            lambda: self._assets.forget(tenant),
        )

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Cancel and delete everything of one contributor."""
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")
        return self._forget(
            lambda held: held.run.tenant == tenant and contributor in held.behind(),
            lambda kept: (kept.variable.tenant, kept.contributor) == (tenant, contributor),
            lambda: self._assets.forget(tenant, contributor),
        )

    def expire(self, now_s: float, limit: int = 500) -> Future[int]:
        """Delete values, bodies and contexts whose time is over."""

        def expire() -> int:
            runs = [
                held
                for held in self._runs.values()
                if not held.expired and held.run.expires_at_s is not None and held.run.expires_at_s <= now_s
            ][:limit]
            for held in runs:
                self._strip(held)
            over = [
                kept for kept in self._variables.values() if not kept.expired and self._over(kept, now_s)
            ][:limit]
            for kept in over:
                self._expire(kept)
            return max(len(runs), len(over))

        return done(expire)

    def trim(self, before_s: float, limit: int = 500) -> Future[int]:
        """Delete runs that ended before then."""

        def trim() -> int:
            old = [
                held
                for held in self._runs.values()
                if held.run.ended_at_s is not None and held.run.ended_at_s < before_s
            ]
            old.sort(key=lambda held: held.run.ended_at_s or 0.0)
            for held in old[:limit]:
                self._delete(held, tell=False)
            return len(old[:limit])

        return done(trim)

    # ---- how it is kept

    def _add(
        self,
        held: _Held,
        steps: Sequence[NewStep],
        variables: Sequence[NewVariable],
        now_s: float,
        limits: Limits,
    ) -> None:
        run = held.run
        hold_room(self._bytes[run.tenant], added_bytes(steps, variables), limits)
        taken = [variable.name or variable.id for variable in variables if self._taken(run, variable, now_s)]
        if taken:
            raise VariableExists(taken)
        for step in steps:
            held.steps[step.id] = Step(run.id, len(held.steps), step, StepProgress())
        for variable in variables:
            self._keep(_Kept(_as_variable(variable, run.tenant, run.id, now_s, None), run.contributor))
        self._bytes[run.tenant] += added_bytes(steps, ())
        read = {id for step in steps for id in (*step.reads.values(), *step.waits)}
        held.outside |= {
            id for id in read if id in self._variables and self._variables[id].variable.run_id != run.id
        }

    def _taken(self, run: Run, variable: NewVariable, now_s: float) -> bool:
        """Whether a step's output cannot be this variable: its name or id is another's, or it is written."""
        holder = self._holder(run.tenant, variable, now_s)
        if holder is not None and holder.id != variable.id:
            return True
        kept = self._variables.get(variable.id)
        if kept is None:
            return False
        known = kept.variable
        declared = known.state == "pending" and not known.run_id and not kept.expired
        same = (known.tenant, known.app, known.name) == (run.tenant, variable.app, variable.name)
        return not (declared and same and variable.value is None)

    def _holder(self, tenant: str, variable: NewVariable, now_s: float) -> Variable | None:
        """What holds the variable's name; one that is over gives it back."""
        id = self._names.get((tenant, variable.app, variable.name)) if variable.app else None
        if id is None:
            return None
        kept = self._variables[id]
        if not self._over(kept, now_s):
            return kept.variable
        self._expire(kept)
        return None

    def _keep(self, kept: _Kept) -> None:
        variable = kept.variable
        self._variables[variable.id] = kept
        self._bytes[variable.tenant] += variable.size_bytes
        if variable.app:
            self._names[variable.tenant, variable.app, variable.name] = variable.id

    def _owned(self, owner: str, run_id: str) -> bool:
        held = self._runs.get(run_id)
        return held is not None and held.run.owner == owner

    def _mine(self, held: _Held, variable_id: str) -> _Kept | None:
        kept = self._variables.get(variable_id)
        return kept if kept is not None and kept.variable.run_id == held.run.id else None

    def _of_run(self, run_id: str) -> list[_Kept]:
        return [kept for kept in self._variables.values() if kept.variable.run_id == run_id]

    def _over(self, kept: _Kept, now_s: float) -> bool:
        expires_at_s = kept.variable.expires_at_s
        if kept.expired or expires_at_s is None or expires_at_s > now_s:
            return kept.expired
        return not any(kept.variable.id in self._runs[id].outside for id in self._live)

    def _expire(self, kept: _Kept) -> None:
        variable = kept.variable
        self._give_name_back(variable)
        self._bytes[variable.tenant] -= variable.size_bytes
        kept.expired, kept.text = True, ""
        failure = without_texts(variable.failure)
        kept.variable = replace(variable, value=None, size_bytes=0, failure=failure)
        if not variable.run_id:
            del self._variables[variable.id]

    def _give_name_back(self, variable: Variable) -> None:
        key = (variable.tenant, variable.app, variable.name)
        if self._names.get(key) == variable.id:
            del self._names[key]

    def _strip(self, held: _Held) -> None:
        """Take the texts of a run that is over: what its variables hold goes with them."""
        held.expired = True
        held.run = replace(held.run, context={}, failure=without_texts(held.run.failure))
        for id, step in held.steps.items():
            self._bytes[held.run.tenant] -= step.plan.size_bytes
            progress = replace(step.progress, failure=without_texts(step.progress.failure))
            held.steps[id] = replace(step, plan=replace(step.plan, body=b"", held_bytes=0), progress=progress)

    def _forget(
        self,
        of_runs: Callable[[_Held], bool],
        alone: Callable[[_Kept], bool],
        of_assets: Callable[[], int] = lambda: 0,
    ) -> Future[int]:
        def forget() -> int:
            runs = [held for held in self._runs.values() if of_runs(held)]
            kept = [kept for kept in self._variables.values() if not kept.variable.run_id and alone(kept)]
            for held in runs:
                self._delete(held)
            self._drop(kept)
            return len(runs) + len(kept) + of_assets()

        return done(forget)

    def _delete(self, held: _Held, *, tell: bool = True) -> None:
        self._drop(self._of_run(held.run.id), tell=tell)
        self._bytes[held.run.tenant] -= sum(step.plan.size_bytes for step in held.steps.values())
        del self._runs[held.run.id]
        if held.run.id in self._live or (held.run.no_store and not held.expired):
            self._live.discard(held.run.id)
            self._note("cancel", held.run.id)

    def _drop(self, variables: Iterable[_Kept], *, tell: bool = True) -> None:
        """`tell`: whether somebody may wait for them."""
        for kept in variables:
            variable = kept.variable
            self._give_name_back(variable)
            self._bytes[variable.tenant] -= variable.size_bytes
            del self._variables[variable.id]
            if tell and (variable.state not in ENDED or not variable.run_id):
                self._note("variable", variable.run_id, variable.id)

    def _note(
        self, kind: ChangeKind, run_id: str, variable_id: str = "", criteria: str = "", stream: bool = False
    ) -> None:
        self._log.append(Change(kind, run_id, variable_id, criteria, stream))
        if len(self._log) > 2 * _CHANGES_KEPT:
            self._cut += _CHANGES_KEPT
            del self._log[:_CHANGES_KEPT]


def _as_run(asked: NewRun) -> Run:
    return Run(
        asked.id,
        asked.tenant,
        asked.key_id,
        asked.contributor,
        asked.app,
        "running",
        asked.owner,
        asked.lease_until_s,
        asked.no_store,
        asked.background,
        asked.gets,
        asked.budget,
        asked.keep_values_s,
        asked.context,
        cancel_asked=False,
        adoptions=0,
        created_at_s=asked.created_at_s,
        ended_at_s=None,
        expires_at_s=None,
        failure=None,
        critical_path=(),
        round_trips_saved=0,
        workflow=asked.workflow,
        version=asked.version,
        end_user=asked.end_user,
    )


def _as_variable(
    new: NewVariable, tenant: str, run_id: str, now_s: float, expires_at_s: float | None
) -> Variable:
    is_set = new.value is not None
    return Variable(
        new.id,
        tenant,
        new.app,
        new.name,
        run_id,
        new.step,
        "ready" if is_set else "pending",
        new.value,
        None,
        attempt=0,
        size_bytes=size_of(new.value),
        created_at_s=now_s,
        ended_at_s=now_s if is_set else None,
        expires_at_s=expires_at_s,
        end_user=new.end_user,
    )


def _as_summary(held: _Held) -> RunSummary:
    progress = [step.progress for step in held.steps.values()]
    return RunSummary(
        held.run,
        Counter(each.state for each in progress),
        sum(each.prompt_tokens for each in progress),
        sum(each.cached_tokens for each in progress),
        sum(each.completion_tokens for each in progress),
        sum(each.cost_usd for each in progress),
        sum(each.warmed_tokens for each in progress),
        sum(each.warmed_cost_usd for each in progress),
    )
