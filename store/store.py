"""Opens the whole store in the right order, and closes it in the reverse. Knows no setting but what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from store.answers.exact_cache import ExactCache
from store.answers.semantic_entries import SemanticEntries
from store.answers.semantic_observations import SemanticObservations
from store.decisions.choices import Choices
from store.decisions.feedback import FeedbackLog
from store.decisions.outcomes import Outcomes
from store.decisions.requests import DecisionLog
from store.decisions.texts import RequestTextLog
from store.examples.bank import ExampleBank
from store.examples.private_bank import PrivateBank
from store.examples.twins import TwinRule
from store.examples.vector_index import IndexFollower, TenantIndexes
from store.jobs.operator_asks import OperatorAsks
from store.jobs.replay_jobs import ReplayJobs
from store.learned.artifacts import Artifacts
from store.learned.quality_floors import QualityFloors
from store.people.keys import KeyStore
from store.people.secret import load_or_create_secret
from store.sqlite import words
from store.sqlite.database import Database

_MIB = 1024 * 1024


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
class Memory:
    """Everything that is remembered under one data folder. Open it in each worker, after the fork."""

    db: Database
    secret: bytes
    keys: KeyStore
    exact: ExactCache
    examples: ExampleBank
    decisions: DecisionLog
    texts: RequestTextLog
    choices: Choices
    outcomes: Outcomes
    feedback: FeedbackLog
    artifacts: Artifacts
    replay: ReplayJobs
    indexes: TenantIndexes | None
    follower: IndexFollower | None

    @classmethod
    def open(
        cls,
        data_folder: Path,
        *,
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
    ) -> Memory:
        """Open `understudy.db`, `secret`, `index/` and `artifacts/` in a folder, made as needed.

        Without `dimensions` there is no embedder, hence no index and no follower. Raises what Database.open and
        load_or_create_secret raise.
        """
        secret = load_or_create_secret(data_folder)
        db = Database.open(data_folder / "understudy.db", durable=durable, max_pending=max_pending)
        try:
            exact = ExactCache(
                db,
                ttl_s=exact_ttl_s,
                memory_bytes=exact_memory_bytes,
                disk_bytes=exact_disk_bytes,
                max_entry_bytes=exact_max_entry_bytes,
            )
            examples = ExampleBank(db, twin_rule=twin_rule)
            indexes = follower = None
            if dimensions is not None:
                indexes = TenantIndexes(data_folder / "index", dimensions, embedding_version)
                follower = IndexFollower(examples, indexes, poll_s=poll_s, save_every_s=save_every_s)
                examples.on_change(follower.notify)
                follower.start()
        except BaseException:
            db.close()
            raise
        return cls(
            db,
            secret,
            KeyStore(db, secret),
            exact,
            examples,
            DecisionLog(db),
            RequestTextLog(db),
            Choices(db),
            Outcomes(db),
            FeedbackLog(db),
            Artifacts(db, data_folder / "artifacts", keep=versions_kept),
            ReplayJobs(db),
            indexes,
            follower,
        )

    def forget_tenant(self, tenant: str, timeout_s: float = 60.0) -> Forgotten:
        """Delete everything remembered of a tenant, and overwrite what was deleted, also in the index's files.

        Waits; not for the event loop. Other workers' memories follow within about a second. The tenant's keys stay.
        Raises what writing raises, TimeoutError among it.
        """
        removing = self.examples.remove_tenant(tenant)
        forgetting = self.exact.forget_tenant(tenant)
        unlogging = self.decisions.forget_tenant(tenant)
        self.texts.forget_tenant(tenant).result(timeout_s)
        OperatorAsks(self.db).forget_tenant(tenant).result(timeout_s)
        self.feedback.forget_tenant(tenant).result(timeout_s)
        self.outcomes.forget_tenant(tenant).result(timeout_s)
        choices = self.choices.forget_tenant(tenant).result(timeout_s)
        QualityFloors(self.db).forget_tenant(tenant).result(timeout_s)
        PrivateBank(self.db).forget_tenant(tenant).result(timeout_s)
        self.replay.forget_tenant(tenant).result(timeout_s)
        # The empty tenant's versions were learnt from labels that the operator brought.
        versions = self.artifacts.forget_tenant(tenant) if tenant else 0
        SemanticEntries(self.db).forget_tenant(tenant).result(timeout_s)
        SemanticObservations(self.db).forget_tenant(tenant).result(timeout_s)
        examples, answers, requests = (
            waited.result(timeout_s) for waited in (removing, forgetting, unlogging)
        )
        if self.indexes is not None and self.follower is not None:
            self.follower.wait_for(self.examples.last_seq(), timeout_s)
            self.indexes.forget(tenant)
        return Forgotten(examples, answers, requests, choices, versions, self.erase(timeout_s))

    def forget_contributor(self, tenant: str, contributor: str, timeout_s: float = 300.0) -> Forgotten:
        """Delete every example, choice and feedback of one contributor of a tenant, and overwrite it, also in the index.

        The tenant's exact answers go all of them, since they do not say whose they were and come back by themselves; its
        log of requests holds no text and stays. What was learnt of the tenant goes, and is learnt anew from what is
        left. Waits for a rebuild of the tenant's index; not for the event loop. Other workers' snapshots are without it
        when their next one is written. Raises what writing raises, ValueError for an empty contributor, and TimeoutError.
        """
        removing = self.examples.remove_contributor(tenant, contributor)
        forgetting = self.exact.forget_tenant(tenant)
        choices = self.forget_experience(tenant, contributor, timeout_s)
        examples, answers = removing.result(timeout_s), forgetting.result(timeout_s)
        if self.indexes is not None and self.follower is not None:
            self.follower.wait_for(self.examples.last_seq(), timeout_s)
            self.indexes.purge(tenant, self.examples.database_id())
        return Forgotten(examples, answers, 0, choices, 0, self.erase(timeout_s))

    def forget_experience(self, tenant: str, contributor: str, timeout_s: float = 60.0) -> int:
        """Delete what there is to learn from a contributor, and what was learnt. Gives how many choices.

        Raises as `forget_contributor` does.
        """
        self.texts.forget_contributor(tenant, contributor).result(timeout_s)
        PrivateBank(self.db).forget_contributor(tenant, contributor).result(timeout_s)
        self.feedback.forget_contributor(tenant, contributor).result(timeout_s)
        self.outcomes.forget_contributor(tenant, contributor).result(timeout_s)
        choices = self.choices.forget_contributor(tenant, contributor).result(timeout_s)
        if choices and tenant:
            # A bandit's landmark may be one request's vector. What is left is learnt from anew.
            self.artifacts.forget_tenant(tenant)
        return choices

    def erase(self, timeout_s: float = 60.0) -> bool:
        """`Database.erase`, once no index of words holds a word of what was deleted. Raises what writing raises."""
        for table in words.TABLES:
            self.db.write(partial(words.purge, table=table)).result(timeout_s)
        return self.db.erase().result(timeout_s)

    def close(self, timeout_s: float = 10.0) -> bool:
        """Write what waits, save the snapshots, close. True if everything was written within `timeout_s` seconds."""
        drained = self.db.drain(timeout_s)
        if drained and not self.db.closed:
            self.examples.flush_uses()
            self.exact.flush_uses()
        stopped = self.follower.stop(timeout_s) if self.follower is not None else True
        return self.db.close(timeout_s) and drained and stopped
