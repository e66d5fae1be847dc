"""`understudy check config.yaml`: validate, and print the effective settings with secrets masked."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import yaml

from understudy.settings.file import ConfigError, load_config


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
def check(path: Path) -> None:
    """Validate a configuration and print its effective settings, secrets masked."""
    try:
        config = load_config(path)
    except ConfigError as error:
        click.echo(f"understudy: configuration error\n{error}", err=True)
        sys.exit(2)
    # In JSON mode pydantic masks SecretStr by itself.
    click.echo(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True), nl=False)
