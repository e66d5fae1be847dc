"""`understudy check config.yaml`: validate, and print the effective settings with secrets masked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import yaml
from pydantic import BaseModel

from understudy.settings.file import ConfigError, load_config


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Print advanced settings that are not set, too.")
def check(path: Path, everything: bool) -> None:
    """Validate a configuration and print its effective settings, secrets masked."""
    try:
        config = load_config(path)
    except ConfigError as error:
        click.echo(f"understudy: configuration error\n{error}", err=True)
        sys.exit(2)
    for told in config.unspoken():
        click.echo(f"understudy: warning: {told}", err=True)
    # In JSON mode pydantic masks SecretStr by itself.
    shown = config.model_dump(mode="json")
    if not everything:
        _leave_out_unset(config, shown)
    click.echo(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True), nl=False)


def _leave_out_unset(group: BaseModel, shown: dict[str, Any]) -> None:
    """Take away what nobody set of the `advanced` blocks in `shown`, which has the values of `group`."""
    for name in type(group).model_fields:
        value = getattr(group, name)
        if name == "advanced":
            shown[name] = {key: shown[name][key] for key in shown[name] if key in value.model_fields_set}
            if not shown[name]:
                del shown[name]
        elif isinstance(value, BaseModel):
            _leave_out_unset(value, shown[name])
        elif isinstance(value, dict):
            for key, one in value.items():
                if isinstance(one, BaseModel):
                    _leave_out_unset(one, shown[name][key])
