"""What a command found, for machines."""

from __future__ import annotations

import click
import orjson

JSON = click.option("--json", "as_json", is_flag=True, help="For machines.")
"""`--json`."""


def print_json(found: object) -> None:
    """On standard output, indented."""
    click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
