"""`understudy engines list|drain|resume|test`: how engines stand, and who is to be asked, without the admin pages."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path

import click

from admin.operations.engines import drain, resume
from admin.page import Asked, Summary
from admin.sources import Sources
from admin.summaries.engine_load import engine_load
from understudy.commands.as_json import JSON, print_json
from understudy.commands.configured import config_in
from understudy.commands.giving_up import give_up
from understudy.commands.kv_plan import kv_plan
from understudy.commands.made import command, reading


@click.group()
def engines() -> None:
    """How engines stand; drain, resume and test them, or one replica: NAME@HOST:PORT."""


def listed(sources: Sources, asked: Asked) -> Summary:
    """Each engine, or each of its replicas, that running workers tell of or that is drained."""
    found = []
    for load in engine_load(sources, asked.now_s):
        alone = {
            "replica": "",
            "state": load["state"],
            "since_s": load["since_s"],
            "in_flight": 0,
            "error": "",
        }
        found += [{"engine": load["name"], **one} for one in load["replicas"] or [alone]]
    seen = {(one["engine"], one["replica"]) for one in found}
    for one in sources.store.jobs.engine_states.drained():
        if (one.engine, one.replica) not in seen and one.replica:
            found.append(
                {"engine": one.engine, "replica": one.replica, "state": "drained", "since_s": one.since_s}
            )
    return {"engines": [one | {"since_at_s": one["since_s"]} for one in found]}


engines.add_command(
    reading(
        "list",
        "List the engines that running workers tell of, and drained ones: state, since when, latest error.",
        listed,
        rows="engines",
        tables={"engines": ("engine", "replica", "state", "since_at_s", "in_flight", "error")},
        texts=True,
        nothing="no worker tells of any engine: is the gateway running on this data folder?",
    )
)
engines.add_command(kv_plan)
engines.add_command(command(drain))
engines.add_command(command(resume))


@engines.command()
@click.option("--config", required=True, type=click.Path(path_type=Path), help="The gateway's YAML file.")
@click.argument("name", metavar="NAME[@HOST:PORT]")
@JSON
def test(config: Path, name: str, as_json: bool) -> None:
    """Ask an engine now, past any gateway: its health check, then one answer of at most 16 tokens.

    An engine that is sent its clients' own keys gets the health check only. Exit status 1 if one of the two fails.
    """
    from understudy.settings.reach import out_of_reach
    from understudy.trying_engines import tried

    settings = config_in(config)
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
        click.echo(f"{one.engine}{'@' if one.replica else ''}{one.replica}  {one.said}")
    if not all(one.good for one in told):
        sys.exit(1)
