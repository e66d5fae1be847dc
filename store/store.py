"""Everything that is remembered under one data folder, by nouns: what the rest of the program sees of the store.

    store.examples        the bank: pairs of a question and its answer        .ledger .search .versions .answer_vectors
                                                                             .places .contributors .imports .private
    store.answers         .exact whole answers to the same request, .listing them; .entries .observations of similar ones
    store.decisions       .requests .choices .texts .search .pages .usage .quality .rollups()
    store.outcomes        how good answers turned out to be                  .feedback
    store.artifacts       versions of what was learnt, beside them store.dials and store.quality_floors
    store.keys            API keys, and so tenants; store.tenant_records: what is laid down for tenants
    store.allowances      what keys, tenants and end users have spent of their limits
    store.owned           whose the ids are that engines gave to what they store
    store.operators       who may sign in to the admin pages, beside them store.sessions(), store.audit
                          and store.saved_views
    store.admin_tokens    which programs may use the admin API
    store.jobs            .replay .kv_plans .engine_states .operator_asks .webhooks .leases .claims
    store.tasks           .known .answers of requests that a student may answer
    store.runs            applications' runs: their steps, variables, and who carries them out. .assets: tenants'
                          workflows, and collections of texts

Reads block, for microseconds to milliseconds, and give frozen values. Writes give a future that resolves after the
commit; those that say so wait for it themselves. Errors: store.errors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from store.answers.exact_cache import ExactCache
from store.answers.exact_listing import CacheListing
from store.answers.responses import KeptResponses
from store.answers.semantic_entries import SemanticEntries
from store.answers.semantic_observations import SemanticObservations
from store.blobs import Blobs, RowBlobs
from store.changes import Followers
from store.database import Connection, Database
from store.decisions.all_sums import SUMS
from store.decisions.choices import Choices
from store.decisions.costs import Spending
from store.decisions.details import Details
from store.decisions.exported import RequestPages
from store.decisions.outcomes import Outcomes
from store.decisions.quality_rollups import QualityRollups
from store.decisions.requests import RequestLog
from store.decisions.resolve import Resolve
from store.decisions.rollups import RequestRollups
from store.decisions.search import RequestSearch
from store.decisions.sessions import Sessions
from store.decisions.stamps import clamp_stamps
from store.decisions.texts import RequestTextLog
from store.decisions.usage import UsageBooks
from store.errors import StoreBusy, StoreError, StoreFailed
from store.examples.bank import ExampleBank
from store.examples.index_follower import IndexFollower
from store.examples.shared_snapshots import SharedSnapshots
from store.examples.snapshots import Snapshots
from store.examples.twins import TwinRule
from store.examples.vector_index import FarVectors, TenantIndexes
from store.held import Held, held_of, held_of_contributors
from store.jobs.claims import EmbeddingClaims
from store.jobs.engine_states import EngineStates
from store.jobs.kv_plans import KvPlans
from store.jobs.leases import Lease, Leases
from store.jobs.operator_asks import OperatorAsks
from store.jobs.replay_jobs import ReplayJobs
from store.jobs.webhooks import WebhookOutbox
from store.jobs.worker_loads import WorkerLoads
from store.learned.artifacts import Artifacts
from store.learned.dials import TurnedDialsLog
from store.learned.quality_floors import QualityFloors
from store.people.allowances import Allowances
from store.people.audit import AuditLog
from store.people.configured import ConfiguredPeople
from store.people.keys import KeyStore
from store.people.operators import AdminUsers
from store.people.owned import OwnedIds
from store.people.saved_views import SavedViews
from store.people.secret import check_secret_of, load_or_create_secret
from store.people.sessions import AdminSessions
from store.people.tenants import TenantStore
from store.people.tokens import AdminTokens
from store.reading import Reads
from store.sqlite.database import Database as SqliteDatabase
from store.sums import DELETED
from store.tasks.answers import TaskAnswers
from store.tasks.tasks import KnownTasks
from store.workflows.runs import WorkflowRuns

_MIB = 1024 * 1024
_DATABASE = "understudy.db"
_INDEX = "index"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted of a tenant."""

    examples: int
    answers: int
    requests: int
    choices: int
    versions: int
    """Of what was learnt from the tenant."""
    erased: bool
    """False when another process was reading so long that its view of the old state could not be overwritten yet."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Whole answers, kept to be given again."""

    exact: ExactCache
    """For the very same request."""
    listing: CacheListing
    """Answers as people look at them."""
    entries: SemanticEntries
    """For a similar question."""
    observations: SemanticObservations
    """How entries compared with fresh answers."""
    responses: KeptResponses
    """Of `/v1/responses`, by their ids: what no upstream holds."""


