"""`understudy load ...` and `python -m loadtest ...`: the table of commands, each imported only when it is called."""

from __future__ import annotations

import importlib
from typing import Any

import click

_COMMANDS = {
    "run": "Offer load to an OpenAI-compatible endpoint and report.",
    "compare": "Compare endpoints in alternating short rounds.",
    "sweep": "Find the highest rate that meets an SLO, or walk a quality dial.",
    "apps": "Play applications whose calls feed each other.",
    "serve-mock": "Serve a fast mock upstream.",
}

_EXTRA = {"rich": "rich", "hdrh": "hdrhistogram", "plotly": "plotly"}
"""Module to package, for modules that only the extra `load` installs."""


class LazyGroup(click.Group):
    """A click group whose commands live in `loadtest.commands` and are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands' names, in the order of the help text."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module and returns its `command`."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"loadtest.commands.{cmd_name.replace('-', '_')}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; names the extra if one of its packages is not installed."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            package = _EXTRA.get((error.name or "").partition(".")[0])
            if package is None:
                raise
            raise click.ClickException(
                f"this needs the package {package}: pip install 'understudy-gateway[load]'"
            ) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=LazyGroup)
def load() -> None:
    """Load-test any OpenAI-compatible endpoint, from outside: see docs/how-to/load-test.md."""


if __name__ == "__main__":
    load(prog_name="loadtest")
