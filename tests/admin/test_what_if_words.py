"""The one sentence: what is known with its interval, and what is not."""

from __future__ import annotations

from typing import Any

from admin.settings_effect import FEWEST, NothingToTell, of_rule
from admin.summaries.what_if_words import sentence
from admin.what_if import Settings

NOW = {"preference": 0.5, "theta": 0.8}
CHOSEN = {"preference": 0.7, "theta": 0.8, "m": 3, "max_examples": 8}


def told(value: float, low: float, high: float) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high}


def effect(**changes: Any) -> dict[str, Any]:
    now = {
        "offloaded": told(0.41, 0.39, 0.43),
        "quality": told(0.989, 0.98, 0.996),
        "cost_usd": told(0.00028, 0.0002, 0.0003),
    }
    then = {
        "offloaded": told(0.15, 0.13, 0.17),
        "quality": told(0.991, 0.982, 0.998),
        "cost_usd": told(0.00039, 0.00037, 0.00041),
    }
    return {"now": now, "then": then, "never_offloaded": 0.0, "not_known": 0.0, **changes}


def test_the_sentence_of_the_issue() -> None:
    assert sentence(effect(), CHOSEN, NOW) == (
        "preference 0.70 instead of 0.50: 41 → 15 % offloaded (13 to 17), quality 98.9 → 99.1 % (98.2 to 99.8),"
        " $0.28 → $0.39 per 1,000 requests (0.37 to 0.41)."
    )


def test_what_is_not_known_is_said_with_the_reason() -> None:
    then = {**effect()["then"], "quality": None, "cost_usd": None}
    said = sentence(effect(then=then, never_offloaded=0.2), CHOSEN, NOW)
    assert "quality 98.9 % → not known (20 % of requests were never offloaded)" in said
    assert "$0.28 per 1,000 requests → not known." in said


def test_without_a_change_it_tells_of_the_settings_in_force() -> None:
    assert sentence(effect(), {**CHOSEN, "preference": 0.5}, NOW).startswith(
        "As it is set now: 15 % offloaded (13 to 17)"
    )


CAPPED = {
    "most": 2,
    "shortened": 0.4,
    "quality": told(0.97, 0.96, 0.98),
    "cost_usd": told(0.0002, 0.0001, 0.0003),
}
DONE = {"policy": "logged", "quality": told(0.989, 0.98, 0.996), "cost_usd": told(0.00028, 0.0002, 0.0003)}
FEWER = (
    "most examples 2 instead of 8, with engines chosen as they were: quality 98.9 → 97.0 % (96.0 to 98.0),"
    " $0.28 → $0.20 per 1,000 requests (0.10 to 0.30)."
)


def test_another_number_of_examples_is_told_by_itself_or_beside_the_rest() -> None:
    now, fewer = {**NOW, "max_examples": 8}, {**CHOSEN, "max_examples": 2}
    known = {"caps": [CAPPED], "points": [DONE]}
    assert sentence(effect(), {**fewer, "preference": 0.5}, now, **known) == FEWER
    assert sentence(effect(), fewer, now, **known) == f"{sentence(effect(), CHOSEN, now)} {FEWER}"


def test_a_number_of_examples_that_was_never_drawn_is_not_known() -> None:
    now, unchanged = {**NOW, "max_examples": 8}, {**CHOSEN, "preference": 0.5}
    fewer, more = unchanged | {"max_examples": 2}, unchanged | {"max_examples": 12}
    assert sentence(effect(), fewer, now, points=[DONE]) == "most examples 2 instead of 8: not known."
    never = CAPPED | {"most": 12, "shortened": 0.0}
    said = sentence(effect(), more, now, caps=[never], points=[DONE])
    assert said == "most examples 12 instead of 8: not known.", "nobody was sent so many"
    unjudged = CAPPED | {"quality": told(0.5, 0.5, 0.5) | {"value": None}}
    assert "quality 98.9 % → not known, $0.28" in sentence(
        effect(), fewer, now, caps=[unjudged], points=[DONE]
    )


def test_a_rule_with_too_few_requests_says_how_many_are_needed() -> None:
    try:
        of_rule([], Settings(), Settings())
    except NothingToTell as error:
        assert f"at least {FEWEST} are needed" in str(error)
    else:
        raise AssertionError("nothing can be told of an empty log")
