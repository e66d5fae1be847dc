"""`understudy reload` and `understudy restart`: have a running gateway take up its changed configuration."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from understudy.processes.control import NobodyThere, control_folder, order

_RELOADS_WITHIN_S = 300.0
_RESTARTS_WITHIN_S = 3600.0

_DATA = click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The gateway's data folder (memory.data_dir); without, a gateway that has none is looked for.",
)
_PID = click.option("--pid", type=int, help="The gateway's process, where several run.")


@click.command()
@_DATA
@_PID
def reload(data: Path | None, pid: int | None) -> None:
    """Read the configuration file anew and serve by it: in every worker, or, where anything is wrong with it, in none.

    Open requests end as they began; what is remembered stays. Status 0: done. 1: refused, saying why; what was in force
    still is. 2: no such gateway.
    """
    _carry_out("reload", data, pid, _RELOADS_WITHIN_S)


@click.command()
@_DATA
@_PID
def restart(data: Path | None, pid: int | None) -> None:
    """Replace the workers one by one: each new one serves before the old one finishes what it has open and ends.

    The configuration file is read anew, and settings may change that a reload refuses. Status as of reload.
    """
    _carry_out("restart", data, pid, _RESTARTS_WITHIN_S)


def _carry_out(what: str, data: Path | None, pid: int | None, timeout_s: float) -> None:
    try:
        verdict = order(control_folder(data), what, pid, timeout_s=timeout_s)
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
