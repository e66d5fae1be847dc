"""What is assumed of engines and components where nobody has asked them: drawings are made of it."""

from __future__ import annotations

from tests.admin.site import ENGINES
from understudy.settings.file import parse_config
from understudy.setup.assumed_profile import profile


def test_what_a_configuration_tells_is_taken_and_the_rest_is_assumed() -> None:
    simulated = {"kind": "simulated"}
    models = {**ENGINES["models"], "plain": {"engines": ["large"], "policy": "fixed"}}
    components = {"small-batches": {**simulated, "batch": 4}, "measured": simulated}
    told = profile(parse_config({**ENGINES, "models": models, "components": components}))
    assert told.effective_batch == {"local": 1, "small-batches": 4, "measured": 16}


def test_without_a_configuration_there_is_the_local_embedder() -> None:
    assert profile(None).effective_batch == {"local": 1}
