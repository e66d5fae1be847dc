"""`understudy models list|show|rollback|freeze|unfreeze|export`: the versions of what was learnt, in a person's hands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import orjson

from store import Store
from store.learned.artifacts import KINDS, ArtifactBroken
from store.records import ArtifactRecord
from understudy.commands.as_json import JSON, print_json
from understudy.commands.auditing import note
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.tenant_option import tenant_named

_OPERATOR = "operator"
"""Stands for the empty tenant: what was learnt from labels that the operator brought."""
_METRICS_SHOWN = 3
F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def models() -> None:
    """List, roll back, freeze and export what was learnt. Running gateways follow within a second."""


def _tenant(required: bool) -> Callable[[F], F]:
    text = f"Whose: a name as in `keys create`, id:HEX, or '{_OPERATOR}' for what came of labels of your own."
    return click.option("--tenant", metavar="NAME", required=required, help=text)


def _slot(command: F) -> F:
    """`KIND --tenant NAME --model NAME`."""
    for option in (
        click.option(
            "--model", default="", help="The served model; nothing for a version that serves any of them."
        ),
        _tenant(required=True),
        click.argument("kind", type=click.Choice(KINDS)),
    ):
        command = option(command)
    return command


@models.command("list")
@data_option()
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind.")
@_tenant(required=False)
@click.option("--model", help="Only for this served model.")
@JSON
def list_(data: Path, kind: str | None, tenant: str | None, model: str | None, as_json: bool) -> None:
    """List versions, newest first; `frozen` marks where no new version is taken into use."""
    with store_in(data) as store:
        whose = None if tenant is None else _tenant_id(store, tenant)
        found = store.artifacts.versions(kind, whose, model)
        frozen = set(store.artifacts.frozen())
        names = _tenant_names(store)
    if as_json:
        shown = [
            _as_json(record) | {"frozen": (record.kind, record.tenant, record.model) in frozen}
            for record in found
        ]
        print_json(shown)
        return
    rows = [("ID", "KIND", "TENANT", "MODEL", "STATE", "CREATED", "SIZE", "METRICS")]
    for record in found:
        held = " frozen" if (record.kind, record.tenant, record.model) in frozen else ""
        rows.append(
            (
                str(record.id),
                record.kind,
                names.get(record.tenant, f"id:{record.tenant}"),
                record.model or "any",
                record.state + held,
                _time(record.created_at_s),
                f"{record.size_bytes / 1024:.1f} KiB",
                _summary(record.metrics),
            )
        )
    if not found:
        click.echo("nothing was learnt yet: the built-in prior and rules are in use", err=True)
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@models.command()
@data_option()
@click.argument("version", type=int)
@JSON
def show(data: Path, version: int, as_json: bool) -> None:
    """Show one version: all of its metrics, what it was trained from, and whether its bytes are whole."""
    with store_in(data) as store:
        record = _version(store, version)
        try:
            store.artifacts.read(record)
            whole = "yes"
        except ArtifactBroken as broken:
            whole = str(broken)
        names = _tenant_names(store)
    if as_json:
        print_json(_as_json(record) | {"whole": whole == "yes"})
    else:
        for name, value in (
            ("version", record.id),
            ("kind", record.kind),
            ("tenant", names.get(record.tenant, f"id:{record.tenant}")),
            ("model", record.model or "any"),
            ("state", record.state),
            ("created", _time(record.created_at_s)),
            ("size", f"{record.size_bytes} bytes"),
            ("sha256", record.sha256),
            ("whole", whole),
            ("parent", record.parent or "none"),
            ("note", record.note or "none"),
        ):
            click.echo(f"{name:8}  {value}")
        for name, value in record.metrics.items():
            click.echo(f"  {name:24}  {_number(value)}")
    if whole != "yes":
        sys.exit(1)


@models.command()
@data_option()
@_slot
@click.option("--to", type=int, metavar="VERSION", help="To this version instead of the one before.")
@click.option("--freeze/--no-freeze", default=False, help="And keep the learner from publishing over it.")
def rollback(data: Path, kind: str, tenant: str, model: str, to: int | None, freeze: bool) -> None:
    """Go back to the version that served before, or, before the first, to the built-in prior or rule."""
    with store_in(data) as store:
        whose = _tenant_id(store, tenant)
        if to is not None:
            record = _version(store, to)
            if (record.kind, record.tenant, record.model) != (kind, whose, model):
                give_up(
                    f"version {to} is no {kind} of that tenant and model; `understudy models list` shows them"
                )
            _require_whole(store, record)
        elif store.artifacts.active(kind, whose, model) is None:
            give_up(f"there is no {kind} in use for that tenant and model: nothing to go back from")
        # Frozen first: between the two a learner could publish.
        if freeze:
            store.artifacts.freeze(kind, whose, model)
        before = store.artifacts.active(kind, whose, model)
        now = store.artifacts.rollback(kind, whose, model) if to is None else store.artifacts.activate(to)
        version = {"old": before.id if before else None, "new": now.id if now else None}
        note(store, "models/rollback", _target(kind, whose, model), {"version": version, "frozen": freeze})
    click.echo(
        f"now in use: version {now.id}" if now else "now in use: the built-in, or the operator's version"
    )
    if not freeze:
        click.echo("understudy: the learner may publish a new version; --freeze keeps it from that", err=True)


@models.command()
@data_option()
@_slot
def freeze(data: Path, kind: str, tenant: str, model: str) -> None:
    """Keep what is in use; new versions are kept beside it, and not used."""
    with store_in(data) as store:
        whose = _tenant_id(store, tenant)
        store.artifacts.freeze(kind, whose, model)
        note(store, "models/freeze", _target(kind, whose, model), {})
        active = store.artifacts.active(kind, whose, model)
    click.echo(
        f"frozen at version {active.id}" if active else "frozen at the built-in, or the operator's version"
    )


@models.command()
@data_option()
@_slot
def unfreeze(data: Path, kind: str, tenant: str, model: str) -> None:
    """Let the next version be taken into use."""
    with store_in(data) as store:
        whose = _tenant_id(store, tenant)
        was = store.artifacts.unfreeze(kind, whose, model)
        if was:
            note(store, "models/unfreeze", _target(kind, whose, model), {})
    click.echo("unfrozen" if was else "it was not frozen")


@models.command()
@data_option()
@click.argument("version", type=int)
@click.option("--output", "-o", required=True, type=click.Path(path_type=Path), help="File to write.")
def export(data: Path, version: int, output: Path) -> None:
    """Write a version's bytes to a file, and beside it, with .json after its name, what is known of it."""
    with store_in(data) as store:
        record = _version(store, version)
        content = _require_whole(store, record)
    try:
        output.write_bytes(content)
        described = orjson.dumps(_as_json(record), option=orjson.OPT_INDENT_2)
        output.with_name(output.name + ".json").write_bytes(described + b"\n")
    except OSError as error:
        give_up(f"{output}: {error}")
    click.echo(f"{output}: {record.kind} version {record.id}, {record.size_bytes} bytes", err=True)


