"""Settings of former versions, and what to write instead. A file that still has one is told so, all of them at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Moved:
    """It has another name now."""

    to: str

    def told(self, key: str, value: Any, names: tuple[str, ...]) -> str:
        """The sentence for whoever wrote it."""
        return f"{key} is now called {_with_names(self.to, names)}"


@dataclass(frozen=True, slots=True)
class Fixed:
    """It can no longer be set."""

    at: Any
    why: str

    def told(self, key: str, value: Any, names: tuple[str, ...]) -> str:
        """The sentence for whoever wrote it."""
        shown = "(not shown)" if isinstance(value, dict | list) else repr(value)[:80]
        return f"{key} is {shown}: it is now fixed at {self.at!r}, because {self.why}; leave it out"


@dataclass(frozen=True, slots=True)
class Removed:
    """There is no such thing any more."""

    why: str

    def told(self, key: str, value: Any, names: tuple[str, ...]) -> str:
        """The sentence for whoever wrote it."""
        return f"{key}: removed, because {self.why}; leave it out"


_UNKNOWABLE = "no figure that an operator sees would tell a better value"
_LEARNT = "what a set of examples is worth is learnt from outcomes"
_BY_USE = "the examples used most are kept warm: see `engines` and `kept_examples` of replay.advanced.kv_plan"
_BY_MODEL = (
    "max_loss now stands beside `engines` of the model and is kept by its `proof`: on (the default) lets small engines"
    " answer only where comparisons proved them; `proof: floor` limits what is offloaded as before"
)
_BY_OTHERS = "the run's budget already bounds it"

FORMER: dict[str, Moved | Fixed | Removed] = {
    "workflows.advanced.warm_min_tokens": Removed("no part of a prompt is computed early any more"),
    "listen.prefixes": Moved("listen.advanced.prefixes"),
    "listen.max_body_mib": Moved("listen.advanced.max_body_mib"),
    "listen.max_json_mib": Moved("listen.advanced.max_json_mib"),
    "listen.max_header_kib": Moved("listen.advanced.max_header_kib"),
    "upstream.headers": Moved("upstream.advanced.headers"),
    "upstream.timeouts.connect_s": Moved("upstream.advanced.connect_s"),
    "upstream.timeouts.first_chunk_s": Moved("upstream.advanced.first_data_s"),
    "upstream.timeouts.gap_s": Moved("upstream.advanced.gap_s"),
    "upstream.timeouts.total_s": Moved("upstream.advanced.answer_s"),
    "upstream.advanced.first_chunk_s": Moved("upstream.advanced.first_data_s"),
    "upstream.advanced.total_s": Moved("upstream.advanced.answer_s"),
    "engines.*.headers": Moved("engines.*.advanced.headers"),
    "engines.*.timeouts.connect_s": Moved("engines.*.advanced.connect_s"),
    "engines.*.timeouts.first_chunk_s": Moved("engines.*.advanced.first_data_s"),
    "engines.*.timeouts.gap_s": Moved("engines.*.advanced.gap_s"),
    "engines.*.timeouts.total_s": Moved("engines.*.advanced.answer_s"),
    "engines.*.advanced.first_chunk_s": Moved("engines.*.advanced.first_data_s"),
    "engines.*.advanced.total_s": Moved("engines.*.advanced.answer_s"),
    "engines.*.max_queued": Moved("engines.*.advanced.max_queued"),
    "engines.*.retries.attempts": Moved("engines.*.advanced.attempts"),
    "engines.*.retries.max_wait_s": Fixed(5, "a longer wait is better spent at another engine"),
    "engines.*.breaker.failures": Moved("engines.*.advanced.breaker_failures"),
    "engines.*.breaker.open_s": Moved("engines.*.advanced.breaker_open_s"),
    "engines.*.priority": Moved("engines.*.advanced.priority"),
    "engines.*.tenant_priorities": Moved("engines.*.advanced.tenant_priorities"),
    "engines.*.background_priority": Moved("engines.*.advanced.background_priority"),
    "engines.*.server_url": Moved("engines.*.advanced.server_url"),
    "engines.*.poll_s": Moved("engines.*.advanced.poll_s"),
    "models.*.continue_broken": Moved("models.*.advanced.continue_broken"),
    "models.*.few_shot.max_example_tokens": Moved("models.*.advanced.max_example_tokens"),
    "models.*.few_shot.with_tools": Moved("models.*.advanced.with_tools"),
    "models.*.in_context.key_preferences": Moved("models.*.advanced.key_preferences"),
    "models.*.in_context.outcomes_needed": Moved("models.*.advanced.outcomes_needed"),
    "models.*.in_context.examples.max_examples": Moved("models.*.in_context.max_examples"),
    "models.*.in_context.examples.max_example_tokens": Moved("models.*.advanced.max_example_tokens"),
    "models.*.in_context.examples.min_gain": Removed(_LEARNT),
    "models.*.in_context.examples.min_promise": Removed(_LEARNT),
    "models.*.in_context.examples.distraction": Removed(_LEARNT),
    "models.*.in_context.examples.unfamiliar_min_help": Removed(_LEARNT),
    "models.*.in_context.examples.gain_per_ktok": Removed(_LEARNT),
    "models.*.in_context.examples.redundancy": Removed(_LEARNT),
    "models.*.in_context.examples.order": Moved("models.*.advanced.example_order"),
    "models.*.in_context.examples.candidates": Fixed(20, _UNKNOWABLE),
    "models.*.in_context.examples.floor": Fixed(0.3, _UNKNOWABLE),
    "models.*.in_context.examples.scorer_deadline_ms": Moved("models.*.advanced.scorer_deadline_ms"),
    "models.*.in_context.examples.adapt_count": Moved("models.*.advanced.adapt_count"),
    "models.*.in_context.examples.label_share": Moved("models.*.advanced.label_share"),
    "models.*.in_context.examples.provider": Removed("the scorer runs on the CPU"),
    "models.*.in_context.exploration.epsilon": Moved("models.*.advanced.epsilon"),
    "models.*.in_context.exploration.gamma": Moved("models.*.advanced.gamma"),
    "models.*.in_context.exploration.key_share": Moved("models.*.advanced.key_share"),
    "models.*.in_context.exploration.opted_out_keys": Moved("models.*.advanced.opted_out_keys"),
    "models.*.in_context.load.threshold": Moved("models.*.advanced.load_threshold"),
    "models.*.in_context.load.strength": Moved("models.*.advanced.load_strength"),
    "models.*.in_context.quality_floor.max_loss": Removed(_BY_MODEL),
    "models.*.in_context.max_loss": Removed(_BY_MODEL),
    "models.*.advanced.enum_tasks": Moved("models.*.advanced.find_tasks"),
    "models.*.in_context.opted_out_keys": Moved("models.*.advanced.opted_out_keys"),
    "models.*.in_context.quality_floor.confidence": Moved("models.*.advanced.floor_confidence"),
    "memory.exact.memory_mib": Fixed(64, "the disk holds the rest"),
    "memory.exact.max_entry_kib": Moved("memory.advanced.exact_max_entry_kib"),
    "memory.exact.tool_calls": Moved("memory.advanced.exact_tool_calls"),
    "memory.examples.embedding.source": Moved("memory.examples.embedding_model"),
    "memory.examples.embedding.deadline_ms": Moved("memory.advanced.embedding_deadline_ms"),
    "memory.examples.embedding.max_characters": Fixed(1500, "the embedding model reads little more"),
    "memory.examples.embedding.cache_dir": Moved("memory.advanced.embedding_cache_dir"),
    "memory.examples.answer_vectors.enabled": Moved("memory.advanced.answer_vectors"),
    "memory.examples.answer_vectors.max_characters": Fixed(400, _UNKNOWABLE),
    "memory.examples.answer_vectors.share": Fixed(0.1, "requests need the rest of the embedder's time"),
    "memory.examples.max_chars": Fixed(8000, "longer examples do not fit the token budget of a request"),
    "memory.examples.neighbours": Fixed(32, _UNKNOWABLE),
    "memory.examples.retrieve_deadline_ms": Moved("memory.advanced.retrieve_deadline_ms"),
    "memory.examples.admission.good_quality": Fixed(0.8, _UNKNOWABLE),
    "memory.examples.admission.min_question_chars": Fixed(3, "shorter questions mean nothing by themselves"),
    "memory.examples.admission.min_answer_chars": Fixed(1, "an answer of one character may be a label"),
    "memory.examples.admission.instructions": Moved("memory.advanced.instructions"),
    "memory.examples.admission.contributor_max_examples": Moved("memory.advanced.contributor_max_examples"),
    "memory.examples.admission.contributor_max_per_hour": Moved("memory.advanced.contributor_max_per_hour"),
    "memory.examples.admission.quarantine_h": Moved("memory.advanced.quarantine_h"),
    "memory.examples.admission.trusted_after": Fixed(
        5, "it says how quarantine_h may end early, and nothing else"
    ),
    "memory.examples.max_stored_mib": Moved("memory.advanced.max_stored_mib"),
    "memory.examples.twin_similarity": Fixed(0.95, _UNKNOWABLE),
    "memory.examples.twin_overlap": Fixed(0.75, _UNKNOWABLE),
    "memory.examples.keep_removals_s": Fixed(604_800, "an older snapshot only makes one start slower"),
    "memory.semantic_reuse.audit_share": Moved("memory.advanced.reuse_audit_share"),
    "memory.semantic_reuse.deadline_ms": Moved("memory.advanced.reuse_deadline_ms"),
    "memory.request_texts.max_mib": Moved("memory.advanced.texts_max_mib"),
    "memory.request_texts.max_request_kib": Fixed(64, "memory.advanced.texts_max_mib bounds the whole"),
    "memory.request_texts.share": Fixed(0.1, "requests need the rest of the processor"),
    "learning.every_s": Moved("learning.advanced.every_s"),
    "learning.min_new_outcomes": Moved("learning.advanced.min_new_outcomes"),
    "learning.half_life_h": Moved("learning.advanced.half_life_h"),
    "learning.max_outcomes": Moved("learning.advanced.max_outcomes"),
    "learning.train_scorer": Moved("learning.advanced.train_scorer"),
    "learning.scorer_min_outcomes": Fixed(300, _UNKNOWABLE),
    "learning.versions_kept": Fixed(20, "twenty versions are enough to roll back to"),
    "judging.share_reference": Moved("judging.advanced.share_reference"),
    "judging.others": Moved("judging.advanced.others"),
    "judging.samples": Moved("judging.advanced.samples"),
    "judging.tie": Fixed(0.3, _UNKNOWABLE),
    "judging.max_usd_per_hour": Moved("judging.advanced.max_usd_per_hour"),
    "judging.max_in_flight": Moved("judging.advanced.max_in_flight"),
    "judging.max_queued": Fixed(200, "what waits longer is let go anyway"),
    "judging.pause_above": Fixed(0.8, "judging must leave room for requests"),
    "judging.max_tokens": Moved("judging.advanced.max_tokens"),
    "judging.verdict_tokens": Moved("judging.advanced.verdict_tokens"),
    "judging.judge_fields": Moved("judging.advanced.judge_fields"),
    "judging.opted_out_keys": Moved("judging.advanced.opted_out_keys"),
    "feedback.window_h": Fixed(168, _UNKNOWABLE),
    "feedback.per_minute": Moved("feedback.advanced.per_minute"),
    "feedback.max_kib": Fixed(256, "feedback with a correction that fits an example is far smaller"),
    "feedback.survive_power_cut": Fixed(True, "feedback that was acknowledged must not be lost"),
    "feedback.regenerated": Moved("feedback.advanced.regenerated"),
    "private.delta": Moved("private.advanced.delta"),
    "private.releases": Moved("private.advanced.releases"),
    "private.cells": Moved("private.advanced.cells"),
    "private.words": Moved("private.advanced.words"),
    "private.planes": Moved("private.advanced.planes"),
    "private.least_words": Fixed(3, "fewer words say too little of a topic to ask about it"),
    "private.questions": Fixed(5, _UNKNOWABLE),
    "memory.requests_kept_days": Moved("retention.rows_days"),
    "memory.request_texts.kept_days": Moved("retention.texts_days"),
    "private.kept_days": Fixed(30, "questions of private tenants are to be deleted soon"),
    "replay.window_h": Fixed(6, _BY_OTHERS),
    "replay.off_peak.weeks": Fixed(4, "a usual week is learnt from a month"),
    "replay.off_peak.quiet_share": Fixed(0.25, "replay.advanced.max_in_flight says it more directly"),
    "replay.off_peak.min_in_flight": Moved("replay.advanced.min_in_flight"),
    "replay.off_peak.max_in_flight": Moved("replay.advanced.max_in_flight"),
    "replay.off_peak.calm_s": Moved("replay.advanced.calm_s"),
    "replay.budget.usd": Moved("replay.max_run_usd"),
    "replay.budget.tokens": Moved("replay.advanced.max_run_tokens"),
    "replay.budget.minutes": Moved("replay.advanced.max_run_minutes"),
    "replay.samples": Moved("replay.advanced.samples"),
    "replay.temperature": Moved("replay.advanced.temperature"),
    "replay.generator": Moved("replay.advanced.generator"),
    "replay.engine": Moved("replay.advanced.engine"),
    "replay.votes": Fixed(2, _UNKNOWABLE),
    "replay.max_tokens": Moved("replay.advanced.max_tokens"),
    "replay.in_flight": Moved("replay.advanced.in_flight"),
    "replay.again_after_h": Fixed(168, _UNKNOWABLE),
    "replay.most_steps": Fixed(2000, _BY_OTHERS),
    "replay.expand.enabled": Moved("replay.advanced.expand"),
    "replay.expand.variations": Fixed(3, _UNKNOWABLE),
    "replay.expand.thin_below": Fixed(0.8, _UNKNOWABLE),
    "replay.expand.duplicate_above": Fixed(0.95, _UNKNOWABLE),
    "replay.expand.drift_below": Fixed(0.4, _UNKNOWABLE),
    "replay.near_misses": Removed("similar questions are answered from the cache by proof alone"),
    "replay.kv_plan.engines.*.kv_mib": Removed(_BY_USE),
    "replay.kv_plan.engines.*.bytes_per_token": Removed(_BY_USE),
    "replay.kv_plan.engines.*.model_dir": Removed(_BY_USE),
    "replay.kv_plan.engines.*.block_tokens": Removed(_BY_USE),
    "replay.kv_plan.engines.*.load_ms_per_ktok": Removed(_BY_USE),
    "replay.kv_plan.engines.*.load_ms": Removed(_BY_USE),
    "replay.kv_plan.engines": Removed(
        "which engines keep prefixes warm is now a list of names in replay.advanced.kv_plan.engines"
    ),
    "replay.kv_plan.every_s": Moved("replay.advanced.kv_plan.every_s"),
    "replay.kv_plan.warm": Moved("replay.advanced.kv_plan.warm"),
    "admin.idle_min": Moved("admin.advanced.idle_min"),
    "admin.longest_h": Moved("admin.advanced.longest_h"),
    "admin.audit_days": Moved("admin.advanced.audit_days"),
}
"""Former name to what became of it; `*` stands for the name of an engine or a model."""

_PATTERNS = {
    re.compile(re.escape(name).replace(r"\*", r"([^.]+)")): (name, became) for name, became in FORMER.items()
}
_GROUPS = {name.rpartition(".")[0] for name in FORMER}


def without_former(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """`data` without settings of former versions, and a sentence for each of them that says what to write instead."""
    told: list[str] = []
    return _without(data, (), told), told


def _without(data: Mapping[str, Any], path: tuple[str, ...], told: list[str]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in data.items():
        here = (*path, str(name))
        found = _became(".".join(here))
        if found is not None:
            became, names = found
            told.append(became.told(".".join(here), value, names))
        elif isinstance(value, Mapping):
            below = _without(value, here, told)
            # A group of which nothing is left may be none any more.
            if below or not value or not _is_former_group(here):
                kept[name] = below
        else:
            kept[name] = value
    return kept


def _became(key: str) -> tuple[Moved | Fixed | Removed, tuple[str, ...]] | None:
    for pattern, (_, became) in _PATTERNS.items():
        match = pattern.fullmatch(key)
        if match is not None:
            return became, match.groups()
    return None


def _is_former_group(path: tuple[str, ...]) -> bool:
    starred = (path[0], "*", *path[2:]) if path[0] in ("engines", "models") and len(path) > 2 else path
    return ".".join(starred) in _GROUPS


def _with_names(name: str, names: tuple[str, ...]) -> str:
    given: Iterator[str] = iter(names)
    return ".".join(next(given, part) if part == "*" else part for part in name.split("."))
