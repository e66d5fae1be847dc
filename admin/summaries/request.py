"""One request: its stages, what was weighed, what was sent and answered, and its feedback and judgements."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from admin.page import Asked, NotThere, Summary
from admin.roles import Content
from admin.sources import Sources
from admin.summaries.decision_rule import rule, why_not_near
from admin.summaries.request_content import details
from admin.summaries.requests import beside, shown
from admin.time_bars import bar, ticks
from admin.words import LEFT_OUT, NO_TEXT, SOURCES, STAGES
from store.decisions.outcomes import FeedbackRecord
from store.decisions.texts import RequestTexts, digest_of
from store.records import ChoiceRecord, Example, OutcomeRecord, RequestRecord

_PREVIEW_CHARACTERS = 200
MOST_CORRECTION = 20_000
"""Characters of a corrected answer."""


def request(sources: Sources, asked: Asked) -> Summary:
    """The request that the path names. Raises NotThere."""
    store = sources.store
    record = store.decisions.requests.get(asked.path["id"])
    if record is None:
        raise NotThere("This request is not in the log, or not any more.")
    choice = store.decisions.choices.get(record.tenant, record.id)
    texts = store.decisions.texts.get(record.tenant, record.id)
    wanted = dict.fromkeys(
        [*(int(c["id"]) for c in choice.candidates)] if choice is not None else record.example_ids
    )
    wanted |= dict.fromkeys(record.example_ids)
    # An answer from the cache was sent with examples by the request that it repeats.
    wanted |= dict.fromkeys(sent.id for sent in (texts.sent if texts is not None else ()))
    examples = {example.id: example for example in _examples(sources, record.tenant, list(wanted))}
    made = store.examples.by_request(record.tenant, record.id)
    detailed = details(sources, record, examples)
    feedback = store.outcomes.feedback.of(record.tenant, record.id)
    return {
        **_facts(record, sources),
        "rule": rule(choice, record.reason),
        "stages": _stages(record, detailed["attempts"]),
        "choice": None if choice is None else _choice(choice),
        "candidates": [] if choice is None else _candidates(choice, examples),
        "texts": None if texts is None else _texts(texts, examples, record.id),
        **detailed,
        "no_text": NO_TEXT.get(record.no_text, record.no_text) if texts is None else None,
        "feedback": [
            {
                "at_s": given.at_s,
                "score": given.score,
                "thumb": given.thumb,
                "preferred_over": given.preferred_over,
                "correction": given.correction,
                "author": given.author,
                "corrected_to": _correction(sources, given),
                "comment": Content(given.comment) if given.comment else None,
            }
            for given in feedback
        ],
        "corrections": corrections(feedback),
        "outcomes": [_outcome(outcome) for outcome in store.outcomes.of(record.tenant, record.id)],
        "example": None if made is None else made.id,
        # An operator who asks again probably wants another engine, so the one that answered comes last.
        "engines": sorted((e.name for e in sources.gateway.engines), key=lambda name: name == record.engine),
        "most_correction": MOST_CORRECTION,
        "can": _can(sources, record, texts),
        "beside": beside(sources, asked, record.id),
    }


def corrections(feedback: Sequence[FeedbackRecord]) -> int:
    """How often a request's answer was corrected."""
    return sum(bool(given.correction) for given in feedback)


def _correction(sources: Sources, given: FeedbackRecord) -> dict[str, Any] | None:
    """What a feedback's correction says now, and the example that it is; None for none, or where that is deleted."""
    if not given.correction:
        return None
    example = sources.store.examples.by_request(given.tenant, given.correction)
    return None if example is None else {"example": example.id, "text": Content(example.answer)}


def _can(sources: Sources, record: RequestRecord, texts: RequestTexts | None) -> dict[str, bool]:
    """Which actions are possible."""
    actions = sources.gateway.actions
    judge = actions.give_feedback is not None and record.outcome in ("answered", "aborted", "hit")
    whole = texts is not None and texts.whole
    return {"give": judge, "correct": judge, "ask": actions.ask is not None and whole}


