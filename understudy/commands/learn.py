"""`understudy learn bandit|scorer|logs`: training by hand, and what a log of past requests would have saved."""

from __future__ import annotations

import click

from understudy.commands.lazy_group import lazy_group

_COMMANDS = {
    "bandit": ("understudy.commands.learn_bandit", "bandit", "Train a router on labels."),
    "scorer": (
        "understudy.commands.learn_scorer",
        "scorer",
        "Train a scorer of examples on logged outcomes.",
    ),
    "logs": (
        "understudy.commands.learn_logs",
        "logs",
        "What would a log of past requests have saved? Also: --from logs.",
    ),
}


class _Learn(lazy_group(_COMMANDS)):  # type: ignore[misc]
    """`--from logs` stands for the command `logs`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:2] == ["--from", "logs"]:
            args = args[1:]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


@click.group(cls=_Learn)
def learn() -> None:
    """Train by hand, which a running gateway's learner does by itself (docs/explanation/routing.md), or replay a log."""
