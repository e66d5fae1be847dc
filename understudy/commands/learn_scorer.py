"""`understudy learn scorer`: how much each example helps, learnt by hand from what was logged and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from store import Store
from store.decisions.outcomes import Experience
from store.learned.artifacts import ArtifactBroken
from store.records import ArtifactRecord
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.example_settings import example_settings
from understudy.commands.giving_up import give_up
from understudy.commands.tenant_option import tenant_named, tenant_option
from understudy.commands.training import end_with

_PAGE = 1000


@click.command("scorer")
@data_option()
@tenant_option("Whose outcomes to learn from; it is theirs alone.")
@click.option("--model", required=True, help="The served model it is for.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The gateway's configuration: its memory.examples says how questions and answers are embedded.",
)
@click.option("--dry-run", is_flag=True, help="Train and report, publish nothing.")
def scorer(
    data: Path,
    tenant: str | None,
    model: str,
    config: Path | None,
    dry_run: bool,
) -> None:
    """Train a scorer of examples on logged outcomes. Running gateways take it into use within a second.

    The latest outcomes are held out. A scorer whose choices are not worth more on them than those of the one in use, and
    as much as the nearest examples and as none, is kept as rejected, and the exit status is 1. `understudy
    learn models rollback
    scorer` reverts one that was accepted.
    """
    # Before anything that may stand on it is imported: onnxruntime first (router.embedding.onnx_session).
    from learning.bank.background_embedding import version_of
    from learning.training.scorer.lessons import lessons_of
    from learning.training.scorer.rows import rows_from_log
    from learning.training.scorer.training import TooFewOutcomes, trained
    from router.examples.prior import prior_model
    from understudy.setup.learner import answers_of

    settings = example_settings(config)
    with store_in(data) as store:
        whose = tenant_named(store.keys, tenant or "default")
        experiences = _experiences(store, whose, model)
        version = next(
            (e.choice.embedding_version for e in reversed(experiences) if e.choice.vector is not None), ""
        )
        logged = [(e.choice, e.outcomes) for e in experiences]
        rows = rows_from_log(logged, answers_of(store)(whose), embedding_version=version)
        click.echo(f"{len(experiences)} judged requests, {len(rows)} usable outcomes", err=True)
        active, incumbent = _incumbent(store, whose, model)
        source = settings.examples.embedding_model
        embedded = [e.choice for e in experiences if e.choice.vector is not None]
        taught = lessons_of(store, source, version_of)
        try:
            made = trained(
                rows,
                incumbent or prior_model(),
                embedding_version=version,
                lessons=taught(whose, embedded[-1]) if embedded else None,
                built_in=incumbent is None,
                tell=_tell,
            )
        except TooFewOutcomes as error:
            give_up(str(error))
        _show(made.metrics)
        end_with(store, made, ("scorer", whose, model), active, dry_run=dry_run)


def _experiences(store: Store, tenant: str, model: str) -> list[Experience]:
    found: list[Experience] = []
    while page := store.outcomes.experiences(
        tenant, model, limit=_PAGE, after_id=found[-1].row_id if found else 0
    ):
        found += page
    return found


def _incumbent(store: Store, tenant: str, model: str) -> tuple[ArtifactRecord | None, bytes | None]:
    """The scorer in use with its bytes; without bytes where the prior serves, for want of a version or of its file."""
    active = store.artifacts.best("scorer", tenant, model)
    if active is None:
        return None, None
    try:
        return active, store.artifacts.read(active)
    except ArtifactBroken as broken:
        _tell(f"{broken}: compared with the prior instead")
        return active, None


def _show(metrics: dict[str, Any]) -> None:
    click.echo("what choices are worth on the hold-out:")
    for who, worth in metrics["held_out"].items():
        click.echo(f"{who:16}{worth:>10.4f}")
    click.echo(
        f"ranking: {metrics['ranking']}, examples: {metrics['examples']:.2f}, lessons: {metrics['lessons']}, "
        f"outcomes: {metrics['outcomes']}"
    )


def _tell(line: str) -> None:
    click.echo(line, err=True)
