"""What a configuration cannot do is not offered, and what fails is said in words that hold no content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admin.actions import NotDone, OperatorFeedback
from store import Store
from tests.admin.site import ENGINES
from tests.flow.line import completion
from tests.flow.upstream import Call, Upstream
from tests.store.rows import answer, request_record
from understudy.operator_actions import AdminActions
from understudy.settings.file import parse_config


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def made(store: Store, **changes: Any) -> AdminActions:
    memory = {"data_dir": str(store.folder), **changes.pop("memory", {})}
    return AdminActions(parse_config({**ENGINES, "memory": memory, **changes}), store)


def test_without_feedback_examples_or_texts_nothing_of_them_is_offered(store: Store) -> None:
    bare = made(
        store,
        feedback={"enabled": False},
        memory={"examples": {"enabled": False}, "request_texts": {"enabled": False}},
        models={"demo": {"engines": ["small", "large"], "policy": "fixed"}},
    ).actions()
    assert bare.give_feedback is None and bare.embed is None and not bare.texts_kept
    full = made(store).actions()
    assert (
        full.give_feedback is not None and full.ask is not None and full.embed is not None and full.texts_kept
    )


async def test_feedback_on_what_is_not_there_is_not_done_and_says_so(store: Store) -> None:
    hands = made(store)
    say = hands.actions().give_feedback
    assert say is not None
    with pytest.raises(NotDone, match="No answer"):
        await say(OperatorFeedback("a1", "req-404", "ann", thumb="up", comment="axolotl"))
    await hands.aclose()


async def test_an_engine_that_does_not_exist_is_named_and_one_that_does_is_closed(store: Store) -> None:
    hands = made(store)
    ask = hands.actions().ask
    assert ask is not None
    with pytest.raises(NotDone, match="nobody"):
        await ask("nobody", [{"role": "user", "content": "Q?"}], "demo")
    reply = await ask("large", [{"role": "user", "content": "What is two and two?"}], "demo")
    assert reply.text and reply.cost_usd > 0 and reply.engine == "large"
    await hands.aclose()


async def test_an_engine_without_a_model_is_asked_for_the_requests_and_a_refusal_is_told_in_words(
    store: Store,
) -> None:
    asked: list[str] = []

    def answers(call: Call) -> None:
        asked.append(json.loads(call.body)["model"])
        call.answer(
            json.dumps(completion("Four.")).encode() if len(asked) == 1 else b"{}",
            200 if len(asked) == 1 else 401,
        )

    upstream = Upstream()
    upstream.plays(answers)
    base_url = f"http://127.0.0.1:{upstream.port}/v1"
    engines = {
        "far": {"base_url": base_url, "api_key": "k"},
        "keyless": {"base_url": base_url, "advanced": {"forwards_client_key": True}},
    }
    hands = made(store, engines=engines, models={"gpt-4o": {"engines": ["keyless", "far"]}})
    ask, question = hands.actions().ask, [{"role": "user", "content": "What is two and two?"}]
    assert ask is not None
    try:
        assert (await ask("far", question, "gpt-4o")).text == "Four." and asked == ["gpt-4o"]
        with pytest.raises(NotDone, match=r"far did not answer: .*401"):
            await ask("far", question, "gpt-4o")
        with pytest.raises(NotDone, match="its clients' own keys"):
            await ask("keyless", question, "gpt-4o")
        assert len(asked) == 2
    finally:
        await hands.aclose()
        upstream.close()


def test_texts_are_embedded_with_the_model_that_is_opened_on_demand(store: Store) -> None:
    from tests.flow.line import MODELS

    hands = made(store, memory={"advanced": {"embedding_cache_dir": str(MODELS)}}).actions()
    assert hands.embed is not None
    one, two = hands.embed("hidden files on Linux"), hands.embed("files that are hidden in Linux")
    assert float(one @ two) > 0.8 and hands.embedding_version()


@pytest.mark.parametrize("said", [{"thumb": "down"}, {"score": 0.0}], ids=["thumb", "score"])
async def test_an_answer_that_an_operator_finds_wrong_is_given_again_by_no_worker(
    store: Store, said: dict[str, Any]
) -> None:
    worker = Store.open(store.folder)
    for number in (1, 2):
        worker.answers.exact.put(b"%d" % number, "a1", answer(), request_id=f"req-{number}").result(30)
    worker.decisions.requests.record(request_record(1, outcome="answered")).result(30)
    assert worker.answers.exact.get(b"1", 1001.0)
    hands = made(store, memory={"examples": {"enabled": False}}, models={"demo": {"engines": ["large"]}})
    say = hands.actions().give_feedback
    assert say is not None
    await say(OperatorFeedback("a1", "req-1", "ann", **said))
    assert worker.answers.exact.get(b"1", 1001.0) is None
    assert worker.answers.exact.get(b"2", 1001.0)
    await hands.aclose()
    worker.close()
