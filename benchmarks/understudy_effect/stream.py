"""The understudy effect in traffic: a bank that grows from empty, a router that learns, and what both come to.

Each policy plays the same stream through a gateway of its own. Answers are judged word for word; of some of them the
gateway is told (POST /v1/feedback), as users would. Then the learnt router answers with nothing left to try, with the prior
scorer that it learnt beside and with one that was trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.understudy_effect.asking import (
    AT_ONCE,
    Answered,
    Question,
    all_answered,
    learnt_in_use,
    publish,
    served_model,
    summary,
    traffic,
    with_feedback,
)
from benchmarks.vllm.serving import Served
from tests.vllm.guide import guided, settings, until

LARGE, SMALL, FSKD, BANDIT = "always large", "always small", "FSKD (theta 0.8, m 3)", "bandit"
SETTLED, SETTLED_TRAINED = "bandit, nothing tried any more", "the same, with the trained scorer"
FEEDBACK_SHARE = 0.5
BIN = 100
"""Requests per point of a curve."""
SETTLED_REQUESTS = 500
_PATIENT = {"scorer_deadline_ms": 10_000}
_NOTHING_TRIED = _PATIENT | {"epsilon": 0, "key_share": 0, "label_share": 0}


def policies() -> dict[str, dict[str, Any]]:
    """A served model's settings per policy; what they do not name is as a user gets it by default."""
    both = {"engines": ["small", "large"], "proof": "off"}
    return {
        LARGE: both | {"policy": "fixed"},
        SMALL: {"engines": ["small"], "policy": "fixed", "remember": False},
        FSKD: both | {"policy": "few_shot"},
        BANDIT: both | {"policy": "in_context", "advanced": _PATIENT},
    }


def played(
    place: Path,
    small: Served,
    large: Served,
    model: dict[str, Any],
    stream: Sequence[Question],
    *,
    feedback_share: float = 0.0,
    learning: bool = True,
) -> list[Answered]:
    """The stream through a gateway on the bank in `place`, which grows as it goes."""
    config = settings(place / "data", small, large)
    config["memory"]["exact"] = {"enabled": False}
    config |= {
        "models": {"guide": model},
        # The scorer is trained by hand, in its own time.
        "learning": {"enabled": learning, "advanced": {"every_s": 2, "train_scorer": False}},
        "feedback": {"advanced": {"per_minute": 100_000}},
        "log": {"requests": False},
    }
    with guided(place, config) as guide:
        guide.key = ""
        way = served_model(guide, "guide")
        if model["policy"] == "in_context":
            if learning:
                guide.gateway.wait_for_log('"event":"learning"', timeout_s=120)
            else:
                until(lambda: learnt_in_use(guide), "what was learnt in use")
        way = with_feedback(guide, way, feedback_share)
        rows, _ = all_answered(stream, way, AT_ONCE // 2)
    return rows


def curves(rows: Sequence[Answered]) -> list[dict[str, Any]]:
    """The summary of each BIN of requests in turn."""
    return [summary(rows[start : start + BIN]) for start in range(0, len(rows), BIN)]


def study(
    folder: Path, small: Served, large: Served, requests: int, seed: int, scorer: bytes
) -> dict[str, Any]:
    """Every policy's figures (the whole stream; its last quarter, after warm-up; the curve), then the learnt router with
    nothing left to try or to learn, with the scorer it learnt beside and with `scorer`."""
    stream = traffic(requests + SETTLED_REQUESTS, seed)
    stream, settled = stream[:requests], stream[requests:]
    last = requests * 3 // 4
    rows: dict[str, list[Answered]] = {}
    for number, (policy, model) in enumerate(policies().items()):
        place = folder / f"stream{number}"
        place.mkdir()
        share = FEEDBACK_SHARE if policy == BANDIT else 0.0
        rows[policy] = played(place, small, large, model, stream, feedback_share=share)
    found: dict[str, Any] = {}
    for policy, own in rows.items():
        reference = rows[LARGE]
        found[policy] = {
            "all": summary(own, reference),
            "after_warm_up": summary(own[last:], reference[last:]),
            "curve": curves(own),
        }
    # `place` is the bandit's from here on: it is the last of the policies.
    still = policies()[BANDIT] | {"advanced": _NOTHING_TRIED}
    found[SETTLED] = {"after_warm_up": summary(played(place, small, large, still, settled, learning=False))}
    publish(place / "data", scorer)
    again = played(place, small, large, still, settled, learning=False)
    found[SETTLED_TRAINED] = {"after_warm_up": summary(again)}
    return {
        "requests": requests,
        "warm_up": last,
        "feedback_share": FEEDBACK_SHARE,
        "settled_requests": SETTLED_REQUESTS,
        "policies": found,
    }
