"""Opens what a gateway remembers with: the embedder, then the store, which it keeps in this order for good reason."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from learning.bank.background_embedding import AnswerEmbedder, QuestionEmbedder
from learning.bank.example_store import ExampleStore
from learning.bank.template_follower import TemplateFollower
from router.deadline import Deadline
from router.embedding.embedder import Embedder
from router.embedding.templates import Templates
from store import Store
from store.answers.exact_cache import ExactCache
from store.decisions.requests import RequestLog
from store.jobs.leases import Lease
from understudy.background.housekeeping import Chore, Housekeeper
from understudy.background.retention import Retention
from understudy.settings.memory import MemorySettings
from understudy.settings.private import PrivateSettings
from understudy.settings.retention import RetentionSettings
from understudy.setup.examples import admission, open_embedder
from understudy.setup.store import open_store

log = structlog.get_logger(__name__)

_MIB = 2**20
_FOLLOWED_WITHIN_S = 2.0
_HOUSEKEEPING_S = 60.0
"""Longer than from one chore to the next: whoever has begun goes on with it."""
_REPLAYS_KEPT_S = 90 * 86_400.0
_RUNS_AT_ONCE = 500
_TASK_ANSWERS_KEPT = 50_000
"""Of each task: more than a student is trained on, since most of a task's requests are the student's own answers."""
_PRIVATE_QUESTIONS_KEPT_S = 30 * 86_400.0
"""How long questions of private tenants are kept aside."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The store of one data folder, and the embedder its examples are found with (None: no examples)."""

    store: Store
    embedder: Embedder | None
    templates: Templates
    retrieval: Deadline
    """Of what is decided after the embedding, in all policies."""
    closing: contextlib.ExitStack
    """What works in the background, and what stands open: ended in the reverse order of its beginning."""
    housekeeper: Housekeeper
    """Does regular work that may take seconds."""
    exact: ExactCache | None
    requests: RequestLog | None

    @classmethod
    def open(
        cls,
        settings: MemorySettings,
        retention: RetentionSettings,
        *,
        scores: bool = False,
        private: PrivateSettings | None = None,
        chores: bool = True,
    ) -> Memory:
        """Open or create the data folder. Blocks. `scores`: some policy scores examples, and wants their answers' vectors.

        `private`: tenants that are made private before anything is served of them. `chores`: whether this process is among
        those of which one at a time embeds what waits, trims and makes room.

        Raises OSError, StoreError, and EmbeddingModelMissing with
        its remedy.
        """
        folder = settings.data_dir
        assert folder is not None, "understudy.processes.run gives every memory a folder"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        log.info("memory_opening", data_dir=str(folder))
        with contextlib.ExitStack() as closing:
            # The embedder comes first: it loads onnxruntime, which must be imported before usearch.
            embedder = None
            if settings.examples.enabled:
                embedder = open_embedder(settings, folder)
                closing.callback(embedder.close)
            snapshots: list[Lease] = []
            store = open_store(
                settings,
                owner=lambda: any(lease.take() for lease in snapshots),
                exact_ttl_s=settings.exact.ttl_s,
                exact_disk_bytes=_bytes(settings.exact.disk_mib),
                exact_max_entry_bytes=_max_entry_bytes(settings),
                dimensions=embedder.dimensions if embedder else None,
                embedding_version=embedder.version if embedder else "",
            )
            closing.callback(store.close)
            if chores:
                snapshots.append(store.jobs.leases.lease("snapshots", _HOUSEKEEPING_S))
                closing.callback(snapshots[0].release)
            if private is not None and private.tenants:
                # An extra: imported only where a tenant is private.
                from learning.private.tenants import make_private

                make_private(store, private.tenants)
            templates = Templates()
            if embedder is not None:
                follower = TemplateFollower(store.examples, embedder, templates)
                store.followers.add(follower)
                closing.callback(follower.stop)
                for worker in _embedding(store, embedder, scores, chores):
                    worker.start()
                    closing.callback(worker.stop)
            housekeeper = _housekeeper(store, settings, retention, chores)
            housekeeper.start()
            closing.callback(housekeeper.stop)
            return cls(
                store,
                embedder,
                templates,
                Deadline(),
                closing.pop_all(),
                housekeeper,
                store.answers.exact if settings.exact.enabled else None,
                store.decisions.requests if settings.log_requests else None,
            )

    def example_store(self, settings: MemorySettings) -> ExampleStore | None:
        """What the examples' endpoints work on; None without examples."""
        store = self.store
        if self.embedder is None or store.indexes is None or store.follower is None:
            return None
        return ExampleStore(
            bank=store.examples,
            find=store.examples.by_request,
            admission=admission(settings),
            embedder=self.embedder,
            templates=self.templates,
            nearest=store.indexes.nearest,
            followed=partial(store.follower.wait_for, timeout_s=_FOLLOWED_WITHIN_S),
            standing=store.examples.contributors.standings().of,
            secret=store.secret,
            made_at_s=lambda key_id: next(
                (key.created_at_s for key in store.keys.list() if key.id == key_id), None
            ),
        )

    def problems(self) -> list[str]:
        """What is not ready yet; empty when everything is."""
        follower = self.store.follower
        if follower is not None and not follower.ready:
            return ["the index of examples is still being read"]
        return []

    def settled(self) -> bool:
        """Whether all writes are committed and the index has followed them."""
        if self.store.pending:
            return False
        follower = self.store.follower
        return follower is None or follower.folded_seq >= self.store.examples.last_seq()

    def close(self) -> None:
        """Write what is queued, save snapshots, close the store, end the embedder's thread. Blocks."""
        self.closing.close()


