"""`understudy learn scorer`: how much each example helps, learnt by hand from what was logged and judged."""

from __future__ import annotations

import sys
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

_PAGE = 1000


@click.command("scorer")
@data_option()
@tenant_option("Whose outcomes to learn from; it is theirs alone.")
@click.option("--model", required=True, help="The served model it is for.")
@click.option("--seed", default=0, show_default=True, help="The same outcomes and seed give the same scorer.")
@click.option(
    "--loss",
    type=click.Choice(["auto", "pointwise", "pairwise"]),
    default="auto",
    show_default=True,
    help="auto: whichever is better on validation.",
)
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
    seed: int,
    loss: Any,
    config: Path | None,
    dry_run: bool,
) -> None:
    """Train a scorer of examples on logged outcomes. Running gateways take it into use within a second.

    The latest outcomes are held out; a scorer that is not better on them than the one in use is kept as rejected, and the
    exit status is 1. `understudy models rollback scorer` takes back one that was accepted.
    """
    # Before anything that may stand on it is imported: onnxruntime first (router.embedding.onnx_session).
    from learning.training.scorer.rows import rows_from_log
    from learning.training.scorer.training import TooFewOutcomes, TorchMissing, trained
    from learning.training.stored_lessons import lessons_of
    from router.examples.prior import prior_model
    from understudy.setup.learner import vectors_of

    settings = example_settings(config)
    with store_in(data) as store:
        whose = tenant_named(store.keys, tenant or "default")
        experiences = _experiences(store, whose, model)
        version = next(
            (e.choice.embedding_version for e in reversed(experiences) if e.choice.vector is not None), ""
        )
        tenants_vectors = vectors_of(store, answers=settings.advanced.answer_vectors)
        vectors = tenants_vectors(whose, version)
        logged = [(e.choice, e.outcomes) for e in experiences]
        rows = rows_from_log(logged, vectors, embedding_version=version)
        click.echo(f"{len(experiences)} judged requests, {len(rows)} usable outcomes", err=True)
        active, incumbent = _incumbent(store, whose, model)
        source = settings.examples.embedding_model
        embedded = [e.choice for e in experiences if e.choice.vector is not None]
        agreed = lessons_of(store, source, tenants_vectors)(whose, embedded[-1]) if embedded else []
        try:
            made = trained(
                rows,
                incumbent or prior_model(),
                seed=seed,
                loss=loss,
                embedding_version=version,
                lessons=agreed,
                tell=_tell,
            )
        except (TooFewOutcomes, TorchMissing) as error:
            give_up(str(error))
        _show(made.metrics)
        click.echo(f"{'accepted' if made.accepted else 'rejected'}: {made.reason}")
        if not dry_run:
            record = store.artifacts.publish(
                "scorer",
                whose,
                model,
                made.model,
                metrics=made.metrics,
                parent=active.id if active else None,
                note=made.reason,
                state="active" if made.accepted else "rejected",
            )
            click.echo(f"scorer version {record.id} is {record.state}")
    if not made.accepted:
        sys.exit(1)


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
    new, old = metrics["held_out"], metrics["incumbent"]
    click.echo(f"{'held out':16}{'new':>10}{'in use':>10}")
    for name in new:
        cells = ("-" if value is None else f"{value:.4f}" for value in (new[name], old[name]))
        click.echo(f"{name:16}" + "".join(f"{cell:>10}" for cell in cells))
    click.echo(f"loss: {metrics['loss']}, outcomes: {metrics['outcomes']}, pairs: {metrics['pairs']}")


def _tell(line: str) -> None:
    click.echo(line, err=True)
