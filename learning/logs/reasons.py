"""Why a request was not answered by a smaller engine: the codes of the request log in words, and what would change it."""

from __future__ import annotations

from dataclasses import dataclass

from router.plan import LATE, NO_EMBEDDING, POLICY_FAILED, PROOF_TOO_DEAR, SHADOW


@dataclass(frozen=True, slots=True)
class Reason:
    """A code in words."""

    says: str
    """Why, in a few words."""
    takes: str
    """The change that it would take."""


SCOPE_CHANGES = "scope_changes"
"""The instructions differ from request to request, so that no request has others like it."""
NOT_GOOD_ENOUGH = "not_good_enough"
"""The smaller engine's answers were compared, and are surely worse than allowed."""
IN_DOUBT = "in_doubt"
"""The smaller engine might answer, but lately seemed worse: its region says by which evidence, and since when."""
NO_JUDGE = "no_judge"
"""No answer could be compared, and a judge failed its exam."""
SMALL_FAILED = "small_failed"
"""The smaller engine was asked and failed; the reference stood in."""

REASONS: dict[str, Reason] = {
    SCOPE_CHANGES: Reason(
        "the system prompt (or the response format) is another in nearly every request",
        "move what changes from the system prompt into the user's turn, or name the task with x-understudy-scope",
    ),
    SHADOW: Reason(
        "the smaller engine is still being compared in the background",
        "more comparisons; they come with traffic",
    ),
    NOT_GOOD_ENOUGH: Reason(
        "the smaller engine's answers are worse than max_loss allows",
        "a better small engine, better examples, or a larger models.NAME.max_loss",
    ),
    IN_DOUBT: Reason(
        "the smaller engine is in doubt: it lately seemed worse, and every request is compared until it is known",
        "good comparisons; they come with traffic",
    ),
    NO_JUDGE: Reason(
        "the smaller engine's answers cannot be compared: they are worded in many ways, and the judge was refused, as it "
        "could not tell known pairs of answers apart",
        "an engine that can judge (judging.engine; `understudy check --live` examines it), or feedback",
    ),
    PROOF_TOO_DEAR: Reason(
        "comparing would cost more than offloading these short answers can save",
        "cheaper comparisons, or a larger difference between the engines' prices",
    ),
    SMALL_FAILED: Reason(
        "the smaller engine failed, and the reference stood in",
        "the smaller engine's health: `understudy` logs why",
    ),
    "novel": Reason(
        "too few requests like it were answered before",
        "more traffic of this kind, `understudy import`, or a lower few_shot.theta or few_shot.m",
    ),
    "tools": Reason(
        "it carries tools, which go to the reference (those that an engine runs itself always do)",
        "models.NAME.advanced.with_tools: route",
    ),
    "tool_loop": Reason(
        "it is a later step of a tool loop, which is not explored", "nothing; the first steps are routed"
    ),
    "follow_up": Reason(
        "it has turns before its question, on which the answer depends",
        "memory.examples.follow_ups: standalone, for questions that stand for themselves",
    ),
    "not_plain_text": Reason(
        "it holds images, audio, files or tool results", "nothing: only text is compared with other requests"
    ),
    "no_question": Reason("it has no user turn with text in it", "nothing: there is nothing to compare"),
    "anonymous": Reason(
        "it came without a credential, and nobody's requests are remembered",
        "a key per client (`understudy keys create`), or memory.anonymous: true",
    ),
    NO_EMBEDDING: Reason(
        "its embedding was late or failed",
        "more processor time, or a larger memory.advanced.embedding_deadline_ms",
    ),
    LATE: Reason(
        "the decision was late",
        "more processor time, or a larger memory.advanced.retrieve_deadline_ms",
    ),
    "no_neighbours_known": Reason(
        "the search for earlier requests failed", "`bypassed` in the request log names the error"
    ),
    "undecided": Reason("the decision failed", "`bypassed` in the request log says which stage"),
    POLICY_FAILED: Reason("the policy failed", "the log has the error"),
    "no_example_fits": Reason(
        "no earlier answer fits into the prompt",
        "a larger models.NAME.advanced.max_example_tokens, or an engine with more context",
    ),
    "no_example_helps": Reason("no earlier answer is expected to help", "outcomes: feedback or judging"),
    "quality_floor": Reason("the quality floor holds it back", "more outcomes, or a larger max_loss"),
    "learned": Reason(
        "the router expects more of the reference at this preference",
        "a lower models.NAME.in_context.preference, or more outcomes",
    ),
    "explored": Reason("the reference was tried in order to learn", "nothing"),
    "forced": Reason("the client named the engine (x-understudy-engine)", "nothing"),
    "not_listed": Reason(
        "its model is not listed in `models`", "list the model, with a smaller engine before it"
    ),
    "fixed": Reason("the model's policy is `fixed`", "models.NAME.policy: few_shot or in_context"),
    "not_asked": Reason("the smaller engine may do, but was not asked", "--budget-usd, or a larger one"),
}


def told(code: str) -> Reason:
    """A code in words; a code that nobody here knows stands for itself."""
    return REASONS.get(code.partition("+")[0]) or Reason(code.replace("_", " ") or "no reason is logged", "")
