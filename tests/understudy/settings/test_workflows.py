"""Settings of runs: what applications may have under way."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.settings.file import ConfigError, parse_config
from understudy.settings.workflows import WorkflowsSettings

SERVED = {"upstream": {"base_url": "http://127.0.0.1:9/v1"}}


def test_each_has_a_default_and_keeps_what_is_said() -> None:
    assert parse_config(SERVED).workflows == WorkflowsSettings()
    said = parse_config({**SERVED, "workflows": {"keep_values_s": 0, "advanced": {"lease_s": 2}}}).workflows
    assert (said.keep_values_s, said.advanced.lease_s, said.max_steps) == (0, 2, 2000)


@pytest.mark.parametrize(
    "wrong", [{"max_steps": 0}, {"max_runs": 0}, {"keep_values_s": -1}, {"max_value_kib": 0}]
)
def test_what_allows_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"workflows\.{next(iter(wrong))}"):
        parse_config({**SERVED, "workflows": wrong})


WORKFLOW = {
    "inputs": {"question": "last_user"},
    "steps": {"answer": {"chat": "{{question}}", "model": "gpt-4o"}},
    "output": "answer",
}
KEPT = {**SERVED, "memory": {"data_dir": None}}


def test_workflows_stand_beside_the_settings_of_runs() -> None:
    config = parse_config({**KEPT, "workflows": {"max_steps": 7, "qa": WORKFLOW}})
    assert config.workflows.max_steps == 7
    assert config.workflows.definitions == {"qa": WORKFLOW}
    found = config.definitions()["qa"]
    assert (found.name, found.output) == ("qa", "answer")
    again = parse_config(config.model_dump(mode="json", exclude_unset=True))
    assert again.workflows == config.workflows


def test_every_fault_of_every_workflow_is_told_at_start() -> None:
    wrong = {"qa": {**WORKFLOW, "output": "x"}, "gpt-4o": WORKFLOW, "slip": {"lease_s": 2}}
    served = {
        "engines": {"large": {"base_url": "http://127.0.0.1:9/v1"}},
        "models": {"gpt-4o": {"engines": ["large"]}},
        "memory": {"data_dir": None},
    }
    with pytest.raises(ConfigError) as raised:
        parse_config({**served, "workflows": wrong})
    assert str(raised.value).splitlines() == [
        'workflows.qa.output is "x": there is no step of this name; there are answer',
        "workflows.gpt-4o: a model is called 'gpt-4o', too; call the workflow something else",
        "workflows.slip.lease_s: there is no such field; there are description, inputs, model, steps, chain, "
        "output, passes",
        "workflows.slip.steps: is missing; write steps by name: {answer: {chat: …}}",
        "workflows.slip.output: is missing; name the step that answers",
    ]


def test_steps_may_ask_what_clients_may_ask_for() -> None:
    served = {
        "engines": {"large": {"base_url": "http://127.0.0.1:9/v1"}},
        "models": {"other": {"engines": ["large"]}},
        "memory": {"data_dir": None},
    }
    with pytest.raises(ConfigError, match=r'steps\.answer\.model is "gpt-4o": there is no such model'):
        parse_config({**served, "workflows": {"qa": WORKFLOW}})
    itself = {**WORKFLOW, "steps": {"answer": {"chat": "{{question}}", "model": "qa"}}}
    with pytest.raises(ConfigError, match='model is "qa": there is no such model'):
        parse_config({**KEPT, "workflows": {"qa": itself}})


def test_workflows_need_somebody_who_keeps_their_runs() -> None:
    with pytest.raises(ConfigError, match="nothing keeps their runs: set `memory`"):
        parse_config({**SERVED, "workflows": {"qa": WORKFLOW}})


def test_a_scalar_beside_the_settings_is_a_slip_and_no_workflow() -> None:
    with pytest.raises(ConfigError, match=r"did you mean workflows\.max_steps\?"):
        parse_config({**SERVED, "workflows": {"max_step": 3}})


def test_a_workflow_that_is_called_as_a_setting_is_told_so() -> None:
    for name in ("advanced", "max_steps"):
        with pytest.raises(ConfigError, match=f"a workflow cannot be called '{name}'"):
            parse_config({**KEPT, "workflows": {name: WORKFLOW}})
