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
    "rehearse": (
        "understudy.commands.rehearse",
        "rehearse",
        "Ask a small engine past requests, with examples and without.",
    ),
    "evaluate": (
        "understudy.commands.evaluate",
        "evaluate",
        "What would another policy, or another preference, have given? From the log.",
    ),
    "explain": (
        "understudy.commands.explain",
        "explain",
        "Why is so little answered by a smaller engine, and what would it take?",
    ),
    "replay": ("understudy.commands.replay", "replay", "Better the bank of examples, within a budget."),
    "models": ("understudy.commands.models", "models", "List, roll back, freeze and export what was learnt."),
    "tasks": (
        "understudy.commands.tasks",
        "tasks",
        "Requests whose answers are labels: list, propose, enable, pause.",
    ),
    "private": ("understudy.commands.private", "private", "Differentially private banks: status, build."),
    "map": (
        "understudy.commands.map",
        "draw_map",
        "Draw the bank of examples on a plane, for the admin pages.",
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
    """Everything about learning: train by hand, replay, evaluate and explain; versions of what was learnt, and tasks."""