class _Worker(Protocol):
    """A thread of its own."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


def _embedding(store: Store, embedder: Embedder, answers: bool, chores: bool) -> Iterator[_Worker]:
    """What embeds in the background; `answers`: answers, too."""
    if chores:
        lease = _alone_on_a_machine(store, "reembed")
        yield QuestionEmbedder(store.examples, embedder, store.jobs.claims, lease)
    if chores and answers:
        lease = _alone_on_a_machine(store, "answers")
        yield AnswerEmbedder(store.examples.answer_vectors, embedder, store.jobs.claims, lease)


def _housekeeper(
    store: Store, settings: MemorySettings, retention: RetentionSettings, chores: bool
) -> Housekeeper:
    lease = store.jobs.leases.lease("housekeeping", _HOUSEKEEPING_S)
    wanted = [one for one in _chores(store, settings, retention) if chores or one.each]
    return Housekeeper(wanted, lease)


def _alone_on_a_machine(store: Store, name: str) -> Lease | None:
    """Where all processes share one machine, one of them embeds: requests need the rest of it."""
    return None if store.jobs.claims.several else store.jobs.leases.lease(name)


def _bytes(mib: float) -> int:
    return int(mib * _MIB)


def _max_entry_bytes(settings: MemorySettings) -> int:
    return int(settings.advanced.exact_max_entry_kib * 1024)


def _chores(store: Store, settings: MemorySettings, retention: RetentionSettings) -> list[Chore]:
    kept_s = retention.rows_days * 86_400
    by_age = Retention(
        store,
        retention,
        keeps_texts=settings.request_texts.enabled,
        texts_max_bytes=_bytes(settings.advanced.texts_max_mib),
    )
    return [
        *by_age.chores(),
        Chore("flush_example_uses", 10, store.examples.flush_uses, each=True),
        Chore("flush_answer_uses", 10, store.answers.exact.flush_uses, each=True),
        # After an hour of running: by then a clock that was wrong when the machine started has been set right.
        Chore("trim_allowances", 600, lambda: store.allowances.trim(time.time())),
        Chore("clamp_stamps", 3600, lambda: _clamp_stamps(store)),
        Chore("trim_answers", 60, lambda: store.answers.exact.trim(time.time())),
        Chore("trim_sums", 3600, lambda: store.decisions.trim_sums(time.time())),
        Chore("trim_webhooks", 3600, lambda: store.jobs.webhooks.trim(time.time())),
        Chore("trim_tasks", 3600, lambda: _trim_tasks(store, time.time() - kept_s)),
        Chore("expire_values", 10, lambda: _expire_values(store)),
        Chore("trim_runs", 60, lambda: _trim_runs(store, time.time() - kept_s)),
        Chore(
            "trim_replays", 3600, lambda: store.jobs.replay.trim(time.time() - max(kept_s, _REPLAYS_KEPT_S))
        ),
        Chore(
            "trim_private", 60, lambda: store.examples.private.trim(time.time() - _PRIVATE_QUESTIONS_KEPT_S)
        ),
        # Of this machine's folder.
        Chore("sweep_artifacts", 3600, store.artifacts.sweep, each=True),
        Chore("make_room", 60, lambda: _make_room(store, settings)),
        Chore("compact", 3600, store.examples.compact),
    ]


def _clamp_stamps(store: Store) -> None:
    while store.decisions.clamp_stamps(time.time()).result(60):
        pass


def _expire_values(store: Store) -> None:
    while store.runs.expire(time.time(), _RUNS_AT_ONCE).result(60) == _RUNS_AT_ONCE:
        pass


def _trim_runs(store: Store, before_s: float) -> None:
    while store.runs.trim(before_s, _RUNS_AT_ONCE).result(60) == _RUNS_AT_ONCE:
        pass


def _trim_tasks(store: Store, before_s: float) -> None:
    store.tasks.answers.trim(before_s, _TASK_ANSWERS_KEPT).result(60)
    store.tasks.known.forget_idle(before_s)


def _make_room(store: Store, settings: MemorySettings) -> None:
    max_examples, max_bytes = settings.examples.max_stored, int(settings.advanced.max_stored_mib * _MIB)
    for tenant in store.examples.tenants():
        evicted = store.examples.make_room(tenant, max_examples=max_examples, max_bytes=max_bytes)
        if evicted.examples:
            log.info(
                "examples_evicted",
                tenant=tenant,
                examples=evicted.examples,
                size_bytes=evicted.size_bytes,
            )
        if evicted.over:
            # What is left is pinned or was given as right: only a person may remove it.
            log.warning("examples_over_cap", tenant=tenant)
