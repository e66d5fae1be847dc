"""`understudy learn bandit|scorer`: training by hand, from labels or from what was logged."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "bandit": ("gateway.commands.learn_bandit", "bandit"),
    "scorer": ("gateway.commands.learn_scorer", "scorer"),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Lazy)
def learn() -> None:
    """Train by hand; a running gateway's learner does the same by itself (docs/routing.md)."""