class Decisions:
    """Requests: what was decided, what was weighed, and what was said."""

    def __init__(self, db: Database, secret: bytes) -> None:
        self._db = db
        self.requests = RequestLog(db)
        self.choices = Choices(db)
        """What the router weighed, to learn from."""
        self.texts = RequestTextLog(db)
        """What was asked and answered, for people."""
        self.search = RequestSearch(db)
        self.details = Details(db)
        """What else is known of one request: parameters, tools, attempts, errors, bodies."""
        self.sessions = Sessions(db)
        """Conversations."""
        self.resolve = Resolve(db, secret)
        """What an id or a name is the id or the name of."""
        self.pages = RequestPages(db)
        """The log from end to end."""
        self.quality = QualityRollups(db)
        """How good answers were by minute, hour and day: sums over judgements, feedback and reviews."""
        self.spending = Spending(db)
        self.usage = UsageBooks(db)
        """What was used and paid, by hour, tenant, key, end user, model and engine."""

    def clamp_stamps(self, now_s: float) -> Future[int]:
        """Stamp what a clock that was ahead has stamped with `now_s`; gives how many rows: call again while it gives any."""
        return self._db.write(partial(clamp_stamps, now_s=now_s))

    def trim_sums(self, now_s: float) -> Future[int]:
        """Drop sums that are older than their span is kept; gives how many rows."""

        def trim(connection: Connection) -> int:
            return sum(sums.trim(connection, now_s) for sums in SUMS)

        return self._db.write(trim)

    def rollups(self, models: Iterable[str] = ()) -> RequestRollups:
        """Sums over requests by minute, hour and day. Models that are not named share one row."""
        return RequestRollups(self._db, models)


@dataclass(frozen=True, slots=True)
class Jobs:
    """What processes tell each other: work that is wanted, under way and done, and how engines stand."""

    replay: ReplayJobs
    kv_plans: KvPlans
    engine_states: EngineStates
    operator_asks: OperatorAsks
    webhooks: WebhookOutbox
    """What operators are to be told."""
    leases: Leases
    """Who does what only one process does at a time."""
    claims: EmbeddingClaims
    """Who embeds what."""
    loads: WorkerLoads
    """How busy workers are, where they share no folder."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Requests whose answers are few distinct labels."""

    known: KnownTasks
    answers: TaskAnswers
    """What students are trained on, and judged by."""


