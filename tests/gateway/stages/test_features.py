"""Which stages a request passes: those that are configured for its model, its API and its kind of key, in one order."""

from __future__ import annotations

from typing import Any, cast

import pytest

from engines.apis import Api
from gateway.in_flight import InFlight
from gateway.served_model import ServedModel
from gateway.stages.features import Features
from router.policies.fixed import Fixed
from tests.gateway.test_pipeline import Scripted

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
