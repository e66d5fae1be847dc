"""Nothing is declared: labels are found to be a task and come from its student, open texts from the small engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from learning.tasks.proposals import LEAST_ANSWERS
from tests.flow.line import Asked, Got, completion, line, upstream
from tests.flow.tasks import MOST, SYSTEM, Flow, right
from understudy.settings.file import parse_config
from understudy.setup.learner import learning

STORY = "Tell a story of one sentence."


def says(labels: Callable[[str], str]) -> Callable[[web.Request, Asked], object]:
    """An engine that tells stories as any other would, and labels in a way of its own."""

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        if request.path.endswith("/models"):
            return web.json_response({"data": []})
        messages = asked.json["messages"]
        text = messages[-1]["content"].strip()
        story = f"Once there was {text.lower()} It lived happily for a good many years after that."
        return web.json_response(completion(labels(text) if messages[0]["content"] == SYSTEM else story))

    return script


@pytest.mark.slow
async def test_a_found_tasks_student_answers_labels_and_the_small_engine_open_text(tmp_path: Path) -> None:
    async with upstream() as small, upstream() as large:
        small.script, large.script = says(lambda text: "nothing"), says(right)  # type: ignore[assignment]
        config = {
            "engines": {
                name: {"base_url": url, "api_key": "none"}
                for name, url in (("small", small.url), ("large", large.url))
            },
            "models": {
                "gpt-4o": {
                    "engines": ["small", "large"],
                    "policy": "few_shot",
                    "proof": "on",
                    "max_loss": 0.3,
                },
            },
            "memory": {"data_dir": str(tmp_path)},
        }
        async with line(config) as gate:
            with learning(parse_config(config), lambda: False) as learner:
                made = Flow(gate, large, learner.students)

                async def until(engine: str, system: str, at_once: int = 8) -> int:
                    """Ask until this engine answers; gives how many requests that took."""
                    for number in range(0, MOST, at_once):
                        asking = (
                            made.ask(f"{made.text()} {number} {n}", system=system) for n in range(at_once)
                        )
                        answers: list[Got] = await asyncio.gather(*asking)
                        by = [got.headers["x-understudy-engine"] for got in answers]
                        other = {"small": "student", "student": "small"}[engine]
                        assert other not in by, "each kind of request has its own cheap way"
                        if engine in by:
                            return number + by.index(engine) + 1
                        await made.learn()
                        await asyncio.to_thread(learner.tasks.step)
                    raise AssertionError(f"{engine} answered nothing")

                assert await until("student", SYSTEM) > LEAST_ANSWERS
                assert await until("small", STORY) > 20
                (task,) = made.store.tasks.known.all()
                assert (task.source, task.state, set(task.labels)) == (
                    "proposal",
                    "on",
                    {"refund", "delivery", "password"},
                )
