"""Takes feedback on answers: stores it, derives outcomes to learn from, and turns corrections into demonstrations.

An answer is named by its own `id` or by the decision id of its headers. Another tenant's answer counts as not found.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from engines.errors import RequestError
from learning.bank.contributor import Behind, user_part
from learning.bank.example_store import ExampleStore
from learning.guarantee.floor import BY_REVIEW
from learning.outcomes.correction import correct
from learning.outcomes.feedback import UserFeedback
from learning.outcomes.known_quality import OnOutcomes
from learning.outcomes.target import Target, Targets
from learning.tasks.labels import GivenLabels
from router.digest import user_scope
from store.decisions import session_ids
from store.decisions.outcomes import EnoughFeedback, FeedbackLog, FeedbackRecord
from store.examples.accounting import Ledger
from store.examples.bank import ExampleBank
from store.people.secret import derive
from store.records import Example, OutcomeRecord

_MAX_KEY_CHARACTERS = 255
_KEY_CHARACTERS = 32
_SKIPPED = ("answer_not_found", "enough_feedback")
"""Codes for which an answer of a conversation is left out: it is another end user's, or enough was said of it."""
_MAX_PER_ANSWER = 16
"""Feedbacks per answer. More would let one person decide what is learnt."""


@dataclass(frozen=True, slots=True)
class _Given:
    """Feedback on one answer, and who gives it, as FeedbackIntake.give says."""

    tenant: str
    key_id: str | None
    fields: dict[str, Any]
    feedback: UserFeedback
    key: str
    """By which the same feedback is known again."""
    by: Behind
    apart: bool
    named_scope: str | None = None
    author: str = ""
    sampled: float | None = None


