"""`understudy engines list|drain|resume|test`: how engines stand, and who is to be asked, without the admin pages."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from admin.summaries.engine_load import replicas
from store import Store
from store.people.audit import AuditOutcome, AuditRecord
from understudy.commands.as_json import JSON, print_json
from understudy.commands.auditing import user
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up

_NAME = click.argument("name", metavar="NAME[@HOST:PORT]")
_WRITE_S = 30.0


@click.group()
def engines() -> None:
    """How engines stand; drain, resume and test them, or one replica: NAME@HOST:PORT."""


@engines.command("list")
@data_option()
@JSON
def list_(data: Path, as_json: bool) -> None:
    """List the engines that running workers tell of, and drained ones: state, since when, latest error."""
    with store_in(data) as store:
        found = _listed(store)
    if as_json:
        print_json(found)
        return
    for one in found:
        since_s = one["since_s"]
        since = "" if since_s is None else f" for {max(0.0, time.time() - since_s):.0f} s"
        error = f"; last error: {one['error']}" if one["error"] else ""
        click.echo(f"{_label(one['engine'], one['replica'])}  {one['state']}{since}{error}")
    if not found:
        click.echo("no worker tells of any engine: is the gateway running on this data folder?", err=True)


@engines.command()
@data_option()
@_NAME
@click.option("--reason", default="", help="Why; shown on the admin pages.")
@JSON
def drain(data: Path, name: str, reason: str, as_json: bool) -> None:
    """Have nothing new asked of an engine: within a second, by every worker, also after a restart, until it is resumed."""
    engine, _, replica = name.partition("@")
    with store_in(data) as store:
        known = {(one["engine"], one["replica"]) for one in _listed(store)}
        if known and (engine not in {e for e, _ in known} or (replica and (engine, replica) not in known)):
            names = ", ".join(sorted(_label(*one) for one in known))
            give_up(f"there is no engine {name!r}; running workers tell of {names}")
        changed = store.jobs.engine_states.drain(engine, user(), reason, replica).result(_WRITE_S)
        _note(store, "engines drain", name, changed, {"reason": reason} if reason else {})
    _said(name, "drained", changed, "was drained already", as_json)


@engines.command()
@data_option()
@_NAME
@JSON
def resume(data: Path, name: str, as_json: bool) -> None:
    """Let a drained engine be asked again; NAME alone resumes every replica of it."""
    engine, _, replica = name.partition("@")
    with store_in(data) as store:
        changed = store.jobs.engine_states.restore(engine, replica).result(_WRITE_S)
        _note(store, "engines resume", name, changed, {})
    _said(name, "resumed", changed, "was not drained", as_json)


@engines.command()
@click.option("--config", required=True, type=click.Path(path_type=Path), help="The gateway's YAML file.")
@_NAME
@JSON
def test(config: Path, name: str, as_json: bool) -> None:
    """Ask an engine now, past any gateway: its health check, then one answer of at most 16 tokens."""
    from understudy.settings.file import ConfigError, load_config
    from understudy.settings.reach import out_of_reach
    from understudy.trying_engines import tried

    try:
        settings = load_config(config)
    except ConfigError as error:
        give_up(f"configuration error\n{error}")
    engine, _, replica = name.partition("@")
    if engine not in settings.engines:
        give_up(
            f"there is no engine {engine!r}; known engines: {', '.join(sorted(settings.engines)) or 'none'}"
        )
    if (beyond := out_of_reach(settings.engines, engine)) is not None:
        give_up(beyond)
    told = asyncio.run(tried(settings, engine, replica))
    if not told:
        give_up(f"the engine {engine!r} has no replica {replica!r}")
    if as_json:
        print_json([asdict(one) for one in told])
    for one in () if as_json else told:
        click.echo(f"{_label(one.engine, one.replica)}  {one.said}")
    if not all(one.good for one in told):
        sys.exit(1)


def _listed(store: Store) -> list[dict[str, Any]]:
    states, found = store.jobs.engine_states, []
    drained = states.drained()
    by_engine: dict[str, list[Any]] = {one.engine: [] for one in drained}
    for row in states.now(time.time()):
        by_engine.setdefault(row.engine, []).append(row)
    for name in sorted(by_engine):
        mine = [one for one in drained if one.engine == name]
        told = [{"engine": name, **one} for one in replicas(by_engine[name], mine)]
        seen = {one["replica"] for one in told}
        # Drained, and no worker runs that would tell of it.
        unseen = [one for one in mine if one.replica not in seen and not (told and not one.replica)]
        found += told
        found += [
            {
                "engine": name,
                "replica": one.replica,
                "state": "drained",
                "since_s": one.since_s,
                "in_flight": 0,
                "error": "",
                "error_at_s": None,
            }
            for one in unseen
        ]
    return found


def _note(store: Store, action: str, name: str, changed: bool, detail: Mapping[str, str]) -> None:
    outcome: AuditOutcome = "done" if changed else "failed"
    record = AuditRecord(time.time(), user(), action, name, outcome, "command line", detail)
    store.audit.note(record).result(_WRITE_S)


def _said(name: str, done: str, changed: bool, otherwise: str, as_json: bool) -> None:
    if as_json:
        print_json({"engine": name, "changed": changed})
    else:
        click.echo(f"{name} is {done}: workers follow within a second" if changed else f"{name} {otherwise}")
    if not changed:
        sys.exit(1)


def _label(engine: str, replica: str) -> str:
    return f"{engine}@{replica}" if replica else engine
