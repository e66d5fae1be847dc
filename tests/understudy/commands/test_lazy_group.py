"""A command is imported when it is called and not before; its help needs nothing of it."""

from __future__ import annotations

import sys

import click
from click.testing import CliRunner

from understudy.commands.lazy_group import lazy_group

COMMANDS = {
    "one": ("tests.understudy.commands.lazy_one", "say", "Says one."),
    "gone": ("tests.understudy.commands.nowhere", "say", "Is nowhere."),
}


@click.group(cls=lazy_group(COMMANDS))
def group() -> None:
    """Some."""


def test_help_names_every_command_and_imports_none() -> None:
    shown = CliRunner().invoke(group, ["--help"])
    assert shown.exit_code == 0 and "Says one." in shown.output and "Is nowhere." in shown.output
    assert "tests.understudy.commands.lazy_one" not in sys.modules


def test_a_command_that_is_called_is_imported_and_runs() -> None:
    said = CliRunner().invoke(group, ["one"])
    assert (said.exit_code, said.output) == (0, "one\n")


def test_a_name_that_is_none_is_refused() -> None:
    refused = CliRunner().invoke(group, ["two"])
    assert refused.exit_code == 2 and "No such command 'two'.\n" in refused.output
    slip = CliRunner().invoke(group, ["onee"])
    assert slip.exit_code == 2 and "Did you mean 'one'?" in slip.output
