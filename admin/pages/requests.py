"""Requests pages: the log, one request in full, and the actions on its answer."""

from __future__ import annotations

import asyncio
import time

from admin.actions import NotDone, OperatorFeedback, Reply
from admin.operations.views import delete_view, save_view
from admin.page import Action, ActionFailed, Asked, BadParameter, Done, NotThere, Page
from admin.roles import Content
from admin.sources import Sources
from admin.summaries.cache import deleted
from admin.summaries.request import MOST_CORRECTION, conversation, corrections, request
from admin.summaries.requests import requests
from store.answers.exact_listing import Purge
from store.jobs.operator_asks import OperatorAsk
from store.records import RequestRecord


async def feedback(sources: Sources, asked: Asked) -> Done:
    """Stores the operator's feedback. Form fields: `thumb`, or `score` from 0 to 1; `comment`."""
    record = await asyncio.to_thread(_record, sources, asked)
    thumb = asked.choice("thumb", ("", "up", "down"), "")
    score = asked.number("score", None, least=0.0, most=1.0)
    comment = asked.text("comment", longest=4000)
    if not thumb and score is None and not comment:
        raise BadParameter("say whether it was good: a thumb, a score or a comment", "thumb")
    given_again = await asyncio.to_thread(_given_again, sources, record)
    await _give(
        sources,
        OperatorFeedback(
            record.tenant, record.id, asked.viewer.name, score=score, thumb=thumb, comment=comment
        ),
    )
    gone = given_again - await asyncio.to_thread(_given_again, sources, record)
    detail = {"thumb": thumb} if thumb else {"score": score} if score is not None else {}
    return Done(f"Feedback kept.{deleted(gone)}", f"/requests/{record.id}", target=record.id, detail=detail)


async def correct(sources: Sources, asked: Asked) -> Done:
    """Stores a correction, which becomes a demonstration with the request's messages.

    Form fields: `correction`, and `version`: how many corrections there were when the page was read.
    """
    record = await asyncio.to_thread(_record, sources, asked)
    text = asked.text("correction", longest=MOST_CORRECTION)
    if not text:
        raise BadParameter("correction is empty; write what the answer should have been", "correction")
    given = await asyncio.to_thread(sources.store.outcomes.feedback.of, record.tenant, record.id)
    if asked.text("version") not in ("", str(corrections(given))):
        raise ActionFailed(
            "This answer was corrected meanwhile: what holds now is below, under feedback. Saving again replaces that.",
            "correction",
        )
    messages = await asyncio.to_thread(conversation, sources, record)
    made = await _give(
        sources,
        OperatorFeedback(record.tenant, record.id, asked.viewer.name, correction=text, messages=messages),
    )
    return Done(
        await asyncio.to_thread(_corrected, sources, record),
        f"/requests/{record.id}",
        target=record.id,
        detail={"example_of": made},
    )


def _given_again(sources: Sources, record: RequestRecord) -> int:
    """How many stored answers would be given again of what this request was answered."""
    found = sources.store.answers.listing.count(Purge(request_id=record.id))
    return found.exact + found.similar


def _corrected(sources: Sources, record: RequestRecord) -> str:
    """What holds now, as the store tells."""
    key = record.exact_key
    if key is not None and sources.store.answers.listing.is_corrected(key):
        return "Corrected. The same request is answered with this from now on; similar ones may be shown it as an example."
    return "Corrected. The wrong answer is no longer given from the cache; requests may be shown this one as an example."


async def ask(sources: Sources, asked: Asked) -> Done:
    """Asks an engine the request again. Form fields: `engine`, and `same_examples` to send the same examples."""
    actions = sources.gateway.actions
    record = await asyncio.to_thread(_record, sources, asked)
    engine = asked.text("engine", longest=200)
    with_examples = asked.choice("same_examples", ("", "yes"), "") == "yes"
    messages = await asyncio.to_thread(conversation, sources, record, with_examples=with_examples)
    if actions.ask is None or messages is None:
        raise ActionFailed("What was asked is not kept in full, so that it cannot be asked again.")
    at_s = time.time()

    def noted(cost_usd: float, reply: Reply | None) -> None:
        row = OperatorAsk(
            at_s,
            asked.viewer.name,
            record.tenant,
            record.id,
            engine,
            with_examples,
            cost_usd,
            reply.prompt_tokens if reply else 0,
            reply.completion_tokens if reply else 0,
            reply.latency_s if reply else 0.0,
        )
        sources.store.jobs.operator_asks.note(row).result(30)

    try:
        reply = await actions.ask(engine, messages, record.model)
    except NotDone as error:
        if error.cost_usd:
            await asyncio.to_thread(noted, error.cost_usd, None)
        raise ActionFailed(str(error)) from error
    await asyncio.to_thread(noted, reply.cost_usd, reply)
    texts = await asyncio.to_thread(sources.store.decisions.texts.get, record.tenant, record.id)
    return Done(
        f"{engine} answered.",
        target=record.id,
        detail={"engine": engine, "cost_usd": reply.cost_usd, "same_examples": with_examples},
        again=True,
        shown={
            "id": record.id,
            "served_by": record.engine,
            "answer": Content(texts.answer if texts is not None else ""),
            "engine": reply.engine,
            "same_examples": with_examples,
            "text": Content(reply.text),
            "finish_reason": reply.finish_reason,
            "cost_usd": reply.cost_usd,
            "latency_s": reply.latency_s,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
        },
    )


async def _give(sources: Sources, feedback: OperatorFeedback) -> str:
    give = sources.gateway.actions.give_feedback
    if give is None:
        raise ActionFailed("This gateway takes no feedback: feedback.enabled is off.")
    try:
        return await give(feedback)
    except NotDone as error:
        raise ActionFailed(str(error)) from error


def _record(sources: Sources, asked: Asked) -> RequestRecord:
    record = sources.store.decisions.requests.get(asked.path["id"])
    if record is None:
        raise NotThere("This request is not in the log, or not any more.")
    return record


REQUESTS = Page(
    "/requests",
    "Requests",
    "requests.html",
    requests,
    script="live_list.js",
    csv="rows",
    actions=(
        save_view.form("/requests/views/save"),
        delete_view.form("/requests/views/delete"),
    ),
)
REQUEST = Page(
    "/requests/{id}",
    "Request",
    "request.html",
    request,
    section="/requests",
    in_menu=False,
    actions=(
        Action("/requests/{id}/feedback", feedback),
        Action("/requests/{id}/correct", correct),
        Action("/requests/{id}/ask", ask, template="request_asked.html"),
    ),
)
