"""From descriptions to components, of every kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engines.components.component import ABILITIES, SearchShape, ToolShape
from router.embedding.embedder import Embedder
from tests.engines.components.asking import spec
from tests.simulation.simulated import PACE
from understudy.setup.component_registry import component_registry

URL = "http://127.0.0.1:9/x"


def never() -> Embedder:
    raise AssertionError("nobody needed it")


async def test_each_kind_has_its_abilities() -> None:
    made = [
        spec("local"),
        spec("openai", URL),
        spec("rerank", URL),
        spec("search", f"{URL}?q={{query}}", search=SearchShape("", ("/text",))),
        spec("tool", URL, tool=ToolShape({}, None, "")),
        spec("simulated", pace=PACE),
    ]
    assert {one.kind for one in made} == set(ABILITIES)
    components = component_registry({one.kind: replace(one, name=one.kind) for one in made}, never)
    assert set(components.load()) == {(kind, ability) for kind in ABILITIES for ability in ABILITIES[kind]}
    assert [components.effective_batch(kind) for kind in ABILITIES] == [1] * len(ABILITIES)
    assert components.offsets("openai", "a b") == [(0, 1), (2, 3)]
    components.start()
    await components.aclose()


def test_a_url_that_cannot_be_is_named() -> None:
    with pytest.raises(ValueError, match=r"components\.c: its URL holds a placeholder outside its query"):
        component_registry({"c": spec("search", "http://h/{query}", search=SearchShape("", ("",)))}, never)
