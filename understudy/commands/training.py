"""How a training by hand ends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from store import Store
from store.records import ArtifactRecord
from understudy.commands.auditing import note

if TYPE_CHECKING:
    from learning.learned.learner import Place, Trained


def end_with(
    store: Store,
    trained: Trained,
    place: Place,
    active: ArtifactRecord | None,
    *,
    dry_run: bool,
    learnt_from: str = "",
) -> None:
    """Say what it came to and publish it, unless it is a dry run; status 1 where it is no better than `active`.

    `learnt_from`: stands before the reason in the version's note.
    """
    click.echo(f"{'accepted' if trained.accepted else 'rejected'}: {trained.reason}")
    if not dry_run:
        record = store.artifacts.publish(
            *place,
            trained.data,
            metrics=trained.metrics,
            parent=active.id if active else None,
            note=learnt_from + trained.reason,
            state="active" if trained.accepted else "rejected",
        )
        kind = place[0]
        note(store, f"learn/{kind}", "/".join(place), {"version": record.id, "state": record.state})
        click.echo(f"{kind} version {record.id} is {record.state}")
    if not trained.accepted:
        sys.exit(1)
