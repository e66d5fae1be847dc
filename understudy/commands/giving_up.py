"""How a command ends that cannot do what it was asked."""

from __future__ import annotations

import sys
from typing import NoReturn

import click


def give_up(why: str, status: int = 2) -> NoReturn:
    """Say why on standard error, and end the process with `status`."""
    click.echo(f"understudy: {why}", err=True)
    sys.exit(status)
