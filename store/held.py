"""How much is remembered of one tenant, or of one key or end user of it, by kind: what a deletion would take. No content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields

from store.database import Connection


@dataclass(frozen=True, slots=True)
class Held:
    """Numbers of rows."""

    examples: int = 0
    answers: int = 0
    """Kept to be given again: for the same request, for a similar one, and responses."""
    requests: int = 0
    """Rows of the request log."""
    texts: int = 0
    """Requests whose question and answer are kept."""
    choices: int = 0
    """Logged decisions, with the requests' embeddings."""
    outcomes: int = 0
    feedback: int = 0
    versions: int = 0
    """Of what was learnt from the tenant."""
    labels: int = 0
    """Answers that students are trained on."""
    runs: int = 0
    """Of applications."""
    workflows: int = 0
    """Versions of the tenant's own."""
    documents: int = 0
    """Texts of collections."""

    @property
    def anything(self) -> bool:
        """Whether there is anything at all."""
        return any(getattr(self, field.name) for field in fields(self))


def held_of(connection: Connection, tenant: str) -> Held:
    """Counts by indexes that begin with the tenant."""
    return Held(
        **{
            name: sum(
                connection.execute(
                    f"SELECT count(*) FROM {table} WHERE tenant = ?",  # noqa: S608 - constants
                    (tenant,),
                ).fetchone()[0]
                for table in tables
            )
            for name, tables in COUNTED.items()
        }
    )


COUNTED = {
    "examples": ("examples",),
    "answers": ("exact_answers", "semantic_entries", "kept_responses"),
    "requests": ("requests",),
    "texts": ("request_texts",),
    "choices": ("choices",),
    "outcomes": ("outcomes",),
    "feedback": ("feedback",),
    "versions": ("artifacts",),
    "labels": ("task_answers",),
    "runs": ("workflow_runs",),
    "workflows": ("workflows",),
    "documents": ("collection_texts",),
}
"""The tables of each number."""


def held_of_contributors(
    connection: Connection, tenant: str, contributors: Sequence[str], key_id: str = "", end_user: str = ""
) -> Held:
    """The same of contributors of a tenant. `requests`: rows that name the key or the end user (a digest)."""
    whose = {"tenant": tenant, "names": json.dumps(list(contributors)), "key": key_id, "user": end_user}

    def count(table: str, rows: str) -> int:
        statement = f"SELECT count(*) FROM {table} WHERE tenant = :tenant AND {rows}"  # noqa: S608 - constants
        return int(connection.execute(statement, whose).fetchone()[0])

    return Held(
        **{
            name: sum(count(table, rows) for table, rows in tables.items())
            for name, tables in _OF_CONTRIBUTORS.items()
        }
    )


_THEIRS = "contributor IN (SELECT value FROM json_each(:names)) AND contributor <> ''"
_OF_THEIR_CHOICES = "request_id IN (SELECT request_id FROM choices WHERE tenant = :tenant AND "
_WITH_THEIR_STEP = "id IN (SELECT run_id FROM workflow_steps WHERE "
_OF_CONTRIBUTORS = {
    "examples": {"example_accounts": _THEIRS, "private_questions": _THEIRS},
    "answers": {"exact_answers": _THEIRS, "kept_responses": _THEIRS},
    "requests": {"requests": "(end_user = :user AND end_user <> '' OR key_id = :key AND key_id <> '')"},
    "texts": {"request_texts": _THEIRS},
    "choices": {"choices": _THEIRS},
    "outcomes": {"outcomes": f"{_OF_THEIR_CHOICES}{_THEIRS})"},
    "feedback": {"feedback": f"({_THEIRS} OR {_OF_THEIR_CHOICES}{_THEIRS}))"},
    "labels": {"task_answers": _THEIRS},
    "runs": {
        "workflow_runs": f"({_THEIRS} OR {_WITH_THEIR_STEP}{_THEIRS}))",
        "variables": f"run_id IS NULL AND {_THEIRS}",
    },
    "workflows": {"workflows": _THEIRS},
    "documents": {"collection_texts": _THEIRS},
}
"""By kind, the tables and which of their rows."""
