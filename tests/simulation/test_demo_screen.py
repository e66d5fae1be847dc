"""What the demo prints to try next can be pasted from a narrow terminal; a score that is not taken is no failed request."""

from __future__ import annotations

import io
import json
import shlex
from types import SimpleNamespace
from typing import Any

import pytest
from openai import OpenAIError
from rich.console import Console

from simulation.demo.client import Client
from simulation.demo.results import Answers
from simulation.demo.screen import Screen

QUESTION = 'What is the miller\'s trade, and "where" does he live?'


def printed() -> list[str]:
    said = io.StringIO()
    console = Console(file=said, force_terminal=True, width=80, no_color=True)
    settings: Any = SimpleNamespace()
    Screen(console, settings).next_steps("http://127.0.0.1:8080", QUESTION)
    return said.getvalue().splitlines()


def test_commands_stand_on_one_line_each_and_are_whole() -> None:
    commands = [shlex.split(line) for line in printed() if line.startswith("curl")]
    assert len(commands) == 3 and all("..." not in words for words in commands)
    for words in commands[:2]:
        body = json.loads(words[words.index("-d") + 1])
        assert body["messages"] == [{"role": "user", "content": QUESTION}]


def test_the_python_snippet_is_python() -> None:
    lines = printed()
    at = lines.index("from openai import OpenAI")
    compile("\n".join(lines[at : at + 3]), "snippet", "exec")
    assert lines[at + 2].startswith("print(")


@pytest.mark.parametrize("fails", [True, False])
async def test_a_score_that_is_not_taken_is_counted_apart(fails: bool) -> None:
    async def post(*_: Any, **__: Any) -> None:
        if fails:
            raise OpenAIError("The store cannot be used just now; try again.")

    sdk, answers = SimpleNamespace(post=post), Answers()
    client: Any = SimpleNamespace(_sdk=lambda ask, headers: sdk)
    await Client._score(client, None, {"score": 1.0}, answers)  # type: ignore[arg-type]
    assert (answers.failures, answers.feedback_refused) == ([], int(fails))
