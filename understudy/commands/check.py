"""`understudy check config.yaml`: validate, and print the effective settings with secrets masked."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import BaseModel

from understudy.commands.configured import config_in
from understudy.settings.config import Config
from understudy.settings.core_yaml import Dumper
from understudy.settings.doubts import doubts
from understudy.settings.unpriced import unpriced


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Print advanced settings that are not set, too.")
@click.option(
    "--live", is_flag=True, help="Ask each engine whether it is there, takes its key and has its model."
)
@click.option(
    "--ask",
    is_flag=True,
    help="With --live: ask each for an answer of one token, too, and examine judges, which may cost.",
)
def check(path: Path, everything: bool, live: bool, ask: bool) -> None:
    """Validate a configuration and print its effective settings, secrets masked.

    Exits with 2 for one that cannot be used, or whose budgets refuse every request of a key or tenant.
    """
    config = config_in(path)
    refused = unpriced(config).everything
    for told in doubts(config):
        click.echo(f"understudy: {'error' if told in refused else 'warning'}: {told}", err=True)
    if refused:
        sys.exit(2)
    if live or ask:
        sys.exit(_live(config, ask=ask))
    # In JSON mode pydantic masks SecretStr by itself.
    shown = config.model_dump(mode="json", by_alias=True)
    if not everything:
        _leave_out_unset(config, shown)
    click.echo(yaml.dump(shown, Dumper=Dumper, sort_keys=False, allow_unicode=True), nl=False)


def _live(config: Config, *, ask: bool) -> int:
    """Prints a line per engine. 0 where all of them work, else 1."""
    # Imported here: engines weigh more than a validation needs.
    from understudy.live_check import live_check
    from understudy.setup.engines import EngineMissing

    try:
        found = asyncio.run(live_check(config, ask_too=ask))
    except EngineMissing as error:
        click.echo(f"understudy: {error}", err=True)
        return 1
    for one in found:
        click.echo(f"{'ok    ' if one.works else 'FAILED'} {one.name}: {one.told}")
    if not found:
        click.echo("There is no engine to ask over HTTP.")
    return 0 if all(one.works for one in found) else 1


def _leave_out_unset(group: BaseModel, shown: dict[str, Any]) -> None:
    """Take away what nobody set of the `advanced` blocks in `shown`, which has the values of `group`."""
    for name, field in type(group).model_fields.items():
        value, key = getattr(group, name), field.alias or name
        if name == "advanced":
            shown[name] = {each: shown[name][each] for each in shown[name] if each in value.model_fields_set}
            if not shown[name]:
                del shown[name]
        elif isinstance(value, BaseModel):
            _leave_out_unset(value, shown[key])
        elif isinstance(value, dict):
            for each, one in value.items():
                if isinstance(one, BaseModel):
                    _leave_out_unset(one, shown[key][each])
