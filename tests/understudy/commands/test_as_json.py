"""What commands tell machines is JSON on standard output, and nothing else."""

from __future__ import annotations

import json

import click
from click.testing import CliRunner

from understudy.commands.as_json import JSON, print_json


@click.command()
@JSON
def told(as_json: bool) -> None:
    if as_json:
        print_json({"name": "Ä", "at": None})


def test_what_was_found_is_told_as_json() -> None:
    found = CliRunner().invoke(told, ["--json"])
    assert json.loads(found.stdout) == {"name": "Ä", "at": None} and found.stderr == ""
