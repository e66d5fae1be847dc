"""`POST /v1/feedback`: what a person says of one answer of theirs. Acknowledged only once it is committed.

An answer is named by its own `id` or by the decision id of its headers. One that is not the caller's does not exist here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from engines.errors import RequestError
from gateway.controls import named_scope
from gateway.endpoints.store_access import stored
from gateway.keys import needs_credential
from gateway.limits.feedback_rate import FeedbackRate
from gateway.own_response import error_response, json_response
from gateway.wire import read_body, read_json
from learning.bank.contributor import USER_FIELDS, EndUsers
from learning.outcomes.feedback import read_feedback
from learning.outcomes.feedback_intake import FeedbackIntake
from router.finished import Journey, Outcome
from store.decisions.outcomes import FeedbackRecord

PATH = "/feedback"


class Feedback:
    """The endpoint. Without an intake, feedback is switched off."""

    def __init__(
        self,
        intake: FeedbackIntake | None,
        rate: FeedbackRate,
        end_users: EndUsers,
        *,
        max_json_bytes: int,
    ) -> None:
        self._intake = intake
        self._end_users = end_users
        self._rate = rate
        self._max_json_bytes = max_json_bytes

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler. Raises RequestError."""
        intake = self._intake
        if intake is None:
            raise RequestError(
                "This gateway takes no feedback: feedback.enabled is off.",
                status=404,
                code="feedback_disabled",
            )
        needs_credential(journey.admitted.anonymous)
        tenant, key_id = journey.admitted.tenant, journey.admitted.key_id
        allowance = self._rate.take(f"{tenant}/{key_id or ''}")
        if not allowance.allowed:
            journey.answered(429, Outcome.REFUSED)
            journey.error = "too_much_feedback"
            return error_response(
                429,
                "This key gives more feedback than one may per minute.",
                code="too_much_feedback",
                retry_after_s=allowance.retry_after_s,
            )
        body = await read_body(request, self._max_json_bytes)
        fields = await read_json(request, body, self._max_json_bytes)
        if fields is None:
            raise RequestError(
                "This content encoding cannot be read here.", status=415, code="invalid_encoding"
            )
        said = read_feedback({k: v for k, v in fields.items() if k not in USER_FIELDS})
        by = self._end_users.behind(journey.admitted, request.headers, fields)
        idempotency_key = request.headers.get("Idempotency-Key")
        apart = self._end_users.keeps_apart(journey.admitted)
        if said.by == "session":
            of_session = intake.give_session(
                tenant, key_id, said, by=by, idempotency_key=idempotency_key, apart=apart
            )
            found = await stored(of_session)
            journey.answered(201 if any(new for _, new in found) else 200)
            return json_response(_shown_session(said.id, [kept for kept, _ in found]), status=journey.status)
        giving = intake.give(
            tenant,
            key_id,
            fields,
            said,
            by=by,
            idempotency_key=idempotency_key,
            named_scope=named_scope(request.headers),
            apart=apart,
        )
        kept, new = await stored(giving)
        journey.answered(201 if new else 200)
        return json_response(_shown(kept), status=journey.status)


def _shown_session(name: str, feedback: Sequence[FeedbackRecord]) -> dict[str, Any]:
    """What is kept of feedback on a conversation: as that on its latest answer, and of which answers it is."""
    shown = _shown(feedback[0])
    del shown["decision_id"]
    return {**shown, "session_id": name, "decision_ids": [each.request_id for each in feedback]}


def _shown(feedback: FeedbackRecord) -> dict[str, Any]:
    return {
        "id": f"fb-{feedback.key}",
        "object": "feedback",
        "created_at": int(feedback.at_s),
        "decision_id": feedback.request_id,
        "score": feedback.score,
        "thumb": feedback.thumb or None,
        "preferred_over": feedback.preferred_over or None,
        "correction": feedback.correction or None,
        "comment": feedback.comment or None,
    }
