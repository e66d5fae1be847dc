"""The rule that decided about a request, with the numbers it compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store.records import (
    PROOF_COMPARED,
    PROOF_LEAST,
    PROOF_LOWER,
    PROOF_UPPER,
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
    if "theta" in choice.settings and reason in ("familiar", "novel", "no_example_fits", "no_example_helps"):
        return _by_novelty(choice)
    if (
        choice.settings.get("picked", -1.0) >= 0
        and reason == "explored"
        and not choice.settings.get("by_proof")
    ):
        told = _by_novelty(choice)
        return told | {"sentence": f"{told['sentence']}; drawn with propensity {choice.probability:.3f}"}
    if PROOF_LEAST in noted and reason in ("proven", "shadow"):
        return _by_proof(noted)
    if choice.actions and reason in ("learned", "explored", "quality_floor"):
        return _by_reward(choice, reason)
    return None


def why_not_near(choice: ChoiceRecord, candidate: Mapping[str, Any]) -> str:
    """Why a candidate did not count as near, where the rule decided: a code of admin.words.LEFT_OUT; empty if it did."""
    if (
        "theta" not in choice.settings
        or choice.settings.get("picked", 0) < 0
        or choice.settings.get("by_proof")
    ):
        return ""
    theta = choice.settings["theta"]
    if candidate["similarity"] < theta:
        return "below_theta"
    return "other_names" if named_otherwise(candidate, theta) else ""


def named_otherwise(candidate: Mapping[str, Any], theta: float) -> bool:
    """Whether a candidate is similar enough and did not count, because it names other things than the request."""
    return candidate["similarity"] >= theta and not candidate.get("counts")


def _by_novelty(choice: ChoiceRecord) -> dict[str, Any]:
    """Few-shot distillation by novelty: enough past answers that are similar enough."""
    theta, m = choice.settings["theta"], int(choice.settings["m"])
    best = max((row["similarity"] for row in choice.candidates), default=0.0)
    near = sum(row.get("counts", 0) for row in choice.candidates)
    other_names = sum(named_otherwise(row, theta) for row in choice.candidates)
    compared = f"{best:.3f} {'≥' if best >= theta else '<'} least similarity {theta:g}"
    if not choice.candidates:
        compared = f"no past request to compare with, least similarity {theta:g}"
    elif other_names:
        they = "it names" if other_names == 1 else "they name"
        compared += f", {other_names} left out because {they} other things"
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
    preference = choice.settings.get("preference")
    if preference is not None:
        sentence += f" at preference {preference:.2f}"
    if choice.scorer:
        sentence += (
            f"; expected quality {choice.quality_alone:.3f} direct, {choice.quality_with:.3f} few-shot"
        )
    if reason == "explored":
        sentence += f"; drawn with propensity {choice.probability:.3f}"
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
