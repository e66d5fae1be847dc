"""`understudy learn models`: list, roll back, freeze and export the versions of what was learnt."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click
import orjson

from admin.operations.versions import freeze, rollback, unfreeze
from admin.page import Asked, NotThere, Summary
from admin.sources import Sources
from admin.summaries.learning import version
from store.learned.artifacts import KINDS, ArtifactBroken
from store.records import ArtifactRecord
from understudy.commands.data_folder import data_option
from understudy.commands.giving_up import give_up
from understudy.commands.made import OPERATOR, command, reading, sources_in, tenant_option

_FIGURES = 3


@click.group()
def models() -> None:
    """List, roll back, freeze and export what was learnt. Running gateways follow within a second."""


def listed(sources: Sources, asked: Asked) -> Summary:
    """Versions, newest first; filters: `kind`, `tenant` (an id, or `operator`), `model`."""
    tenant = asked.text("tenant") or None
    records = sources.store.artifacts.versions(
        asked.text("kind") or None, "" if tenant == OPERATOR else tenant, asked.query.get("model")
    )
    return {"versions": [_told(sources, record) for record in records]}


def shown(sources: Sources, asked: Asked) -> Summary:
    """One version, and whether its bytes are whole."""
    record = _record(sources, asked.whole("version", 0))
    whole = "yes"
    try:
        sources.store.artifacts.read(record)
    except ArtifactBroken as broken:
        whole = str(broken)
    return {**_told(sources, record), "whole": whole}


def _told(sources: Sources, record: ArtifactRecord) -> dict[str, Any]:
    slot, names = (record.kind, record.tenant, record.model), sources.tenant_names() | {"": OPERATOR}
    return {
        "id": record.id,
        "kind": record.kind,
        "tenant": record.tenant,
        "tenant_name": names.get(record.tenant, ""),
        "model": record.model,
        "frozen": slot in sources.store.artifacts.frozen(),
        **version(record),
        "metrics": dict(record.metrics),
        "figures": dict(islice(version(record)["metrics"].items(), _FIGURES)),
    }


def _record(sources: Sources, id: int) -> ArtifactRecord:
    record = sources.store.artifacts.get(id)
    if record is None:
        raise NotThere(f"There is no version {id}; `understudy learn models list` shows them.")
    return record


models.add_command(
    reading(
        "list",
        "List versions, newest first; `frozen` marks where no new version is taken into use.",
        listed,
        options=[
            click.Option(["--kind"], type=click.Choice(KINDS), help="Only this kind."),
            tenant_option(f"Whose; '{OPERATOR}' for what came of labels of your own."),
            click.Option(["--model"], help="Only for this served model."),
        ],
        rows="versions",
        tables={
            "versions": (
                *("id", "kind", "tenant_name", "model", "state", "frozen", "created_at_s", "size_bytes"),
                "figures",
            )
        },
        nothing="nothing was learnt yet: the built-in prior and rules are in use",
    )
)
models.add_command(
    reading(
        "show",
        "Show one version: all of its metrics, what it was trained from, and whether its bytes are whole.",
        shown,
        options=[click.Argument(["version"], type=int)],
        tables={},
    )
)
for operation in (rollback, freeze, unfreeze):
    models.add_command(command(operation))


@models.command()
@data_option()
@click.argument("version", type=int)
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="File to write.")
def export(data: Path, version: int, output: Path) -> None:
    """Write a version's bytes to a file, and beside it, with .json after its name, what is known of it."""
    with sources_in(data) as sources:
        record = _record(sources, version)
        try:
            output.write_bytes(sources.store.artifacts.read(record))
            told = orjson.dumps(_told(sources, record), option=orjson.OPT_INDENT_2)
            output.with_name(output.name + ".json").write_bytes(told + b"\n")
        except (ArtifactBroken, OSError) as error:
            give_up(f"{output}: {error}")
    click.echo(f"{output}: {record.kind} version {record.id}, {record.size_bytes} bytes", err=True)
