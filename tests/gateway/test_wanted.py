"""What a request asks for, as one value: its models, what it names, and what two servers could read differently."""

from __future__ import annotations

from typing import Any

import pytest

from engines.errors import RequestError
from gateway import wanted
from gateway.access.families import endpoint
from gateway.wanted import Wanted

CHAT = endpoint("POST", "/chat/completions")


def test_every_model_that_may_be_asked_is_named() -> None:
    assert Wanted(CHAT, {"model": "a", "models": ["b", "c"]}).models() == ["a", "b", "c"]
    assert Wanted(CHAT._replace(model="p"), {"model": "a"}).model == "p"
    assert Wanted(CHAT, {"model": "a"}, query="model=a&x=1").models() == ["a", "a"]
    runs = endpoint("POST", "/runs")
    assert Wanted(runs, {"steps": [{"model": "a"}, {"model": "b"}, 7]}).models() == ["a", "b"]
    assert Wanted(runs, {"workflow": "w"}).models() == ["w"]


@pytest.mark.parametrize("query", ["model=b", "model=a&model=b"])
def test_two_models_in_one_request_are_refused(query: str) -> None:
    with pytest.raises(RequestError) as refused:
        Wanted(CHAT, {"model": "a"}, query=query).models()
    assert (refused.value.status, refused.value.code) == (400, "two_models")


@pytest.mark.parametrize("named", [7, {"id": "a"}, ["a"]])
def test_a_model_is_a_text(named: Any) -> None:
    with pytest.raises(RequestError) as refused:
        Wanted(CHAT, {"model": named}).models()
    assert refused.value.code == "invalid_type"


@pytest.mark.parametrize("name", ["Model", "MODEL", "Models", "Store"])
def test_a_field_that_differs_by_its_capitals_alone_is_refused(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        wanted.step({"model": "a", name: "b"})
    assert (refused.value.status, refused.value.code) == (400, "ambiguous_field")


def test_a_step_names_what_a_chat_completion_names() -> None:
    step = {"model": "ft:x", "store": True, "messages": [{"role": "assistant", "audio": {"id": "a"}}]}
    families = {"/fine_tuning", "/chat/completions/stored"}
    assert {one.family for one in wanted.step(step).stored()} == families
    run = Wanted(endpoint("POST", "/runs"), {"steps": [step]})
    assert {one.family for one in run.stored()} == families
