"""The review page: verdicts on sampled answers, one by one."""

from __future__ import annotations

import asyncio
import time

from admin.actions import NotDone, OperatorFeedback
from admin.page import Action, ActionFailed, Asked, BadParameter, Done, NotThere, Page
from admin.roles import Role
from admin.sources import Sources
from admin.summaries.request import conversation
from admin.summaries.review import MOST_CORRECTION, review, sampled, version_of
from store.decisions.reviews import VERDICTS, Answered, Review, Shares
from store.records import RequestRecord

_WAIT_S = 30.0


async def judge(sources: Sources, asked: Asked) -> Done:
    """Keeps a verdict, and notes what follows from it. Form fields: `id` of the request, `verdict`, `correction` with
    verdict corrected."""
    verdict = asked.choice("verdict", VERDICTS, "")
    correction = asked.text("correction", longest=MOST_CORRECTION)
    if verdict == "corrected" and not correction:
        raise BadParameter("correction is empty; write what the answer should have been", "correction")
    record, probability = await asyncio.to_thread(_in_sample, sources, asked.text("id", longest=100))
    note = Review(record.tenant, record.id, time.time(), asked.viewer.name, verdict, probability)  # type: ignore[arg-type]
    if not await asyncio.wrap_future(sources.store.outcomes.reviews.note(note)):
        raise ActionFailed("Somebody gave a verdict on this answer meanwhile. Here is the next one.")
    if verdict != "skip":
        try:
            await _give(sources, asked.viewer.name, record, verdict, correction, probability)
        except NotDone as error:
            withdrawn = sources.store.outcomes.reviews.withdraw(record.tenant, record.id, asked.viewer.name)
            await asyncio.wrap_future(withdrawn)
            raise ActionFailed(str(error)) from error
    said = {"good": "Good.", "bad": "Bad.", "corrected": "Corrected.", "skip": "Skipped."}[verdict]
    return Done(
        said, "/review#review", target=record.id, detail={"verdict": verdict, "probability": probability}
    )


async def _give(
    sources: Sources, by: str, record: RequestRecord, verdict: str, correction: str, probability: float
) -> None:
    give = sources.gateway.actions.give_feedback
    if give is None:
        raise NotDone("This gateway takes no feedback: feedback.enabled is off.")
    if verdict == "corrected":
        messages = await asyncio.to_thread(conversation, sources, record)
        said = OperatorFeedback(
            record.tenant, record.id, by, correction=correction, messages=messages, sampled=probability
        )
    else:
        thumb = "up" if verdict == "good" else "down"
        said = OperatorFeedback(record.tenant, record.id, by, thumb=thumb, sampled=probability)
    await give(said)


def ask_again(sources: Sources, asked: Asked) -> Done:
    """Takes a skip of one's own back, so that the answer is asked about again. Form field: `id`."""
    record = _record(sources, asked.text("id", longest=100))
    known = sources.store.outcomes.reviews.of(record.tenant, record.id)
    if known is None or known.verdict != "skip":
        raise ActionFailed("Only what was skipped can be asked about again.")
    if known.user != asked.viewer.name:
        raise ActionFailed(f"{known.user} skipped it: only they can take that back.")
    sources.store.outcomes.reviews.withdraw(record.tenant, record.id, asked.viewer.name).result(_WAIT_S)
    return Done("It is in the queue again.", "/review", target=record.id)


def choose_shares(sources: Sources, asked: Asked) -> Done:
    """Chooses the shares that are sampled from now on. Form fields: `offloaded` and `reference`, in per cent, and
    `version` as the page gave it."""
    given = {name: asked.number(name, None, least=0.0, most=100.0) for name in ("offloaded", "reference")}
    for name, value in given.items():
        if value is None:
            raise BadParameter(f"{name} is empty; a number from 0 to 100 is right", name)
    offloaded, reference = ((value or 0.0) / 100.0 for value in given.values())
    shares = Shares(offloaded, reference, time.time(), asked.viewer.name)
    version = asked.text("version")

    def check(now: Shares) -> None:
        if version not in ("", version_of(now)):
            raise ActionFailed(
                f"{now.user} has chosen other shares meanwhile: {now.offloaded:.1%} and {now.reference:.1%}. Nothing was"
                " changed; send it again to put yours in their place.",
                "offloaded",
            )

    before = sources.store.outcomes.reviews.choose(shares, check=check).result(_WAIT_S)
    return Done(
        "Sampled so from now on; what was asked before keeps its share.",
        "/review",
        detail={
            "from": {"offloaded": before.offloaded, "reference": before.reference},
            "to": {"offloaded": offloaded, "reference": reference},
        },
    )


def _record(sources: Sources, id: str) -> RequestRecord:
    record = sources.store.decisions.requests.get(id)
    if record is None:
        raise NotThere("This request is not in the log, or not any more.")
    return record


def _in_sample(sources: Sources, id: str) -> tuple[RequestRecord, float]:
    """The request, and the probability with which it was sampled. Raises ActionFailed where it was not."""
    record = _record(sources, id)
    answer = Answered(record.tenant, record.id, record.started_at_s, record.model, record.engine)
    fits = record.outcome == "answered" and not record.failed_over
    probability = sampled(sources, answer, sources.store.outcomes.reviews.shares()) if fits else None
    if probability is None:
        raise ActionFailed("This answer is not in the sample: a verdict on it would tilt the figures.")
    return record, probability


REVIEW = Page(
    "/review",
    "Review",
    "review.html",
    review,
    role=Role.VIEWER_CONTENT,
    script="review.js",
    csv="rows",
    actions=(
        Action("/review", judge),
        Action("/review/again", ask_again),
        Action("/review/shares", choose_shares),
    ),
)