@dataclass(frozen=True, slots=True)
class FeedbackIntake:
    """Checks feedback and stores what follows from it."""

    answers: Targets
    log: FeedbackLog
    examples: ExampleBank
    judgements: Ledger
    example_of: Callable[[str, str], Example | None]
    """The tenant's example made from a request, by the request's id."""
    corrections: ExampleStore | None
    """The store in which corrections become demonstrations; None if no examples are kept."""
    secret: bytes
    apart: bool
    """True if each end user has a memory of their own."""
    window_s: float
    """Feedback is refused when the request is older than this."""
    may_judge: Callable[[str, str, Example], bool] = lambda tenant, key_id, example: True
    """Tells if a tenant's key's word on an answer counts for an example of it. Blocks."""
    on_outcomes: OnOutcomes | None = None
    """Called with the committed outcomes of an answer. Blocks."""
    labels: GivenLabels | None = None
    """Turns feedback on requests of tasks into labels; None if there are no tasks."""
    told: Callable[[str, str, float, str], None] | None = None
    """Called with tenant, request id, the quality that a person gave its answer and their correction, on the event loop."""
    sync: Callable[[], None] | None = None
    """Makes committed data survive a power cut: Store.sync. Blocks."""

    async def give(
        self,
        tenant: str,
        key_id: str | None,
        fields: dict[str, Any],
        feedback: UserFeedback,
        *,
        by: Behind,
        idempotency_key: str | None = None,
        named_scope: str | None = None,
        apart: bool | None = None,
        author: str = "",
        sampled: float | None = None,
    ) -> tuple[FeedbackRecord, bool]:
        """Takes feedback from a tenant's key; returns the stored record, once committed, and whether it is new.

        `fields` may hold the messages of a corrected answer; `named_scope` is the client's name for their instructions.
        `apart`: whether each end user of this key has a memory of their own; None: as usual. `author`: the operator who
        gives it, if one does. `sampled`: the probability with which a reviewer was shown the answer; it then becomes a
        label of that probability, and nobody's voluntary word. Raises RequestError, StoreError and TimeoutError.
        """
        key = _key(self.secret, idempotency_key, feedback, by.contributor)
        apart = self.apart if apart is None else apart
        given = _Given(tenant, key_id, fields, feedback, key, by, apart, named_scope, author, sampled)
        kept, new = await self._give(given)
        await self._synced()
        return kept, new

    async def give_session(
        self,
        tenant: str,
        key_id: str | None,
        feedback: UserFeedback,
        *,
        by: Behind,
        idempotency_key: str | None = None,
        apart: bool,
    ) -> list[tuple[FeedbackRecord, bool]]:
        """Takes feedback on a conversation for each of its answers that engines gave and that is the giver's to judge; as
        `give`, for each of them. Raises RequestError 404 where there is none."""
        digest = session_ids.named(self.secret, feedback.id)
        whole = _key(self.secret, idempotency_key, feedback, by.contributor)
        found = []
        for id in await self.answers.of_session(tenant, digest, time.time() - self.window_s):
            of_turn = replace(feedback, id=id, by="decision")
            key = derive(self.secret, "feedback on a conversation", f"{whole}\0{id}")[:_KEY_CHARACTERS]
            try:
                found.append(await self._give(_Given(tenant, key_id, {}, of_turn, key, by, apart)))
            except RequestError as error:
                if error.code not in _SKIPPED:
                    raise
        if not found:
            raise _not_found(feedback.id, "session_id")
        await self._synced()
        return found

    async def _synced(self) -> None:
        if self.sync is not None:
            # Also for feedback that was stored before: its first acknowledgement may never have left.
            await asyncio.to_thread(self.sync)

    async def _give(self, given: _Given) -> tuple[FeedbackRecord, bool]:
        """The same, once committed."""
        kept, new = await asyncio.to_thread(self.log.find, given.tenant, given.key), False
        if kept is None:
            kept, new = await self._take(given)
        if kept.content_digest != given.feedback.digest(self.secret):
            raise RequestError(
                "This Idempotency-Key was used before for other feedback.",
                status=409,
                code="idempotency_conflict",
                param="Idempotency-Key",
            )
        return kept, new

    async def _take(self, given: _Given) -> tuple[FeedbackRecord, bool]:
        tenant, key_id, feedback, by = given.tenant, given.key_id, given.feedback, given.by
        completion = feedback.by == "completion"
        answer = await self._answer(tenant, feedback.id, completion, f"{feedback.by}_id", by)
        other = None
        if feedback.preferred_over:
            other = await self._answer(tenant, feedback.preferred_over, None, "preferred_over", by)
            if other.request_id == answer.request_id:
                raise RequestError(
                    "An answer cannot be better than itself.", code="invalid_value", param="preferred_over"
                )
        if len(await asyncio.to_thread(self.log.of, tenant, answer.request_id)) >= _MAX_PER_ANSWER:
            raise _enough()
        observed = await asyncio.to_thread(self.example_of, tenant, answer.request_id)
        corrected = None
        if feedback.correction and not await self._labels_only(given, answer, observed):
            corrected = await asyncio.to_thread(
                correct,
                self._where_corrected(),
                tenant,
                key_id,
                given.fields,
                feedback.correction,
                observed,
                self._owner(answer, observed, by, given.apart),
                given.named_scope,
            )
        record = FeedbackRecord(
            tenant=tenant,
            key=given.key,
            content_digest=feedback.digest(self.secret),
            request_id=answer.request_id,
            contributor=by.contributor,
            at_s=time.time(),
            score=feedback.score,
            thumb=feedback.thumb,
            preferred_over=other.request_id if other else "",
            correction=corrected.request_id if corrected is not None else "",
            comment=feedback.comment,
            author=given.author,
        )
        follows = _outcomes(record, feedback, answer, other)
        if given.sampled is not None:
            follows = [
                replace(each, source="label", probability=given.sampled, key=BY_REVIEW + each.key)
                for each in follows
            ]
        try:
            kept, new = await asyncio.wrap_future(
                self.log.give(record, follows, wrong=feedback.says_wrong(), most=_MAX_PER_ANSWER)
            )
        except EnoughFeedback:
            raise _enough() from None
        if new:
            # The feedback is about the wrong answer, which the correction has replaced if it is the same example.
            replaced = observed is not None and corrected is not None and observed.id == corrected.id
            await self._learn(tenant, key_id, answer, None if replaced else observed, feedback, follows)
        return kept, new

    def _where_corrected(self) -> ExampleStore:
        if self.corrections is None:
            raise RequestError(
                "This gateway keeps no examples, so a correction teaches nothing: memory.examples.enabled is off.",
                code="examples_disabled",
                param="correction",
            )
        return self.corrections

    async def _learn(
        self,
        tenant: str,
        key_id: str | None,
        answer: Target,
        observed: Example | None,
        feedback: UserFeedback,
        follows: Sequence[OutcomeRecord],
    ) -> None:
        """Tell all who learn from feedback that is stored. `observed`: the example made from the answer, if it stands."""
        qualities = feedback.qualities().values()
        if self.told is not None and qualities:
            self.told(tenant, answer.request_id, sum(qualities) / len(qualities), feedback.correction)
        if self.labels is not None:
            await asyncio.to_thread(self.labels.said, tenant, answer.request_id, feedback)
        if self.on_outcomes is not None:
            for each in follows:
                await asyncio.to_thread(self.on_outcomes, tenant, each.request_id, [each])
        await asyncio.to_thread(self._judge_examples, tenant, key_id, answer, observed, feedback)

    async def _labels_only(self, given: _Given, answer: Target, observed: Example | None) -> bool:
        """Tell if a correction only labels a task's request: without messages it can become no example."""
        replaces = observed is not None and observed.contributor == given.by.contributor
        if self.labels is None or "messages" in given.fields or (replaces and self.corrections is not None):
            return False
        return await asyncio.to_thread(self.labels.knows, given.tenant, answer.request_id)

    def _owner(self, answer: Target, observed: Example | None, by: Behind, apart: bool) -> Behind:
        """Return the owner of a corrected answer: its end user, also if the feedback names none."""
        end_user = user_part(answer.contributor or "") if apart else ""
        if observed is not None:
            end_user = end_user or user_scope(observed.scope)
        elif apart and answer.contributor is None and not by.end_user:
            raise RequestError(
                "Nobody knows any more which user got this answer, so the correction might reach others: name the user"
                " with it, as the request did, in the header x-understudy-user or the field 'user'.",
                code="user_needed",
                param="user",
            )
        return by._replace(end_user=by.end_user or end_user)

    async def _answer(self, tenant: str, id: str, completion: bool | None, param: str, by: Behind) -> Target:
        found = await self.answers.wait_for(tenant, id, completion=completion)
        if found is None or (by.end_user and user_part(found.contributor or "") not in ("", by.end_user)):
            raise _not_found(id, param)
        if time.time() - found.at_s > self.window_s:
            raise RequestError(
                f"This answer is older than the {self.window_s / 3600:g} hours within which feedback is taken.",
                status=410,
                code="feedback_too_late",
                param=param,
            )
        return found

    def _judge_examples(
        self,
        tenant: str,
        key_id: str | None,
        answer: Target,
        observed: Example | None,
        feedback: UserFeedback,
    ) -> None:
        """Adds the quality to the examples that the answer was made with, and to the one made from it.

        Not for a key that is new among others: see store.admission.contributors.may_judge.
        """
        qualities = feedback.qualities().values()
        if not qualities:
            return
        quality = sum(qualities) / len(qualities)
        # Only the tenant's own examples: feedback must not change what another tenant lent.
        used = self.examples.by_ids(tenant, answer.example_ids, serving=False)
        for example in {each.id: each for each in (*used, *([observed] if observed else []))}.values():
            if key_id is None or self.may_judge(tenant, key_id, example):
                self.judgements.note_quality(example.id, quality)