def _target(kind: str, tenant: str, model: str) -> str:
    return f"{kind}/{tenant}/{model}"


def _version(store: Store, version: int) -> ArtifactRecord:
    record = store.artifacts.get(version)
    if record is None:
        give_up(f"there is no version {version}; `understudy models list` shows them")
    return record


def _require_whole(store: Store, record: ArtifactRecord) -> bytes:
    try:
        return store.artifacts.read(record)
    except ArtifactBroken as broken:
        give_up(str(broken))


def _tenant_id(store: Store, name: str) -> str:
    return "" if name == _OPERATOR else tenant_named(store.keys, name)


def _tenant_names(store: Store) -> dict[str, str]:
    return {key.tenant: key.tenant_name for key in store.keys.list()} | {"": _OPERATOR}


def _as_json(record: ArtifactRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "kind": record.kind,
        "tenant": record.tenant,
        "model": record.model,
        "state": record.state,
        "created_at_s": record.created_at_s,
        "sha256": record.sha256,
        "size_bytes": record.size_bytes,
        "parent": record.parent,
        "note": record.note,
        "metrics": record.metrics,
    }


def _summary(metrics: Mapping[str, Any]) -> str:
    plain = [(n, v) for n, v in metrics.items() if isinstance(v, int | float | str)]
    return ", ".join(f"{name} {_number(value)}" for name, value in plain[:_METRICS_SHOWN])


def _number(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