def _facts(record: RequestRecord, sources: Sources) -> dict[str, Any]:
    return shown(record, sources.tenant_names()) | {
        "endpoint": record.endpoint,
        "policy": record.policy,
        "policy_version": record.policy_version,
        "propensity": record.probability,
        "usage_estimated": record.usage_estimated,
        "overhead_ms": record.overhead_ms,
        "failed_over": record.failed_over,
        "answered_by": _answered_by(record),
    }


def _answered_by(record: RequestRecord) -> str:
    """The engine that answered, "cache", or empty where nobody did: an engine that failed answered nothing."""
    if record.outcome == "hit":
        return "cache"
    return record.engine if record.outcome in ("answered", "aborted") else ""


def _stages(record: RequestRecord, attempts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Milliseconds by stage, one after another: our own, engines that failed, and the one that answered.

    Only lengths are kept: where the rest of our own lies among the stages is not known.
    """
    rows: list[dict[str, Any]] = []
    at_ms, span_ms = 0.0, max(record.total_ms, record.overhead_ms)

    def add(name: str, says: str, ms: float, phase: str) -> None:
        nonlocal at_ms
        drawn = bar(phase, at_ms, ms, span_ms)
        rows.append({"name": name, "says": says, "ms": round(ms, 3), "bar": drawn})
        at_ms += ms

    told: dict[str, float] = json.loads(record.stages_ms)
    for name, ms in told.items():
        add(name, STAGES.get(name, name), ms, "own")
    if (own := record.overhead_ms - sum(told.values())) > 0:
        add("rest", "everything else of the gateway", own, "own")
    if record.outcome != "hit":
        for one in attempts:
            if one["kind"]:
                add("attempt", f"{one['engine']}: {one['meaning'] or one['kind']}", one["ms"], "failed")
        first = record.first_chunk_ms
        if first is None:
            add("engine", "the engine answers", max(0.0, record.total_ms - at_ms), "decode")
        else:
            add("ttft", "wait for the engine's first token", max(0.0, first - at_ms), "prefill")
            add("stream", "the answer flows", max(0.0, record.total_ms - first), "decode")
    return {"rows": rows, "ticks": ticks(span_ms / 1000)}


def _choice(choice: ChoiceRecord) -> dict[str, Any]:
    actions = [
        {
            "engine": action["engine"],
            "few_shot": action["with_examples"],
            "propensity": action["probability"],
            "propensity_without_load": action["probability_without_load"],
            "quality": action["quality"],
            "cost_usd": action["cost_usd"],
            "latency_s": action["latency_s"],
            "reward": action["reward"],
            "chosen": place == choice.chosen,
            "chosen_without_load": place == choice.chosen_without_load,
        }
        for place, action in enumerate(choice.actions)
    ]
    return {
        "actions": actions,
        "drawn": 0 <= choice.chosen < len(actions),
        "by_rule": choice.settings.get("picked", -1.0) >= 0 and not choice.settings.get("by_proof"),
        "load_changed_it": choice.chosen >= 0 and choice.chosen != choice.chosen_without_load,
        "explored": choice.explored,
        "floored": choice.floored,
        "scorer": choice.scorer,
        "quality_direct": choice.quality_alone if choice.scorer else None,
        "quality_few_shot": choice.quality_with if choice.scorer else None,
        "most_examples": choice.most_examples,
        "examples_explored": choice.examples_explored,
        "examples_probability": choice.examples_probability,
        "context": dict(choice.context),
    }


def _candidates(choice: ChoiceRecord, examples: Mapping[int, Example]) -> list[dict[str, Any]]:
    any_sent = any(candidate["sent"] for candidate in choice.candidates)
    rows = []
    for candidate in choice.candidates:
        example = examples.get(int(candidate["id"]))
        code = candidate.get("left_out", "") or why_not_near(choice, candidate)
        if candidate["sent"]:
            why = "sent"
        elif code:
            why = LEFT_OUT.get(code, code)
        elif any_sent or not choice.scorer:
            why = "not chosen"
        else:
            why = "chosen, but this engine was asked without examples"
        rows.append(
            {
                "id": int(candidate["id"]),
                "similarity": candidate["similarity"],
                "gain": candidate["gain"],
                "sent": candidate["sent"],
                "left_out": code,
                "why": why,
                "there": example is not None,
                "question": Content(example.question[:_PREVIEW_CHARACTERS]) if example is not None else None,
            }
        )
    return rows


def _texts(texts: RequestTexts, examples: Mapping[int, Example], id: str) -> dict[str, Any]:
    messages = list(texts.messages or ())
    return {
        "of_another": texts.request_id if texts.request_id != id else None,
        "left_out": texts.left_out,
        "cut": texts.cut,
        "replaced": sorted(set(texts.replaced)),
        "finish_reason": texts.finish_reason,
        "answer": Content(texts.answer),
        "messages": [Content(dict(message)) for message in messages],
        "sent": _sent(texts, messages, examples),
    }


def _sent(
    texts: RequestTexts, messages: Sequence[Mapping[str, Any]], examples: Mapping[int, Example]
) -> list[dict[str, Any]]:
    """The conversation as it was sent to the engine, message by message; `added`: not sent by the client."""
    rows: list[dict[str, Any]] = [
        {"role": message["role"], "text": Content(message["text"]), "also": message.get("also", [])}
        | {"added": False, "example": None, "note": ""}
        for message in messages
    ]
    if texts.sent_at is None:
        return rows
    added: list[dict[str, Any]] = []
    for sent in texts.sent:
        example = examples.get(sent.id)
        note = ""
        if example is None:
            note = "This example is not in the bank any more, and its text went with it."
        elif digest_of(example.question, example.answer) != sent.digest:
            note = "This example was changed since: this is what it says now."
        for role, text in (
            ("user", example.question if example else None),
            ("assistant", example.answer if example else None),
        ):
            added.append(
                {
                    "role": role,
                    "text": None if text is None else Content(text),
                    "also": [],
                    "added": True,
                    "example": sent.id,
                    "note": note,
                }
            )
    return rows[: texts.sent_at] + added + rows[texts.sent_at :]


def _outcome(outcome: OutcomeRecord) -> dict[str, Any]:
    return {
        "at_s": outcome.at_s,
        "source": outcome.source,
        "who": SOURCES[outcome.source],
        "engine": outcome.engine,
        "examples": len(outcome.example_ids),
        "served": outcome.served,
        "quality": outcome.quality,
        "probability": outcome.probability,
        "cost_usd": outcome.cost_usd,
        "latency_s": outcome.latency_s,
        "detail": json.loads(outcome.detail),
    }


def _examples(sources: Sources, tenant: str, ids: Sequence[int]) -> list[Example]:
    """The examples with these ids, also those lent by another tenant: an operator may see them."""
    found = sources.store.examples.by_ids(tenant, ids, serving=False)
    missing = set(ids) - {example.id for example in found}
    if missing:
        for lender in sources.gateway.actions.lenders.get(tenant, ()):
            found += sources.store.examples.by_ids(lender, sorted(missing), serving=False)
    return found


def conversation(
    sources: Sources, record: RequestRecord, *, with_examples: bool = False
) -> list[dict[str, Any]] | None:
    """The request's messages for an engine, optionally with the examples as they are now; None if not stored in full."""
    texts = sources.store.decisions.texts.get(record.tenant, record.id)
    if texts is None or texts.messages is None or not texts.whole:
        return None
    messages = [{"role": message["role"], "content": message["text"]} for message in texts.messages]
    if not with_examples or texts.sent_at is None:
        return messages
    examples = {e.id: e for e in _examples(sources, record.tenant, [sent.id for sent in texts.sent])}
    added: list[dict[str, Any]] = []
    for sent in texts.sent:
        if sent.id in examples:
            added.append({"role": "user", "content": examples[sent.id].question})
            added.append({"role": "assistant", "content": examples[sent.id].answer})
    return messages[: texts.sent_at] + added + messages[texts.sent_at :]
