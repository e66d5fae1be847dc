"""Review: a queue of sampled answers whose engine is hidden, and what the verdicts say of quality and of the judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from admin.formats import tenant_label
from admin.page import Asked, Summary
from admin.roles import Content
from admin.sources import Sources
from learning.evaluation.intervals import Interval, widened
from store.decisions.reviews import Answered, Reviewed, Shares, is_sampled, share_of

_LATELY_S = 14 * 86_400.0
_LOOKED_THROUGH = 2_000
"""Requests of which those that are sampled are asked about."""
_WAITING_COUNTED = 300
_ROWS = 500
QUALITIES = {"good": 1.0, "corrected": 0.25, "bad": 0.0}
"""What a verdict says of an answer; a correction as in learning.outcomes.feedback.BEATEN."""
MOST_CORRECTION = 20_000
"""Characters that a correction may have."""
_AS_GOOD = 0.5
"""From this quality on the judge found an answer as good."""


def version_of(shares: Shares) -> str:
    """What the form of the shares carries along, so that nobody overwrites what another has chosen meanwhile."""
    return f"{shares.from_s}-{shares.user}"


def review(sources: Sources, asked: Asked) -> Summary:
    """The next answer to be reviewed, how many wait, and what the verdicts so far say."""
    shares = sources.store.outcomes.reviews.shares()
    item, waiting = _next(sources, asked.now_s, shares)
    given = sources.store.outcomes.reviews.given()
    known = [each for each in given if each.verdict != "skip"]
    names = sources.tenant_names()
    return {
        "item": item,
        "waiting": waiting,
        "more": waiting >= _WAITING_COUNTED,
        "shares": {
            "offloaded": shares[-1].offloaded,
            "reference": shares[-1].reference,
            "version": version_of(shares[-1]),
        },
        "chosen_by": shares[-1].user,
        "from_s": shares[-1].from_s or None,
        "quality": {
            kind: _quality(
                each
                for each in known
                if each.engine and _is_offloaded(sources, each) == (kind == "offloaded")
            )
            for kind in ("offloaded", "reference")
        },
        "agreement": _agreement([each for each in known if each.judged is not None]),
        "skipped": len(given) - len(known),
        "rows": [_row(each, names) for each in given[:_ROWS]],
    }


def sampled(sources: Sources, answer: Answered, shares: Sequence[Shares]) -> float | None:
    """The probability with which an answer is in the sample; None where it is not."""
    reference = _references(sources).get(answer.model)
    if reference is None:
        return None
    share = share_of(answer, shares, reference)
    return share if is_sampled(sources.store.secret, answer, share) else None


def _references(sources: Sources) -> dict[str, str]:
    return {model.name: model.engines[-1] for model in sources.gateway.models}


def _is_offloaded(sources: Sources, row: Reviewed) -> bool:
    return row.engine != _references(sources).get(row.model, row.engine)


def _next(sources: Sources, now_s: float, shares: Sequence[Shares]) -> tuple[dict[str, Any] | None, int]:
    """The latest sampled answer without a verdict whose texts are kept, and how many such there are."""
    store = sources.store
    answers = store.outcomes.reviews.answered(since_s=now_s - _LATELY_S, limit=_LOOKED_THROUGH)
    drawn = [each for each in answers if sampled(sources, each, shares) is not None]
    known = store.outcomes.reviews.known(drawn)
    left = [each for each in drawn if (each.tenant, each.request_id) not in known][:_WAITING_COUNTED]
    kept = store.decisions.texts.previews([each.request_id for each in left], 1)
    waiting = [each for each in left if each.request_id in kept]
    for answer in waiting[:20]:
        texts = store.decisions.texts.get(answer.tenant, answer.request_id)
        if texts is not None and texts.messages is not None and texts.answer:
            return {
                "id": answer.request_id,
                "at_s": answer.at_s,
                "model": answer.model,
                "messages": [
                    {"role": str(message["role"]), "text": Content(str(message["text"]))}
                    for message in texts.messages
                ],
                "left_out": texts.left_out,
                "cut": texts.cut,
                "answer": Content(texts.answer),
                "answer_left_out": texts.details.answer_left_out,
                "to_correct": Content(texts.answer if len(texts.answer) <= MOST_CORRECTION else ""),
            }, len(waiting)
    return None, 0


def _quality(rows: Iterable[Reviewed]) -> dict[str, Any] | None:
    """Mean quality, each verdict weighed by the inverse of its probability, with a 95 % interval; None without any."""
    known = [(QUALITIES[row.verdict], 1.0 / row.probability) for row in rows]
    if not known:
        return None
    whole = sum(weight for _, weight in known)
    mean = sum(quality * weight for quality, weight in known) / whole
    samples = whole**2 / sum(weight**2 for _, weight in known)
    low, high = widened(Interval(mean, mean), mean, samples, (0.0, 1.0))
    return {"mean": mean, "low": low, "high": high, "count": len(known)}


def _agreement(rows: Sequence[Reviewed]) -> dict[str, Any] | None:
    """How often reviewers and the judge say the same; kappa is Cohen's (1960): what of it is not chance."""
    if not rows:
        return None
    pairs = [(row.verdict == "good", (row.judged or 0.0) >= _AS_GOOD) for row in rows]
    count = len(pairs)
    table = {
        "both_good": sum(a and b for a, b in pairs),
        "only_reviewer_good": sum(a and not b for a, b in pairs),
        "only_judge_good": sum(b and not a for a, b in pairs),
        "both_bad": sum(not a and not b for a, b in pairs),
    }
    same = (table["both_good"] + table["both_bad"]) / count
    by_reviewer, by_judge = (sum(each) / count for each in zip(*pairs, strict=True))
    chance = by_reviewer * by_judge + (1 - by_reviewer) * (1 - by_judge)
    low, high = widened(Interval(same, same), same, float(count), (0.0, 1.0))
    return {
        **table,
        "count": count,
        "share": same,
        "low": low,
        "high": high,
        "kappa": (same - chance) / (1 - chance) if chance < 1 else None,
    }


def _row(row: Reviewed, names: dict[str, str]) -> dict[str, Any]:
    return {
        "at_s": row.at_s,
        "by": row.user,
        "verdict": row.verdict,
        "request": row.request_id,
        "tenant": tenant_label(names, row.tenant),
        "model": row.model,
        "engine": row.engine,
        "probability": row.probability,
        "judged": row.judged,
    }
