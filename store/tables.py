"""Each table: by which rule its rows end, and which of its columns say whose they are. Both databases have them.

A table that is not here fails the tests, and so does a column that names a tenant, a key or an end user and is not.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Whose = Literal["tenant", "contributor", "end_user", "key_id"]
"""`contributor`: a key and an end user of it (learning.bank.contributor)."""
WHOSE: tuple[Whose, ...] = ("tenant", "contributor", "end_user", "key_id")


class Kept(NamedTuple):
    """How long a table's rows are kept."""

    ends: str
    """A setting of `retention`, `with` the table whose row they belong to, or the rule in words."""
    whose: tuple[Whose, ...] = ()
    outlives: bool = False
    """Whether rows stay when their tenant is forgotten: sums without content, and what says that the tenant is gone."""


_ROWS, _TEXTS, _EXAMPLES = "retention.rows_days", "retention.texts_days", "retention.examples_days"
_BY_NAME = "its latest row of each name stays"
_ROOM = "the oldest go when it is full"
_SUMS = "store.sums: each span has its time"
_WITH_TENANT = "with its tenant"
_WITH_INSTALLATION = "one row for each thing of the installation"

TABLES: dict[str, Kept] = {
    # people
    "admin_sessions": Kept("its operator signs out, or its longest time is over"),
    "admin_tokens": Kept("an operator deletes it"),
    "admin_users": Kept("an operator deletes it"),
    "api_keys": Kept(
        "revoked keys stay, so that their ids are never given again", ("tenant",), outlives=True
    ),
    "audit_log": Kept("the oldest beyond its number of rows go"),
    "deleted_tenants": Kept("they stay, so that nothing of theirs comes back"),
    "older_secrets": Kept("until_s", ("key_id",)),
    "saved_views": Kept("an operator deletes it"),
    "tenants": Kept("an operator deletes it"),
    # limits
    "allowance_leases": Kept("with allowance_workers"),
    "allowance_workers": Kept("until_s"),
    "allowances": Kept("ends_s"),
    # requests and what was decided
    "choices": Kept(_ROWS, ("tenant", "contributor")),
    "cost_sums": Kept(_SUMS, ("tenant",), outlives=True),
    "feedback": Kept(_ROWS, ("tenant", "contributor")),
    "outcomes": Kept(_ROWS, ("tenant",)),
    "owned_ids": Kept(_ROWS, ("tenant", "end_user", "key_id")),
    "quality_rollups": Kept(_SUMS, ("tenant", "key_id")),
    "request_rollups": Kept(_SUMS, ("tenant",), outlives=True),
    "request_texts": Kept(_TEXTS, ("tenant", "contributor")),
    "request_texts_size": Kept(_WITH_INSTALLATION),
    "requests": Kept(_ROWS, ("tenant", "end_user", "key_id")),
    "review_shares": Kept(_BY_NAME),
    "reviews": Kept(_ROWS, ("tenant",)),
    "sums_progress": Kept(_WITH_INSTALLATION),
    "time_sums": Kept(_SUMS),
    "usage_sums": Kept(_SUMS, ("tenant", "end_user", "key_id"), outlives=True),
    # answers
    "exact_answer_examples": Kept("with exact_answers"),
    "exact_answers": Kept("their time is over, or " + _ROOM, ("tenant", "contributor")),
    "exact_size": Kept(_WITH_INSTALLATION),
    "kept_responses": Kept(_TEXTS, ("tenant", "contributor")),
    "semantic_counts": Kept(_WITH_TENANT, ("tenant",)),
    "semantic_entries": Kept("with examples", ("tenant",)),
    "semantic_observations": Kept(_ROOM, ("tenant",)),
    # examples
    "answer_vectors": Kept("with examples"),
    "dropped_removals": Kept(_WITH_INSTALLATION, ("tenant",), outlives=True),
    "example_accounts": Kept("with examples", ("tenant", "contributor")),
    "example_instructions": Kept("with examples", ("tenant",)),
    "example_lineage": Kept("with examples", ("tenant",)),
    "example_places": Kept("with examples", ("tenant",)),
    "example_sequence": Kept(_WITH_INSTALLATION),
    "example_totals": Kept(_WITH_TENANT, ("tenant",), outlives=True),
    "example_versions": Kept("with examples", ("tenant",)),
    "examples": Kept(_EXAMPLES, ("tenant",)),
    "imports": Kept(_WITH_TENANT, ("tenant",)),
    "merged_requests": Kept("with examples", ("tenant",)),
    "private_questions": Kept("a bank is made of them", ("tenant", "contributor")),
    "private_releases": Kept("they stay: what was told cannot be taken back", ("tenant",), outlives=True),
    "private_tenants": Kept("they stay, with what was told of them", ("tenant",), outlives=True),
    "removed_examples": Kept("every index has followed them", ("tenant",), outlives=True),
    # what is learnt
    "artifacts": Kept("the latest of each kind stay", ("tenant",)),
    "blobs": Kept("with artifacts"),
    "deleted_versions": Kept("every process has followed them"),
    "dials": Kept("they stay, as the log of who turned them", ("tenant",)),
    "frozen_artifacts": Kept("an operator lets go of it", ("tenant",)),
    "quality_floors": Kept(_BY_NAME, ("tenant",)),
    "task_answers": Kept(_ROWS, ("tenant", "contributor", "end_user")),
    "tasks": Kept(_ROWS, ("tenant",)),
    # jobs
    "drained_engines": Kept("an operator takes it back"),
    "engine_errors": Kept("hours that pages show"),
    "engine_states": Kept("with the worker that said it"),
    "engine_tests": Kept(_BY_NAME),
    "kv_plan_examples": Kept("with examples", ("tenant",)),
    "kv_plans": Kept(_BY_NAME),
    "leases": Kept("until_s"),
    "operator_asks": Kept(_BY_NAME, ("tenant",)),
    "replay_asks": Kept("with replay_runs", ("tenant",)),
    "replay_runs": Kept(_ROWS, ("tenant",)),
    "replay_steps": Kept("with replay_runs", ("tenant",)),
    "webhook_messages": Kept("they are posted, or too old to be"),
    "webhook_states": Kept("too old to matter"),
    "worker_loads": Kept("with the worker that said it"),
    # runs and workflows
    "collection_texts": Kept("a client deletes the collection", ("tenant", "contributor")),
    "variables": Kept(
        "workflows.keep_values_s, their row with workflow_runs", ("tenant", "contributor", "end_user")
    ),
    "workflow_runs": Kept(_ROWS, ("tenant", "contributor", "end_user", "key_id")),
    "workflow_steps": Kept("with workflow_runs, what it asks by workflows.keep_values_s", ("contributor",)),
    "workflows": Kept("the latest versions of each name stay", ("tenant", "contributor")),
    # the database
    "generations": Kept(_WITH_INSTALLATION),
    "installation": Kept(_WITH_INSTALLATION),
}
