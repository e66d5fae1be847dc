"""How much is remembered of one tenant, by kind: what a deletion would take. Counts only, no content."""

from __future__ import annotations

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
