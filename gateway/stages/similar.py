"""The stage that may answer with a similar question's answer (gateway.reuse). It is for this client alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.same_request import SameRequest, may_be_replayed
from gateway.stages.replaying import replay
from gateway.stages.stage import Next, UnderWay

if TYPE_CHECKING:
    from gateway.reuse.stage import SemanticAnswers


class SimilarStage:
    """See gateway.stages.stage.Stage."""

    def __init__(self, answers: SemanticAnswers, same: SameRequest, *, sampled: bool) -> None:
        """`sampled`: as of the exact stage."""
        self._sampled = sampled
        self._answers = answers
        self._same = same

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """See Stage."""
        record, model = request.record, request.model
        asked = record.asked
        if not may_be_replayed(asked.chat, sampled=self._sampled):
            return next
        stage = record.reuse = await self._answers.consider(
            asked,
            record,
            endpoint=self._same.told(asked.target, asked.headers, others=model.unknown_servers),
            served_by=model.served_by(asked.arrival.key_id),
            ignored_fields=model.ignored_fields,
        )
        if stage is not None and (reused := stage.reused) is not None:
            record.reused_example = reused.example_id
            record.decided("semantic", reused.policy, "reused", reused.decision.probability)
            await replay(reused.answer, request, reused.headers())
            return None
        if stage is not None:
            request.steered = stage.steered
        return next
