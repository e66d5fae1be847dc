"""Which stages a request passes: those that are configured for its model, its API and its kind of key, in one order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from engines.apis import Api
from engines.engine import Price
from engines.errors import RequestError
from gateway.in_flight import InFlight
from gateway.served_model import ServedModel
from gateway.stages.features import Features
from gateway.stages.reach import ReachStage
from gateway.stages.stage import UnderWay
from gateway.stages.unspoken import UnspokenStage
from router.finished import Finished
from router.policies.fixed import Fixed
from tests.gateway.collecting import Collected
from tests.gateway.scripted import Scripted, asked

NOBODY = cast(Any, object())
ALL = {"exact": NOBODY, "in_flight": InFlight(), "similar": NOBODY, "limiter": NOBODY, "guardrails": NOBODY}


def stages(api: Api = "chat", *, keyed: bool = False, remember: bool = True, **configured: Any) -> list[str]:
    model = ServedModel("m", ("one",), Fixed(("one",)), remember=remember)
    features = Features({"one": Scripted("one")}, **configured)
    return [type(one).__name__.removesuffix("Stage") for one in features.stages(model, api, keyed=keyed)]


def test_what_is_not_configured_is_in_no_list() -> None:
    assert stages() == stages("messages") == ["Policy", "Engine"]


def test_all_of_them_in_their_order() -> None:
    outside, inside = ["Guardrail", "Reach", "Limit", "Exact", "SingleFlight"], ["Policy", "Engine"]
    assert stages(keyed=True, **ALL) == [*outside, "Similar", *inside]


def test_of_a_workflow_nothing_is_decided_limited_or_learnt_but_of_its_steps() -> None:
    model = ServedModel("w", ("one",), Fixed(("one",)), remember=False, workflow=True)
    features = Features({"one": Scripted("one")}, workflow=cast(Any, UnspokenStage()), **cast(Any, ALL))
    apis: tuple[Api, ...] = ("chat", "responses", "messages", "completions")
    for api in apis:
        listed = [type(one).__name__ for one in features.stages(model, api, keyed=True)]
        assert listed == ["GuardrailStage", "UnspokenStage", "ExactStage", "SingleFlightStage", "EngineStage"]


@pytest.mark.parametrize(
    ("without", "gone"),
    [
        ({"keyed": False}, {"Reach", "Limit"}),
        ({"api": "responses"}, {"Similar"}),
        ({"remember": False}, {"Similar"}),
        ({"limiter": None}, {"Limit"}),
        ({"in_flight": None}, {"SingleFlight"}),
        ({"exact": None}, {"Exact", "SingleFlight"}),
        ({"guardrails": None}, {"Guardrail"}),
    ],
)
def test_a_key_an_api_and_a_model_have_their_own(without: dict[str, Any], gone: set[str]) -> None:
    everything = stages(keyed=True, **ALL)
    assert stages(**{"keyed": True, **ALL, **without}) == [one for one in everything if one not in gone]


async def test_an_api_that_no_engine_speaks_is_refused_after_who_may_ask() -> None:
    engine = Scripted("one")
    engine.info = replace(engine.info, apis=frozenset({"chat"}))
    model = ServedModel("m", ("one",), Fixed(("one",)))
    made = Features({"one": engine}, **ALL).stages(model, "messages", keyed=True)
    assert [type(one) for one in made][1:] == [ReachStage, UnspokenStage]
    ended: list[Finished] = []
    request = UnderWay(asked(), model, Collected(), ended.append, Price())
    with pytest.raises(RequestError, match="speaks the API at /chat/completions") as refused:
        await made[-1].answer(request, cast(Any, None))
    assert (refused.value.status, refused.value.code) == (404, "api_not_spoken")