class Store:
    """Everything that is remembered under one data folder. Open it in each worker, after the fork."""

    def __init__(
        self,
        folder: Path,
        db: Database,
        secret: bytes,
        examples: ExampleBank,
        exact: ExactCache,
        exact_ttl_s: float,
        versions_kept: int,
        index: tuple[TenantIndexes, IndexFollower] | None,
        stale_s: float = 600.0,
        blobs: Blobs | None = None,
        lease: Lease | None = None,
    ) -> None:
        """For `open`."""
        self._db = db
        self._lease = lease
        self.folder = folder
        self.shared = blobs is not None
        """Whether processes with other folders are on the same database."""
        self.secret = secret
        """What ids of tenants and hashes of keys are derived with."""
        self.examples = examples
        self.answers = Answers(
            exact,
            CacheListing(db),
            SemanticEntries(db, ttl_s=exact_ttl_s),
            SemanticObservations(db),
            KeptResponses(db, secret),
        )
        self.decisions = Decisions(db, secret)
        self.outcomes = Outcomes(db)
        self.artifacts = Artifacts(db, folder / "artifacts", keep=versions_kept, blobs=blobs)
        self.dials = TurnedDialsLog(db)
        self.quality_floors = QualityFloors(db)
        self.keys = KeyStore(db, secret, stale_s=stale_s)
        self.allowances = Allowances(db)
        self.tenant_records = TenantStore(db, self.keys)
        self.configured = ConfiguredPeople(db, self.keys, self.tenant_records)
        """Keys and tenants that the configuration lists."""
        self.owned = OwnedIds(db, secret)
        self.admin_tokens = AdminTokens(db, secret)
        self.operators = AdminUsers(db)
        self.audit = AuditLog(db)
        self.saved_views = SavedViews(db)
        self.jobs = Jobs(
            ReplayJobs(db),
            KvPlans(db),
            EngineStates(db),
            OperatorAsks(db),
            WebhookOutbox(db),
            Leases(db),
            EmbeddingClaims(db),
            WorkerLoads(db),
        )
        self.tasks = Tasks(KnownTasks(db), TaskAnswers(db))
        self.runs: WorkflowRuns = WorkflowRuns(db)
        self.indexes: TenantIndexes | None = index[0] if index else None
        """Nearest examples; None without an embedder."""
        self.follower: IndexFollower | None = index[1] if index else None
        """Keeps the indexes up with the bank."""
        self.followers = Followers()
        """The thread that follows the store; who opened the store adds more to it."""
        if self.follower is not None:
            self.followers.add(self.follower)

    @classmethod
    def open(
        cls,
        data_folder: Path,
        *,
        database_url: str = "",
        listen_url: str = "",
        connections: int = 6,
        deadline_s: float = 0.05,
        stale_s: float = 600.0,
        durable: bool = False,
        max_pending: int = 10_000,
        exact_ttl_s: float = 24 * 3600.0,
        exact_memory_bytes: int = 64 * _MIB,
        exact_disk_bytes: int = 1024 * _MIB,
        exact_max_entry_bytes: int = _MIB,
        dimensions: int | None = None,
        embedding_version: str = "",
        poll_s: float = 0.5,
        save_every_s: float = 300.0,
        twin_rule: TwinRule | None = None,
        versions_kept: int = 20,
        owner: Callable[[], bool] | None = None,
        blobs_url: str = "",
        index: Literal["usearch", "pgvector", "auto"] = "usearch",
        index_memory_bytes: int | None = None,
    ) -> Store:
        """Open `understudy.db`, `secret`, `index/` and `artifacts/` in a folder, made as needed.

        With `database_url` all rows are in that PostgreSQL database (`listen_url`: how to reach it past a pooler), whose
        schema `understudy store migrate` has made: over at most so many `connections`. A request waits `deadline_s` at
        most for what it reads, and is let in for `stale_s` by keys that cannot be read anew. What every replica needs of
        files is there, too, or in `blobs_url`; snapshots of indexes are published by the process of which `owner` says so
        (None: by who holds a lease). `index`: tenants are searched in memory (usearch), in PostgreSQL (pgvector), or there
        beyond `index_memory_bytes` (auto). Without `dimensions` there is no embedder, hence no index and no follower.

        Raises SchemaError (DatabaseTooNew among them), StoreFailed where the file is no database or there is no
        connection, BadAddress, BadSecretFile, and OSError.
        """
        db: Database
        secret: bytes | None
        if database_url:
            secret = load_or_create_secret(data_folder)
            db = _postgres(database_url, listen_url, max_pending, connections, deadline_s)
        else:
            # Whoever makes a folder writes the secret first: where there is a database, there was one.
            secret = None if Store.is_in(data_folder) else load_or_create_secret(data_folder)
            db = SqliteDatabase.open(data_folder / _DATABASE, durable=durable, max_pending=max_pending)
        with contextlib.ExitStack() as undo:
            undo.callback(db.close)
            if database_url and secret is not None:
                check_secret_of(db, secret)
            if secret is None:
                secret = load_or_create_secret(data_folder, create=False)
            exact = ExactCache(
                db,
                ttl_s=exact_ttl_s,
                memory_bytes=exact_memory_bytes,
                disk_bytes=exact_disk_bytes,
                max_entry_bytes=exact_max_entry_bytes,
            )
            examples = ExampleBank(db, twin_rule=twin_rule)
            blobs = _blobs(db, blobs_url) if database_url else None
            indexed, lease = None, None
            if dimensions is not None:
                if database_url and owner is None:
                    lease = Leases(db).lease(_INDEX)
                    owner = partial(_holds, lease)
                owner = owner or (lambda: False)
                indexes = TenantIndexes(
                    data_folder / _INDEX,
                    dimensions,
                    embedding_version,
                    shared=SharedSnapshots(blobs) if blobs is not None else None,
                    owner=owner,
                    memory_bytes=index_memory_bytes if index == "auto" else None,
                )
                if database_url and index != "usearch":
                    indexes.far = _far(db, examples, indexes, index, owner)
                follower = IndexFollower(examples, indexes, poll_s=poll_s, save_every_s=save_every_s)
                examples.on_change(follower.notify)
                db.on_news(follower.notify)
                db.on_lost(follower.read_anew)
                if indexes.far is not None:
                    indexes.far.start()
                indexed = indexes, follower
            undo.pop_all()
        return cls(
            data_folder,
            db,
            secret,
            examples,
            exact,
            exact_ttl_s,
            versions_kept,
            indexed,
            stale_s,
            blobs,
            lease,
        )

    @staticmethod
    def is_in(data_folder: Path) -> bool:
        """Whether a store was ever opened in this folder."""
        return (data_folder / _DATABASE).exists()

    def sessions(self, *, idle_s: float = 3600.0, longest_s: float = 12 * 3600.0) -> AdminSessions:
        """Sessions of the admin pages, which end `idle_s` after their last use and `longest_s` after sign-in."""
        return AdminSessions(self._db, self.secret, idle_s=idle_s, longest_s=longest_s)

    # ---- the store as a whole

    @property
    def reads(self) -> Reads:
        """How an event loop reads of it."""
        return self._db.reads

    @property
    def pending(self) -> int:
        """Writes handed over whose fate is not yet known."""
        return self._db.pending

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._db.closed

    def problem(self) -> str | None:
        """What keeps the store from being used; None when nothing is known to. Microseconds."""
        try:
            if gone := self._db.missing():
                return f"{gone} and start again"
            self._db.data_version()
            if self.reads.inline:
                self.artifacts.generation()
        except (StoreError, OSError) as error:
            return f"the store cannot be read: {error}"
        return f"the store cannot be written: {self._db.problem}" if self._db.problem else None

    def tenants(self) -> list[str]:
        """Every tenant of whom there is an example, an exact answer, a choice, feedback, a task, run, workflow or text."""
        return self.examples.contributors.tenants()

    def held_of(self, tenant: str) -> Held:
        """How much is remembered of a tenant: what `forget_tenant` would delete. Reads by indexes."""
        return held_of(self._db.read(), tenant)

    def held_of_contributors(
        self, tenant: str, contributors: Sequence[str], key_id: str = "", end_user: str = ""
    ) -> Held:
        """How much is remembered of a key or an end user (a digest) of a tenant: what `forget_contributors` would delete.

        Rows of the request log are those that name it: they stay, without it.
        """
        return held_of_contributors(self._db.read(), tenant, contributors, key_id, end_user)

    def version(self) -> bytes | int:
        """A value that differs from the last one seen whenever anyone, in any process, has committed since.

        Costs a microsecond, and means nothing outside this object.
        """
        return self._db.data_version()

    def drain(self, timeout_s: float = 10.0) -> bool:
        """Wait until everything handed over is written; False if `timeout_s` seconds did not suffice."""
        return self._db.drain(timeout_s)

    def sync(self) -> None:
        """Make everything committed survive a power cut. Blocks for as long as the disk takes. Raises OSError."""
        self._db.sync()

    # ---- away

    def forget_tenant(self, tenant: str, timeout_s: float = 60.0) -> Forgotten:
        """Delete everything remembered of a tenant, and overwrite what was deleted, also in the index's files.

        One transaction. Waits; not for the event loop. Other workers' memories follow within about a second. The tenant's
        keys stay (`tenant_records.delete` revokes them), and so do sums, as those of deleted tenants together. Raises what
        writing raises, TimeoutError among it, and ValueError for those sums' own tenant.
        """
        if tenant == DELETED:
            raise ValueError("what deleted tenants have left are sums of nobody")
        with self._db.joined():
            answers = self.answers.exact.forget(tenant=tenant)
            examples = self.examples.remove_tenant(tenant)
            self.examples.imports.forget_tenant(tenant)
            self.decisions.texts.forget_tenant(tenant)
            self.jobs.operator_asks.forget_tenant(tenant)
            self.tasks.answers.forget_tenant(tenant)
            self.tasks.known.forget_tenant(tenant)
            self.runs.forget_tenant(tenant)
            self.outcomes.feedback.forget_tenant(tenant)
            self.outcomes.forget_tenant(tenant)
            choices = self.decisions.choices.forget_tenant(tenant)
            self.quality_floors.forget_tenant(tenant)
            self.dials.forget_tenant(tenant)
            self.outcomes.reviews.forget_tenant(tenant)
            self.examples.private.forget_tenant(tenant)
            self.jobs.replay.forget_tenant(tenant)
            self.owned.forget_tenant(tenant)
            # The empty tenant's versions were learnt from labels that the operator brought.
            versions = self.artifacts.forget_rows(tenant) if tenant else None
            self.answers.entries.forget_tenant(tenant)
            self.answers.observations.forget_tenant(tenant)
            self.answers.responses.forget_tenant(tenant)
            requests = self.decisions.requests.forget_tenant(tenant)
        requests.result(timeout_s)
        if versions is not None:
            self.artifacts.forget_files(tenant)
        if self.indexes is not None and self.follower is not None:
            self.follower.wait_for(self.examples.last_seq(), timeout_s)
            self.indexes.forget(tenant)
        return Forgotten(
            examples.result(),
            answers.result(),
            requests.result(),
            choices.result(),
            versions.result() if versions is not None else 0,
            self.erase(timeout_s),
        )

    def forget_contributors(
        self, tenant: str, contributors: Sequence[str], key_id: str = "", timeout_s: float = 60.0
    ) -> Forgotten:
        """Delete what came from contributors of a tenant, and all that was learnt of it if there was anything of theirs to
        learn from, in one transaction. `key_id`: taken off the rows that stay.

        With it go exact answers that were made with their examples, and those of which nobody knows whom they answered.
        Raises what writing raises, ValueError for an empty contributor, and TimeoutError.
        """
        with self._db.joined():
            # What there was to learn from is looked for before it goes.
            versions = self.artifacts.forget_rows(tenant, contributors) if tenant else None
            answers = self.answers.exact.forget(tenant=tenant, contributors=contributors)
            examples, choices = [], []
            for name in contributors:
                examples.append(self.examples.remove_contributor(tenant, name))
                self.decisions.texts.forget_contributor(tenant, name)
                self.answers.responses.forget_contributor(tenant, name)
                self.examples.private.forget_contributor(tenant, name)
                self.outcomes.feedback.forget_contributor(tenant, name)
                self.outcomes.reviews.forget_contributor(tenant, name)
                self.outcomes.forget_contributor(tenant, name)
                choices.append(self.decisions.choices.forget_contributor(tenant, name))
                self.tasks.answers.forget_contributor(tenant, name)
                self.runs.forget_contributor(tenant, name)
                if end_user := name.partition("/")[2]:
                    self.owned.forget_end_user(tenant, end_user)
                    self.decisions.requests.forget_user(tenant, end_user)
            if key_id:
                self.owned.forget_key(tenant, key_id)
                self.decisions.requests.forget_key(tenant, key_id)
        answers.result(timeout_s)
        learnt = versions.result() if versions is not None else 0
        if learnt:
            self.artifacts.forget_files(tenant)
        if self.follower is not None:
            self.follower.wait_for(self.examples.last_seq(), timeout_s)
        return Forgotten(
            sum(each.result() for each in examples),
            answers.result(),
            0,
            sum(each.result() for each in choices),
            learnt,
            erased=False,
        )

    def purge_index(self, tenant: str) -> None:
        """Have nothing of removed vectors left in the tenant's index and its snapshot. Blocks for a rebuild.

        To be called when the index has followed the removal.
        """
        if self.indexes is not None:
            self.indexes.purge(tenant, self.examples.database_id())
        else:
            Snapshots(self.folder / _INDEX).remove(tenant)

    def erase(self, timeout_s: float = 60.0) -> bool:
        """Write the whole database anew without anything that was deleted. True when nothing of it is left in any file.

        False when a reader in some process still looked at the old state: see `scrub`. Takes seconds per gigabyte,
        during which every process's writes wait. Raises what writing raises.
        """
        self._db.words.purge(timeout_s)
        return self._db.erase().result(timeout_s)

    def scrub(self, timeout_s: float = 60.0) -> bool:
        """Overwrite what was deleted, as far as that takes no rewriting of the file; False as `erase`: ask again."""
        return self._db.scrub().result(timeout_s)

    def close(self, timeout_s: float = 10.0) -> bool:
        """Write what waits, save the snapshots, close. True if everything was written within `timeout_s` seconds."""
        drained = self._db.drain(timeout_s)
        if drained and not self._db.closed:
            # Losing a note of use costs an eviction in the wrong order, at worst.
            with contextlib.suppress(StoreBusy):
                self.examples.flush_uses()
                self.answers.exact.flush_uses()
        stopped = self.follower.stop(timeout_s) if self.follower is not None else True
        if self._lease is not None and not self._db.closed:
            self._lease.release()
        return self._db.close(timeout_s) and drained and stopped


