"""Ids of responses are noted with their owner and engine; those of no upstream are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from engines.codecs.responses import RESPONSES
from gateway.keepers.response import ResponseKeeper
from gateway.response_owners import ITEM, KEPT, RESPONSE
from router.asked import Controls
from router.finished import Finished
from store import Store
from tests.engines.codecs.test_response_answer import from_object, response
from tests.finished import finished


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "data")
    yield opened
    opened.close()


def answered(more: dict[str, Any] | None = None, **changes: Any) -> Finished:
    fields = {"model": "m", "input": "Hi"} | (more or {})
    chat = RESPONSES.read(orjson.dumps(fields), fields)
    wanted = {"assembled": from_object(orjson.dumps(response())), "engine": "small", "from_reference": True}
    return finished(chat, **(wanted | changes))


def keep(store: Store, what: Finished) -> list[str]:
    kinds = []
    for kind, future in ResponseKeeper(store.owned, store.answers.responses).keep(what):
        assert not isinstance(future, str)
        future.result(30)
        kinds.append(kind)
    return kinds


def test_an_answer_of_the_reference_is_noted_and_not_kept(store: Store) -> None:
    assert keep(store, answered()) == ["response_id", "response_id"]
    owned, item = store.owned.find("resp_1", "a1"), store.owned.find("msg_1", "a1")
    assert owned is not None and (owned.kind, owned.engine) == (RESPONSE, "small")
    assert item is not None and item.kind == ITEM
    assert store.answers.responses.get("resp_1", "a1") is None


def test_an_answer_of_another_engine_is_kept_with_what_it_answered(store: Store) -> None:
    assert keep(store, answered(from_reference=False))[-1] == "response"
    owned, kept = store.owned.find("resp_1", "a1"), store.answers.responses.get("resp_1", "a1")
    assert owned is not None and owned.kind == KEPT and kept is not None
    assert orjson.loads(kept.response) == response()
    assert orjson.loads(kept.input)[0]["content"][0]["text"] == "Hi"
    item = store.answers.responses.get("msg_1", "a1")
    assert item is not None and orjson.loads(item.response) == response()["output"][0]


def test_an_answer_that_depends_on_an_engines_state_is_that_engines(store: Store) -> None:
    keep(store, answered({"previous_response_id": "resp_0"}, from_reference=False))
    assert store.answers.responses.get("resp_1", "a1") is None
    keep(store, answered(from_reference=False, controls=Controls(no_store=True)))
    assert store.answers.responses.get("resp_1", "a1") is None


@pytest.mark.parametrize(
    ("fields", "changes"),
    [({"store": False}, {}), ({}, {"hit": b"{}"}), ({}, {"status": 400}), ({}, {"assembled": None})],
    ids=["not to be stored", "hit", "error", "unreadable"],
)
def test_nothing_else_is_noted(store: Store, fields: dict[str, Any], changes: dict[str, Any]) -> None:
    assert keep(store, answered(fields, **changes)) == []
