"""The meaning of the log's codes, in a sentence each: reasons of decisions, and why examples were left out."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "student": "Its task's student answers: it is as sure as was proven to be enough, or as its budget asks.",
    "student_check": "The student would have answered; the teacher does, so that the two can be compared.",
    "student_failed": "Its task's student had no answer after all: who would have been asked without it answers.",
    "agreed": "The small engines of its cascade gave the same answer, which is proven to be enough.",
    "disagreed": "The small engines of its cascade did not agree: the reference answers.",
    "repaired": "The small engine called tools as they are not to be called: the reference answers.",
    "in_flight": "The same request was being answered: it was given that answer as it came.",
    "cache_hit": "The same request was answered before: its answer was given again.",
    "reused": "A similar question's answer was given again, as this key opted into.",
    "novel": "Too little like anything seen before: the reference answers, and its answer may become an example.",
    "familiar": "Enough like past requests: the small engine answers with their answers as examples.",
    "no_example_helps": "Familiar, but no example promised to help: the reference answers.",
    "no_example_fits": "Familiar, but no example fitted into the prompt: the reference answers.",
    "learned": "The learnt router expected the most of this engine.",
    "explored": "Another engine than the best one was drawn, to learn what it does.",
    "quality_floor": "The quality guarantee allowed no more offloading: the reference answers.",
    "forced": "The client named its engine.",
    "late": "Finding and weighing earlier requests took too long: the reference answers.",
    "no_neighbours_known": "Earlier requests could not be looked up: the reference answers.",
    "undecided": "Deciding failed: the reference answers.",
    "policy_failed": "The policy failed: the reference answers, as without a gateway.",
    "fixed": "This model's policy always asks the same engine.",
    "not_listed": "No served model has this name: passed on to the upstream.",
    "tools": "The request carries tools: nothing is added to it, and the reference answers.",
    "not_plain_text": "The request is not only text: the reference answers.",
    "follow_up": "The question has turns before it, on which its answer depends: the reference answers.",
    "stays": "To change the engine would have cost more than the rest of the conversation is expected to save.",
    "tool_loop": "A tool's result goes to the engine that called the tool.",
    "anonymous": "It came without a credential, so nothing remembered is used: the reference answers.",
    "no_question": "There is no user's turn to look at: the reference answers.",
    "no_embedding": "The request's vector was late or broken: the reference answers.",
}
"""Meaning of a decision's reason code. A code that is not listed is shown as it is."""

ROUTING_SETTINGS: Mapping[str, tuple[str, str]] = {
    "preference": ("preference", "what is chosen by: 0 is cost alone, 1 quality alone"),
    "theta": (
        "least similarity",
        "a past request counts as similar from this on (1: the same text, 0: nothing in common); higher is stricter",
    ),
    "m": ("similar requests needed", "with fewer similar past requests the model's largest engine answers"),
    "max_examples": ("most examples", "so many past answers at most are sent along with a request"),
}
"""What a routing setting is called on a page, and what it does, by its name in the configuration; in the pages' order."""

LEFT_OUT: Mapping[str, str] = {
    "below_theta": "below the least similarity",
    "other_names": "names other things than the request",
    "not_scored": "not scored: nobody knows what it would do here",
    "helps_too_little": "would help too little by itself",
    "unfamiliar": "no example mentions what the request names, and none helps enough for that",
    "enough": "as many as wanted were chosen already",
    "no_room": "its tokens would not have fitted",
    "redundant": "too much like one that was chosen",
    "adds_too_little": "adds too little beside the chosen ones",
    "promises_too_little": "promises too little even with the others",
}
"""Why an example was left out (router.examples.combiner.LeftOut)."""

ERRORS: Mapping[str, str] = {
    "dns": "The name of the engine's host could not be looked up.",
    "connect": "No connection to the engine.",
    "tls": "No encrypted connection to the engine.",
    "timeout_connect": "Connecting to the engine took too long.",
    "timeout_first_data": "The engine's answer did not begin in time.",
    "timeout_gap": "The answer stood still for too long.",
    "timeout_answer": "The answer took too long to end.",
    "limited": "The engine's rate limit is used up.",
    "quota": "The engine's account has no credit or quota left.",
    "refused": "The engine refuses the gateway's key, or does not have the model.",
    "server": "The engine failed: a status from 500 on, or an error event in a stream.",
    "broken": "The answer ended early.",
    "invalid": "The engine's answer is no answer.",
    "too_long": "The prompt is too long for the engine.",
    "full": "Not asked: the engine's queue was full.",
    "open": "Not asked: the engine was drained or down, or had failed too often just before.",
}
"""Meaning of how a request to an engine failed (engines.errors.Kind); a code that is not listed is shown by itself."""

NO_TEXT: Mapping[str, str] = {
    "": "None is kept, or none is kept any more: texts are deleted after retention.texts_days.",
    "off": "memory.request_texts.enabled was off.",
    "opted_out": "The request asked that nothing be stored.",
    "opted_out_key": "Texts of this key's requests are not kept.",
    "opted_out_model": "Texts of this model's requests are not kept.",
    "shed": "The worker had more to do than it could, and left texts out (load shedding).",
    "busy": "Requests came faster than texts can be screened and stored.",
    "limited": "A limit refused it: prompts of such requests are not kept.",
    "secrets": "It held what looks like a secret.",
    "private_data": "It held private data that could not be replaced.",
    "repeat": "It is a repeat whose first request is not kept.",
    "refused": "A rule of admission refused it.",
    "of_key": "It is a repeat, and the text of the request that it repeats is not kept, or not any more.",
    "forgotten": "It was a repeat of whom the gateway was told to forget.",
}
"""Why no text is kept of a request (store.records.RequestRecord.no_text)."""

SOURCES: Mapping[str, str] = {
    "user": "a person",
    "judge": "the judge",
    "implicit": "what the client did next",
    "label": "a label",
}
"""The sources of an answer's quality."""

STAGES: Mapping[str, str] = {
    "exact": "look in the cache",
    "replay": "give the stored answer",
    "semantic": "look for a similar question",
    "embed": "embed the question",
    "nearest": "find the nearest examples",
    "score": "score how much they would help",
    "combine": "choose among them",
    "choose": "choose the engine",
    "decide": "decide",
    "pose": "see whether it is a task that a student could answer",
    "task": "look up what the student of the task may answer",
    "student": "ask the student",
    "prove": "look up what is proven of the small engine",
    "guardrails": "ask the guardrail",
}
"""Meaning of a stage's name; one that is not listed is shown by its name."""

ERROR_KINDS: Mapping[str, str] = {
    "dns": "name not found (DNS)",
    "connect": "connection failed",
    "tls": "TLS failed",
    "timeout_connect": "timeout: connecting",
    "timeout_first_data": "timeout: first data",
    "timeout_gap": "timeout: gap in the stream",
    "timeout_answer": "timeout: answer",
    "limited": "rate limited (429)",
    "quota": "quota used up",
    "refused": "key or model refused (4xx)",
    "server": "server error (5xx)",
    "broken": "answer broken off",
    "invalid": "no valid answer",
    "too_long": "prompt too long",
    "full": "queue full",
    "open": "not asked (drained, or its breaker was open)",
}
"""Kinds of failures of one request to one engine (engines.errors.Kind)."""
