"""What an operator can do from the admin pages: give feedback, correct answers, ask engines, plan and undo replay.

Engines and the embedder are opened when they are first needed: an admin process in which nobody asks for them has none.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from admin.actions import NotDone, OperatorActions, OperatorFeedback, Reply, Tried
from engines.asking import Bill, NotAnswered, ask, chat_of
from engines.engine import Engine
from engines.errors import RequestError
from learning.bank.contributor import Behind, contributor
from learning.bank.example_store import ExampleStore
from learning.bank.sharing import lenders
from learning.outcomes.corrected_answer import CorrectedAnswers
from learning.outcomes.feedback import read_feedback
from learning.outcomes.feedback_intake import FeedbackIntake
from learning.outcomes.target import Targets
from learning.tasks.labels import GivenLabels
from router.dials import Dials
from store import Store
from store.errors import StoreError
from store.jobs.replay_records import NewStep, ReplayBudget
from store.records import ExactAnswer, Vector
from understudy.imported_lines import import_lines
from understudy.settings.config import Config
from understudy.settings.models import ModelSettings
from understudy.settings.reach import out_of_reach
from understudy.setup.engines import Tenants, engines
from understudy.setup.examples import admission
from understudy.setup.outcomes import contributor_of, known_quality
from understudy.trying_engines import tried, why_not

if TYPE_CHECKING:
    from router.embedding.embedder import Embedder

_MOST_TOKENS = 2048
_ANSWER_WITHIN_S = 120.0


class AdminActions:
    """Over the admin process's open store. `actions` is what the pages get; `aclose` ends what was opened."""

    def __init__(self, config: Config, store: Store) -> None:
        self._config = config
        self._store = store
        self._engines: Mapping[str, Engine] | None = None
        self._embedder: Embedder | None = None
        self._lock = threading.Lock()

    def actions(self) -> OperatorActions:
        """What this configuration can do."""
        memory = self._config.memory
        assert memory is not None, "without memory there are no admin pages"
        keeps_examples = memory.examples.enabled
        return OperatorActions(
            give_feedback=self._say if self._config.feedback.enabled else None,
            ask=self._ask if self._config.engines else None,
            test=self._test if self._config.engines else None,
            embed=self._embed if keeps_examples else None,
            embedding_version=self._version,
            admission=admission(memory),
            lenders=lenders(self._config.sharing.grants, self._store.keys.tenant_named),
            dials={name: _dials(model) for name, model in self._config.models.items()},
            plan_replay=self._plan_replay if keeps_examples else None,
            take_back_replay=self._take_back_replay if keeps_examples else None,
            import_lines=partial(import_lines, self._store, memory) if keeps_examples else None,
            texts_kept=memory.request_texts.enabled,
        )

    async def aclose(self) -> None:
        """Close engines and embedder."""
        for engine in (self._engines or {}).values():
            await engine.aclose()
        if self._embedder is not None:
            await asyncio.to_thread(self._embedder.close)

    # ---- feedback

    async def _say(self, verdict: OperatorFeedback) -> str:
        fields: dict[str, Any] = {"decision_id": verdict.request_id}
        told = {
            "score": verdict.score,
            "thumb": verdict.thumb or None,
            "comment": verdict.comment or None,
            "correction": verdict.correction or None,
        }
        fields |= {name: value for name, value in told.items() if value is not None}
        try:
            said = read_feedback(fields)
            if verdict.correction and verdict.messages is not None:
                fields["messages"] = [dict(message) for message in verdict.messages]
            # By no key: what an operator gives is held back no more than what an operator imports.
            by = contributor(self._store.secret, verdict.tenant, None, f"admin:{verdict.by}")
            wrong = await asyncio.to_thread(self._given_now, verdict) if verdict.correction else None
            kept, _ = await self._intake().give(
                verdict.tenant,
                None,
                fields,
                said,
                by=Behind(by),
                author=verdict.by,
                sampled=verdict.sampled,
            )
            if kept.correction:
                await asyncio.to_thread(self._give_again, verdict, wrong, kept.correction)
        except RequestError as error:
            raise NotDone(str(error)) from error
        except (StoreError, TimeoutError) as error:
            raise NotDone(f"the store could not keep it: {error or 'it takes too long'}") from error
        # The accounts of examples are written now and then; nobody does that in this process.
        await asyncio.to_thread(self._flush)
        return kept.correction

    def _corrected_answers(self) -> CorrectedAnswers | None:
        memory, store = self._config.memory, self._store
        if memory is None or not memory.exact.enabled:
            return None
        return CorrectedAnswers(
            store.answers.exact,
            store.decisions.texts,
            store.decisions.details,
            partial(contributor_of, store),
        )

    def _given_now(self, verdict: OperatorFeedback) -> ExactAnswer | None:
        """What a repeat of the request is given so far."""
        answers = self._corrected_answers()
        record = self._store.decisions.requests.get(verdict.request_id, verdict.tenant)
        return None if answers is None or record is None else answers.wrong(record)

    def _give_again(self, verdict: OperatorFeedback, wrong: ExactAnswer | None, correction: str) -> None:
        """Have repeats of the request answered with the correction; `correction`: the request id of its example."""
        answers = self._corrected_answers()
        record = self._store.decisions.requests.get(verdict.request_id, verdict.tenant)
        example = self._store.examples.by_request(verdict.tenant, correction)
        if answers is not None and record is not None and example is not None:
            answers.give(record, wrong, example)

    def _flush(self) -> None:
        written = self._store.examples.flush_uses()
        if written is not None:
            written.result(30)

    def _intake(self) -> FeedbackIntake:
        store, memory = self._store, self._config.memory
        assert memory is not None, "without memory there are no admin pages"
        return FeedbackIntake(
            answers=Targets(
                store.decisions.choices,
                store.decisions.requests,
                contributor_of=partial(contributor_of, store),
                settle_s=0.0,
            ),
            log=store.outcomes.feedback,
            examples=store.examples,
            judgements=store.examples.ledger,
            example_of=store.examples.by_request,
            corrections=self._example_store(),
            secret=store.secret,
            apart=memory.partition == "user",
            window_s=float("inf"),
            on_outcomes=known_quality(store, self._config),
            labels=GivenLabels(store.tasks),
        )

    def _example_store(self) -> ExampleStore | None:
        memory = self._config.memory
        if memory is None or not memory.examples.enabled:
            return None
        store = self._store
        return ExampleStore(
            bank=store.examples,
            find=store.examples.by_request,
            admission=admission(memory),
            embedder=_LazyEmbedder(self),
            nearest=self._nearest,
            followed=lambda seq: None,
            standing=store.examples.contributors.standings().of,
            secret=store.secret,
        )

    def _nearest(self, tenant: str, vector: Vector, count: int) -> list[tuple[int, float]]:
        """This process has no index: a second's exact search among the latest is soon enough for a person."""
        found = self._store.examples.search.nearest(tenant, vector, self._version(), limit=count)
        return [(row.id, score) for row, score in zip(found.rows, found.similarities, strict=True)]

    # ---- replay

    async def _plan_replay(self, tenant: str, budget: ReplayBudget) -> Sequence[NewStep]:
        from router.embedding.model import EmbeddingModelMissing
        from understudy.setup.replay import CannotReplay, opened

        async def plan() -> Sequence[NewStep]:
            # A memory with an index of its own, for as long as it takes.
            async with opened(self._config) as made:
                return await made.plan(budget, tenant)

        try:
            # Opening one takes seconds: on a loop of its own, the pages' goes on.
            return await asyncio.to_thread(asyncio.run, plan())
        except (CannotReplay, EmbeddingModelMissing) as error:
            raise NotDone(str(error)) from error

    async def _take_back_replay(self, run_id: int) -> tuple[int, int, int]:
        from learning.replay.run import take_back_run
        from store.jobs.replay_jobs import NotThatRun

        try:
            done = await take_back_run(self._store, run_id)
        except NotThatRun as error:
            raise NotDone(str(error)) from error
        return done.restored, done.removed, done.left

    # ---- engines

    async def _ask(self, name: str, messages: Sequence[Mapping[str, Any]], model: str) -> Reply:
        beyond = out_of_reach(self._config.engines, name)
        if beyond is not None:
            raise NotDone(beyond)
        if self._engines is None:
            tenants = Tenants(self._store.secret, self._store.keys.tenant_named)
            self._engines = engines(self._config, tenants)
        engine = self._engines.get(name)
        if engine is None:
            raise NotDone(f"there is no engine {name[:60]!r}")
        if not engine.info.holds_key:
            raise NotDone(f"{name} is sent its clients' own keys, and these pages have none")
        bill = Bill({})
        chat = chat_of({"model": engine.info.model or model, "max_tokens": _MOST_TOKENS}, messages)
        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                said = await ask(engine, chat, most_tokens=_MOST_TOKENS, bill=bill, purpose="admin")
        except NotAnswered as error:
            raise NotDone(f"{name} did not answer: {why_not(error, self._config)}", bill.usd) from error
        except TimeoutError as error:
            raise NotDone(f"{name} did not answer within {_ANSWER_WITHIN_S:.0f} seconds", bill.usd) from error
        return Reply(
            name,
            said.text,
            said.finish_reason,
            said.usage.prompt_tokens,
            said.usage.completion_tokens,
            bill.usd,
            said.latency_s,
        )

    async def _test(self, name: str) -> Sequence[Tried]:
        if name not in self._config.engines:
            raise NotDone(f"there is no engine {name[:60]!r}")
        if (beyond := out_of_reach(self._config.engines, name)) is not None:
            raise NotDone(beyond)
        return [
            Tried(
                one.replica,
                one.good,
                one.said,
                one.health_ms,
                one.answer_ms,
                one.cost_usd,
                one.prompt_tokens,
                one.completion_tokens,
            )
            for one in await tried(self._config, name)
        ]

    # ---- embedding

    def _opened(self) -> Embedder:
        from router.embedding.model import EmbeddingModelMissing
        from understudy.setup.examples import open_embedder

        memory = self._config.memory
        assert memory is not None and memory.data_dir is not None
        with self._lock:
            if self._embedder is None:
                try:
                    self._embedder = open_embedder(memory, memory.data_dir)
                except (EmbeddingModelMissing, OSError) as error:
                    raise NotDone(f"the embedding model cannot be opened: {error}") from error
            return self._embedder

    def _embed(self, text: str) -> Vector:
        return self._opened().embed_blocking(text)

    def _version(self) -> str:
        return self._opened().version


def _dials(settings: ModelSettings) -> Dials:
    rule = settings.few_shot
    if settings.policy == "in_context":
        learned = settings.in_context
        return Dials(learned.preference, rule.theta, rule.m, learned.max_examples)
    if settings.policy == "few_shot":
        return Dials(None, rule.theta, rule.m, rule.max_examples)
    return Dials()


class _LazyEmbedder:
    """The embedder, opened when a correction needs it."""

    def __init__(self, actions: AdminActions) -> None:
        self._actions = actions

    @property
    def version(self) -> str:
        return self._actions._version()

    def embed_blocking(self, text: str) -> Vector:
        return self._actions._embed(text)
