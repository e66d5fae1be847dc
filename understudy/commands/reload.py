"""`understudy reload`: have a running gateway take up its changed configuration."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from understudy.processes.control import NobodyThere, control_folder, order

_WITHIN_S = 3600.0


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The gateway's data folder (memory.data_dir); without, a gateway that has none is looked for.",
)
@click.option("--pid", type=int, help="The gateway's process, where several run.")
def reload(data: Path | None, pid: int | None) -> None:
    """Read the configuration file anew and replace the workers one by one: each old one ends once its successor serves.

    Open requests end where they began, within listen.grace_s. Status 0: done. 1: refused, saying why; what was in force
    still is. 2: no such gateway.
    """
    try:
        verdict = order(control_folder(data), "reload", pid, timeout_s=_WITHIN_S)
    except NobodyThere as error:
        click.echo(f"understudy: {error}", err=True)
        sys.exit(2)
    except (OSError, ValueError, TypeError) as error:
        click.echo(f"understudy: the gateway did not answer: {error or type(error).__name__}", err=True)
        sys.exit(2)
    if verdict.done:
        click.echo(verdict.text)
        return
    click.echo(f"understudy: refused; what was in force still is\n{verdict.text}", err=True)
    sys.exit(1)
