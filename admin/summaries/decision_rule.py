"""The rule that decided about a request, with the numbers it compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.choosing.reward import preference_of
from store.records import (
    PROOF_COMPARED,
    PROOF_LEAST,
    PROOF_LOWER,
    PROOF_UPPER,
    RULE_BEST,
    RULE_M,
    RULE_NEAR,
    RULE_THETA,
    ChoiceRecord,
)


def rule(choice: ChoiceRecord | None, reason: str) -> dict[str, Any] | None:
    """What was compared with what, as a sentence and as numbers; None where nothing was compared, or it is not kept.

    `reason`: the request's, as the log has it.
    """
    if choice is None:
        return None
    reason = reason.removesuffix("+failover")
    noted = choice.noted
    if RULE_THETA in noted and reason in ("familiar", "novel", "no_example_fits", "no_example_helps"):
        return _by_novelty(choice)
    if PROOF_LEAST in noted and reason in ("proven", "shadow"):
        return _by_proof(noted)
    if choice.actions and reason in ("learned", "explored", "quality_floor"):
        return _by_reward(choice, reason)
    return None


def theta_of(choice: ChoiceRecord) -> float | None:
    """The similarity that the rule asked for; None where no rule decided."""
    return choice.noted.get(RULE_THETA)


def _by_novelty(choice: ChoiceRecord) -> dict[str, Any]:
    """Few-shot distillation by novelty: enough past answers that are similar enough."""
    theta, m = choice.noted[RULE_THETA], int(choice.noted[RULE_M])
    best, near = choice.noted[RULE_BEST], int(choice.noted[RULE_NEAR])
    other_names = sum(row.get("left_out") == "other_names" for row in choice.candidates)
    compared = f"{best:.3f} {'≥' if best >= theta else '<'} theta {theta:g}"
    if not choice.candidates:
        compared = f"nothing to compare with theta {theta:g}"
    elif other_names:
        compared += (
            f", {other_names} left out because {'it names' if other_names == 1 else 'they name'} other things"
        )
    found = f"{near} of {m} needed" if near <= m else f"{near} found, {m} needed"
    return {
        "by": "few_shot",
        "sentence": f"{compared}; {found}",
        "theta": theta,
        "m": m,
        "best_similarity": best,
        "similar_examples": near,
        "other_names": other_names,
    }


def _by_proof(noted: Mapping[str, float]) -> dict[str, Any]:
    """A small engine answers where comparisons have shown it to be good enough."""
    lower, least, compared = noted[PROOF_LOWER], noted[PROOF_LEAST], int(noted[PROOF_COMPARED])
    sign = "≥" if lower >= least else "<"
    return {
        "by": "proof",
        "sentence": f"lower bound of the quality {lower:.3f} {sign} {least:g}; {compared} comparisons",
        "lower": lower,
        "upper": noted[PROOF_UPPER],
        "least": least,
        "compared": compared,
    }


def _by_reward(choice: ChoiceRecord, reason: str) -> dict[str, Any] | None:
    """The learnt router: the largest expected reward, unless it explores or is throttled. None where another stood in."""
    others = [row for place, row in enumerate(choice.actions) if place != choice.chosen]
    if not 0 <= choice.chosen < len(choice.actions) or not others:
        return None
    taken = choice.actions[choice.chosen]
    if taken["reward"] is None:
        return None
    best = max(others, key=lambda row: row["reward"])
    sign = "≥" if taken["reward"] >= best["reward"] else "<"
    sentence = f"expected reward {taken['reward']:.3f} ({_named(taken)}) {sign} {best['reward']:.3f} ({_named(best)})"
    preference = None
    if "weight_quality" in choice.context:
        preference = preference_of(choice.context["weight_quality"])
        sentence += f" at preference {preference:.2f}"
    if choice.scorer:
        sentence += (
            f"; expected quality {choice.quality_alone:.3f} direct, {choice.quality_with:.3f} few-shot"
        )
    if reason == "explored":
        sentence += f"; drawn with probability {choice.probability:.3f}"
    return {
        "by": "reward",
        "sentence": sentence,
        "reward": taken["reward"],
        "other_reward": best["reward"],
        "preference": preference,
        "quality_direct": choice.quality_alone if choice.scorer else None,
        "quality_few_shot": choice.quality_with if choice.scorer else None,
    }


def _named(action: Mapping[str, Any]) -> str:
    return f"{action['engine']}{', few-shot' if action['with_examples'] else ''}"
