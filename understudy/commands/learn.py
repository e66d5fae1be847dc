"""`understudy learn bandit|scorer`: training by hand, from labels or from what was logged."""

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
}


@click.group(cls=lazy_group(_COMMANDS))
def learn() -> None:
    """Train by hand; a running gateway's learner does the same by itself (docs/explanation/routing.md)."""