def _blobs(db: Database, url: str) -> Blobs:
    if not url:
        return RowBlobs(db)
    from store.blobs_by_url import UrlBlobs

    return UrlBlobs(url)


def _holds(lease: Lease) -> bool:
    """Whether this process has a lease, which it takes or renews as needed. Blocks."""
    try:
        return lease.take()
    except (StoreError, TimeoutError):
        return False


def _far(
    db: Database,
    examples: ExampleBank,
    indexes: TenantIndexes,
    index: Literal["pgvector", "auto"],
    owner: Callable[[], bool],
) -> FarVectors | None:
    """Where tenants out of memory are searched: PostgreSQL, if it has pgvector."""
    from store.postgres.database import PostgresDatabase
    from store.postgres.vectors import PostgresVectors

    assert isinstance(db, PostgresDatabase)
    wanted = indexes.is_too_small if index == "auto" else lambda: True
    dimensions, version = indexes.dimensions, indexes.version
    far = PostgresVectors.open(db, examples, dimensions, version, owner=owner, wanted=wanted)
    if far is not None and index == "pgvector":
        indexes.limit_memory(0)
    return far


def _postgres(url: str, listen_url: str, max_pending: int, connections: int, deadline_s: float) -> Database:
    # psycopg is an extra, and takes 60 ms to import.
    try:
        from store.postgres.database import PostgresDatabase
    except ModuleNotFoundError as error:
        raise StoreFailed("PostgreSQL needs: pip install 'understudy-gateway[postgres]'") from error

    return PostgresDatabase.open(
        url,
        listen_url=listen_url,
        max_pending=max_pending,
        # One writes, one listens.
        readers=connections - 2,
        deadline_s=deadline_s,
    )