def _not_found(id: str, param: str) -> RequestError:
    return RequestError(
        f"No answer of yours has the id {id[:100]!r}, or it was not to be stored.",
        status=404,
        code="answer_not_found",
        param=param,
    )


def _enough() -> RequestError:
    return RequestError(
        f"There are {_MAX_PER_ANSWER} feedbacks on this answer already.", status=409, code="enough_feedback"
    )


def _outcomes(
    record: FeedbackRecord, feedback: UserFeedback, answer: Target, other: Target | None
) -> list[OutcomeRecord]:
    """The outcomes to learn from. None for an answer replayed from memory, since no engine was chosen for it."""
    detail = {} if other is None else {"against": other.request_id}
    found = [_outcome(record, answer, how, quality, detail) for how, quality in feedback.qualities().items()]
    if other is not None:
        found.append(_outcome(record, other, "beaten", feedback.beaten(), {"against": answer.request_id}))
    return [outcome for outcome in found if outcome.engine]


def _outcome(
    record: FeedbackRecord, answer: Target, how: str, quality: float, detail: dict[str, str]
) -> OutcomeRecord:
    return OutcomeRecord(
        request_id=answer.request_id,
        tenant=record.tenant,
        at_s=record.at_s,
        source="user",
        key=f"{how}:{record.key}",
        engine=answer.engine,
        example_ids=answer.example_ids,
        served=True,
        quality=quality,
        detail=orjson.dumps({"how": how} | detail).decode(),
    )


def _key(secret: bytes, idempotency_key: str | None, feedback: UserFeedback, giver: str) -> str:
    if idempotency_key is None:
        return derive(secret, "feedback by content", f"{giver}\0{feedback.digest(secret)}")[:_KEY_CHARACTERS]
    if not idempotency_key or len(idempotency_key) > _MAX_KEY_CHARACTERS:
        raise RequestError(
            f"Idempotency-Key has {len(idempotency_key)} characters; 1 to {_MAX_KEY_CHARACTERS} are right.",
            code="invalid_idempotency_key",
            param="Idempotency-Key",
        )
    return derive(secret, "feedback by idempotency key", f"{giver}\0{idempotency_key}")[:_KEY_CHARACTERS]
