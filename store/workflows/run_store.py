"""What an executor of runs needs remembered. `WorkflowRuns` keeps it in the database, `MemoryRuns` in memory.

Writes give a future that resolves after the commit, and raise StoreBusy or StoreClosed at once; what else they raise is the
future's. They are kept in the order in which they were handed over. Reads take microseconds. What names a tenant never gives
another's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from store.reading import Reads
from store.workflows.assets import Assets
from store.workflows.records import (
    Begun,
    Changes,
    Limits,
    NewRun,
    NewStep,
    NewVariable,
    Resolution,
    RunChange,
    RunState,
    RunSummary,
    Sharer,
    TenantUse,
    Variable,
    WholeRun,
)

NO_LIMITS = Limits()


class RunStore(Protocol):
    """Runs, steps, variables, leases, and a log by which processes notice what others did."""

    reads: Reads
    """How an event loop reads of it."""
    assets: Assets
    """Tenants' own workflows and collections. Whoever is forgotten here is forgotten there."""

    # ---- a run's life

    def begin(
        self,
        run: NewRun,
        steps: Sequence[NewStep],
        variables: Sequence[NewVariable],
        limits: Limits = NO_LIMITS,
    ) -> Future[Begun]:
        """Keep a run with all its steps and variables, or nothing of it.

        The future raises VariableExists, IdempotencyConflict, TooManyRuns and TooManyBytes.
        """
        ...

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
        """Add steps to a live run, whoever owns it (its owner sees a change `steps`), or as its `owner`.

        The future raises NoSuchRun where it is not the tenant's, has ended or is another owner's; VariableExists and
        TooManyBytes.
        """
        ...

    def save(self, owner: str, changes: Sequence[RunChange]) -> Future[None]:
        """Write what happened to runs, each `RunChange` whole, all in one transaction.

        A variable that has ended already stays as it is. The future raises LeaseLost where `owner` no longer owns one.
        """
        ...

    def append(self, owner: str, variable_id: str, offset: int, text: str) -> Future[None]:
        """Add to the text of a streaming variable, from `offset` characters on, so that other processes can read it.

        Only wanted once somebody elsewhere streams it. Dropped where the run has another owner or the variable has ended.
        """
        ...

    def ahead_s(self, now_s: float) -> float:
        """How many seconds a process whose clock says `now_s` is ahead of the store's clock, by which leases go."""
        ...

    def renew(self, owner: str, run_ids: Sequence[str], until_s: float) -> Future[frozenset[str]]:
        """Hold on to runs until then, by the store's clock; gives those that are still this owner's."""
        ...

    def adopt(self, owner: str, *, now_s: float, until_s: float, limit: int = 100) -> Future[tuple[str, ...]]:
        """Take over live runs whose lease is over, the oldest first; gives their ids. Each goes to one owner only.

        `now_s`, `until_s`: by the store's clock.

        Variables that were streaming are pending again, with one more `attempt`. Costs one read where there are none.
        """
        ...

    def request_cancel(self, tenant: str, run_id: str, *, now_s: float) -> Future[bool]:
        """Have a live run's owner cancel it (change `cancel`, Run.cancel_asked); False where the tenant has none such."""
        ...

    def resolve(
        self, tenant: str, run_id: str, step: str, resolution: Resolution, *, now_s: float
    ) -> Future[bool]:
        """Have a live run's owner go on with a step that is `unknown` (change `resolve`, Step.resolution).

        Gone once the step is in another state. False where the tenant has no such step, and for a value of a run that is
        not stored.
        """
        ...

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
        """Declare or set a variable that no step produces; gives its id, which is an earlier one's where it was declared.

        It expires `keep_s` after this, not before the runs that read it have ended. The future raises VariableExists where
        the name is taken by one that is written, or that a step produces, and TooManyBytes.
        """
        ...

    def note_get(
        self, tenant: str, variable_id: str, criteria: str, *, stream: bool, now_s: float
    ) -> Future[None]:
        """Tell the variable's owner that somebody waits for it (change `get`), and note it in the run's `gets`."""
        ...

    def variable(self, tenant: str, variable_id: str, *, now_s: float) -> Variable | None:
        """One variable, or None where it is absent, another tenant's or expired."""
        ...

    def variables(self, tenant: str, variable_ids: Sequence[str], *, now_s: float) -> dict[str, Variable]:
        """Those of them that are there, by id, in one query."""
        ...

    def named(self, tenant: str, app: str, names: Sequence[str], *, now_s: float) -> dict[str, Variable]:
        """Variables of an app by name, in one query; those that are not there are left out."""
        ...

    def text(self, tenant: str, variable_id: str, after: int = 0) -> str:
        """What is kept of a streaming variable's text from `after` characters on; empty where nothing is."""
        ...

    # ---- what others did

    def place(self) -> int:
        """The last place in the log of changes. To be asked before what is waited for is read: nothing is missed then."""
        ...

    def changes(self, after: int, limit: int = 1000) -> Changes:
        """What happened in any process after that place, in order: one query, however many wait."""
        ...

    def version(self) -> bytes | int:
        """Differs from the last one seen whenever anybody may have written: a microsecond, to be asked before `changes`."""
        ...

    # ---- runs

    def run(self, run_id: str, tenant: str | None = None) -> WholeRun | None:
        """One run with everything; None where it is absent, or another's than the tenant named."""
        ...

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
        """The latest runs, newest first; `before`: (created_at_s, id) of the last one of the page before."""
        ...

    def sharers(self, batches: Sequence[str]) -> list[Sharer]:
        """The steps of any tenant's runs that went in these batches: for people who may see them all."""
        ...

    def undecided(self, limit: int = 10) -> list[tuple[str, str]]:
        """(run id, step) of steps that are `unknown` and wait for somebody, of any tenant's runs."""
        ...

    def counts(self, *, since_s: float = 0.0, tenant: str | None = None) -> Mapping[RunState, int]:
        """How many runs that began since then are in which state."""
        ...

    def use(self, tenant: str) -> TenantUse:
        """What the tenant has at the moment."""
        ...

    # ---- away

    def forget_run(self, tenant: str, run_id: str, *, now_s: float) -> Future[bool]:
        """Delete a run, cancelling it where it goes on; False where there is none of that tenant."""
        ...

    def forget_app(self, tenant: str, app: str, *, now_s: float) -> Future[int]:
        """Cancel and delete an app's runs, and its variables; gives how many runs and variables set by themselves."""
        ...

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Cancel and delete everything of a tenant.

        Gives how many runs, variables set by themselves, versions of workflows and texts of collections.
        """
        ...

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """As `forget_tenant`, of every run with a step of one contributor. Raises ValueError for an empty one."""
        ...

    def expire(self, now_s: float, limit: int = 500) -> Future[int]:
        """Delete values, bodies and contexts whose time is over, and old lines of the log of changes.

        Gives how many runs and variables: call again while it gives `limit`. What stays has no text.
        """
        ...

    def trim(self, before_s: float, limit: int = 500) -> Future[int]:
        """Delete runs that ended before then, at most `limit`; gives how many: call again while it gives `limit`."""
        ...
