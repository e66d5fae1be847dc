"""What the demo prints to try next can be pasted from a narrow terminal; a score that is not taken is no failed request."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openai import OpenAIError
from rich.console import Console

from simulation.demo.admin_access import AdminAccess
from simulation.demo.client import Client
from simulation.demo.results import Answers
from simulation.demo.screen import Screen
from simulation.demo.try_it import write_scripts

QUESTION = 'What is the miller\'s trade, and "where" does he live?'


URL = "http://127.0.0.1:8080"


def test_everything_that_is_printed_to_be_typed_fits_into_eighty_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    said = io.StringIO()
    console = Console(file=said, force_terminal=True, width=80, no_color=True)
    settings: Any = SimpleNamespace()
    tries = write_scripts([tmp_path], URL, QUESTION)
    assert tries == ("./try-it.sh", ".venv/bin/python try_it.py")
    Screen(console, settings).next_steps(URL, tries, AdminAccess(URL, "abcde-abcde-abcde-abcde-abcde"))
    lines = said.getvalue().splitlines()
    assert {*tries, f"{tries[0]} small", f"curl {URL}/metrics", URL} <= set(lines)
    assert max(map(len, lines)) <= 80, lines


def test_the_script_sends_the_question_as_it_is(tmp_path: Path) -> None:
    shell, _ = write_scripts([tmp_path], URL, QUESTION)
    curl = tmp_path / "curl"
    curl.write_text('#!/bin/sh\nfor each in "$@"; do last=$each; done; printf \'%s\' "$last"\n')
    curl.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(shell, shell=True, env=environment, capture_output=True, check=True).stdout
    assert json.loads(said)["messages"] == [{"role": "user", "content": QUESTION}]


def test_the_python_file_is_python(tmp_path: Path) -> None:
    write_scripts([tmp_path], URL, QUESTION)
    compile((tmp_path / "try_it.py").read_text("utf-8"), "try_it.py", "exec")


def test_files_of_somebody_else_are_not_replaced(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
    (mine / "try_it.py").write_text("mine = 1\n")
    for _ in range(2):
        shell, _ = write_scripts([mine, other], URL, QUESTION)
        assert shell == str(other / "try-it.sh")
    assert (mine / "try_it.py").read_text() == "mine = 1\n" and not (mine / "try-it.sh").exists()


@pytest.mark.parametrize("fails", [True, False])
async def test_a_score_that_is_not_taken_is_counted_apart(fails: bool) -> None:
    async def post(*_: Any, **__: Any) -> None:
        if fails:
            raise OpenAIError("The store cannot be used just now; try again.")

    sdk, answers = SimpleNamespace(post=post), Answers()
    client: Any = SimpleNamespace(_sdk=lambda ask, headers: sdk)
    await Client._score(client, None, {"score": 1.0}, answers)  # type: ignore[arg-type]
    assert (answers.failures, answers.feedback_refused) == ([], int(fails))
