"""A group of commands, each imported only when it is asked for: `understudy --help` must be quick."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping

import click

from understudy.shadowed import shadowed

Command = tuple[str, str, str]
"""Module, attribute, help."""


class CannotImport(click.ClickException):
    """The installation is not as it must be."""

    exit_code = 2


def lazy_group(commands: Mapping[str, Command]) -> type[click.Group]:
    """A class for `click.group(cls=...)`: the commands by their names, in the order given."""

    class Lazy(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(commands)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in commands:
                return None
            # Before anything of ours but understudy itself: an ImportError would not say why.
            if (told := shadowed()) is not None:
                raise CannotImport(told)
            module, attribute, _ = commands[cmd_name]
            command = getattr(importlib.import_module(module), attribute)
            assert isinstance(command, click.Command)
            return command

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            # click looks for names alike among the commands that it has imported, which are none.
            name = args[0]
            if name not in commands and not name.startswith("-") and not ctx.resilient_parsing:
                near = difflib.get_close_matches(name, commands, n=1)
                ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
            return super().resolve_command(ctx, args)

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, text) for name, (_, _, text) in commands.items()])

    return Lazy
