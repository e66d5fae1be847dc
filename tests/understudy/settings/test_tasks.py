"""A task that cannot work is refused at the start: the message names the setting, its value, and what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.settings.config import Config
from understudy.settings.file import ConfigError, parse_config

ENGINE = {"base_url": "http://127.0.0.1:9/v1", "model": "m"}
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"enum": ["x", "y"]}}}


def config(
    task: Any = None, *, name: str = "intent", model: dict[str, Any] | None = None, **more: Any
) -> Config:
    task = {"labels": ["refund", "order"], "system": "classify"} if task is None else task
    served = {"engines": ["large"], "tasks": {name: task}, **(model or {})}
    given: dict[str, Any] = {
        "engines": {"large": ENGINE},
        "models": {"gpt": served},
        "memory": {"data_dir": "/x"},
    }
    return parse_config(given | more)


def test_a_task_is_read_with_its_budget() -> None:
    task = config({"labels": ["a", "b"], "budget": {"share": 0.2}}).models["gpt"].tasks["intent"]
    assert task.labels == ("a", "b") and task.budget is not None and task.budget.share == 0.2
    assert task.strategy == "margin" and task.retrain_every == 100


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (
            {"labels": ["Refund", "order", "refund."]},
            ("tasks.intent.labels", "'Refund' and 'refund.' are the same label"),
        ),
        ({"labels": ["refund"]}, ("tasks.intent.labels", "two or more")),
        ({"labels": ["refund", " _ "]}, ("tasks.intent.labels", "nothing but marks")),
        ({"json_schema": SCHEMA}, ("tasks.intent.json_schema", "2 enums", "just one")),
        (
            {"json_schema": {"type": "object", "properties": {"a": {}}}},
            ("json_schema", "no property of it is an enum"),
        ),
        (
            {"labels": ["a", "b"], "json_schema": {**SCHEMA, "properties": {"a": {"enum": ["x", "y"]}}}},
            ("one of them",),
        ),
        ({"system": "(classify"}, ("tasks.intent.system", "'(classify'", "regular expression")),
        ({"budget": {"share": 0}}, ("budget.share is 0", "greater than 0")),
        ({"budget": {"share": 1.5}}, ("budget.share is 1.5", "less than or equal to 1")),
        ({"budget": {"calls_per_day": 0}}, ("budget.calls_per_day is 0", "greater than or equal to 1")),
        ({"budget": {"usd_per_day": -1}}, ("budget.usd_per_day is -1",)),
        ({"budget": {}}, ("tasks.intent.budget", "set just one")),
        ({"budget": {"share": 0.5, "calls_per_day": 5}}, ("tasks.intent.budget", "set just one")),
        ({"budget": {"usd_per_day": 5}}, ("tasks.intent.budget.usd_per_day is 5", "engines.large.price")),
        ({"strategy": "front_loading"}, ("tasks.intent", "front_loading", "set budget")),
        ({"strategy": "dice"}, ("tasks.intent.strategy is 'dice'", "margin")),
        ({"max_loss": 0}, ("tasks.intent.max_loss is 0",)),
        ({"retrain_every": 0}, ("tasks.intent.retrain_every is 0",)),
        (
            {"retrain": "0 25 * * *"},
            ("tasks.intent.retrain", "'0 25 * * *' is no cron expression", "five fields"),
        ),
        ({"retrain": "nightly"}, ("tasks.intent.retrain", "'nightly' is no cron expression")),
        ({"label": ["a", "b"]}, ("tasks.intent.label", "did you mean models.gpt.tasks.intent.labels?")),
    ],
)
def test_a_task_that_cannot_work_is_refused_by_name(task: dict[str, Any], said: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refused:
        config(task)
    assert all(each in str(refused.value) for each in said), refused.value


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"name": "my task"}, "'my task' is no name of a task"),
        ({"memory": None}, "models.gpt.tasks names tasks, but nothing is remembered"),
        ({"memory": {"examples": {"enabled": False}}}, "examples.enabled left on"),
        ({"model": {"remember": False}}, "models.gpt: tasks names tasks, but remember is false"),
        ({"engines": {"large": ENGINE, "student": ENGINE}}, "engines.student has the name"),
    ],
)
def test_a_task_where_none_can_work_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(**more)


def test_an_enum_is_a_task_by_itself_only_where_the_reference_does_not_always_answer() -> None:
    engines = {"large": ENGINE | {"price": {"input_usd_per_mtok": 1}}, "small": ENGINE}
    assert not config().models["gpt"].find_tasks
    assert config(model={"advanced": {"find_tasks": True}}).models["gpt"].find_tasks
    learned = {"engines": ["small", "large"], "policy": "few_shot"}
    assert config(model=learned, engines=engines).models["gpt"].find_tasks
