"""What else a request leaves behind: bodies, parameters, tools, errors; of failures, too, and of repeats their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.chat import ChatRequest
from engines.errors import Kind
from engines.trail import Tried
from gateway.keepers.details import details_of
from gateway.keepers.request import RequestKeeper
from gateway.keepers.screening import Screen
from gateway.keepers.text import Allowance, TextKeeper
from router.finished import Finished, Outcome
from router.plan import Attempt
from store import Store
from store.admission import Admission
from store.decisions.details import RequestDetails
from store.decisions.kept_details import KeptDetails
from store.errors import StoreBusy, ValueRefused
from tests.finished import finished, whole
from tests.gateway.keepers.test_choice import WITH, plan
from tests.knobs import admission_settings

KEY = "sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGh"
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
}
SAID = {
    "id": "chatcmpl-1",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Warm.", "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        }
    ],
}
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Of ann@acme.com.", "parameters": {}},
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with_store = Store.open(tmp_path)
    yield with_store
    with_store.close()


def chat(text: str = "Q?", **fields: Any) -> ChatRequest:
    messages = fields.pop("messages", [{"role": "user", "content": text}])
    body = {"model": "m", "messages": messages, **fields}
    return ChatRequest(json.dumps(body).encode(), body, "m", messages, stream=False, include_usage=False)


def asked(request: ChatRequest, **changes: Any) -> Finished:
    wanted = {
        "body": json.dumps(SAID).encode(),
        "plan": plan(WITH),
        "attempt": Attempt("large"),
        "key_id": "key_1",
    }
    return finished(request, **(wanted | changes))


def keep(keeper: RequestKeeper, what: Finished) -> None:
    assert all(isinstance(why, str) for _, why in keeper.keep(what))
    for _, future, count in keeper.write():
        future.result(30)
        assert count == 1


def kept(store: Store, what: Finished, **changes: Any) -> RequestDetails:
    texts = TextKeeper(
        store.decisions.texts,
        Admission(admission_settings()),
        changes.pop("allowance", Allowance(1.0)),
        max_bytes=changes.pop("max_bytes", 10_000),
    )
    keeper = RequestKeeper(store.decisions.requests, store.decisions.usage, texts=texts, secret=store.secret)
    keep(keeper, what)
    found = store.decisions.details.get(what.arrival.tenant, what.arrival.id)
    assert found is not None
    return found


def test_parameters_tools_and_bodies_are_kept_without_what_is_private(store: Store) -> None:
    request = chat(
        "I am ann@acme.com.",
        temperature=0.5,
        tools=[TOOL],
        user="ann@acme.com",
        metadata={"session_id": "s1"},
    )
    got = request.changed({"model": "large-v1"})
    found = kept(store, asked(request, engine_got=got))
    assert found.parameters == {"temperature": 0.5, "metadata": {"session_id": "s1"}}
    assert [one.name for one in found.tools_offered] == ["get_weather"]
    assert [(c.name, c.arguments) for c in found.tools_called] == [("get_weather", '{"city": "Rome"}')]
    assert found.finish_reasons == ("tool_calls",) and found.completion_id == "chatcmpl-1"
    assert found.session_name == "s1" and found.session and found.user and found.end_user
    assert found.changes == {"model": "large-v1"}
    assert found.came is not None and found.came.value["messages"] == [
        {"role": "user", "content": "I am [EMAIL]."}
    ]
    assert found.back is not None and found.back.value["choices"][0]["message"]["tool_calls"] == [CALL]
    assert "ann@acme.com" not in str(found) and not found.no_text


def test_a_failure_keeps_its_prompt_what_its_client_was_told_and_what_each_engine_said(store: Store) -> None:
    trail = (
        Tried(
            "small", "r0", Kind.SERVER, 503, 0.1, "", b'{"error": {"message": "ann@acme.com is overloaded"}}'
        ),
        Tried("large", "", Kind.CONNECT, 0, 0.2, "No connection to 127.0.0.1:9: refused."),
    )
    told = "No connection to 127.0.0.1:9: refused."
    failed = asked(
        chat("Why not?"),
        outcome=Outcome.FAILED,
        status=502,
        told=told,
        error=told,
        attempt=None,
        trail=trail,
        body=b"",
    )
    found = kept(store, failed)
    assert (found.error_kind, found.error) == ("connect", told)
    assert [(a.engine, a.kind, a.status, a.error) for a in found.attempts] == [
        ("small", "server", 503, "[EMAIL] is overloaded"),
        ("large", "connect", 0, told),
    ]
    assert found.came is not None and found.came.value["messages"][0]["content"] == "Why not?"
    row = store.decisions.requests.get("req-1")
    assert row is not None and "overloaded" not in row.trail and "refused" in row.trail


def test_an_error_that_was_passed_on_is_kept_as_it_came(store: Store) -> None:
    body = whole(b'{"error": {"message": "temperature is 9", "type": "invalid_request_error"}}')
    found = kept(store, asked(chat(), outcome=Outcome.UPSTREAM_ERROR, status=400, body=body, assembled=None))
    assert (found.error, found.error_kind) == ("temperature is 9", "status_400")
    assert found.back is not None and found.back.value["error"]["type"] == "invalid_request_error"


def test_a_refusal_tells_its_code_and_its_words(store: Store) -> None:
    refused = asked(
        chat(),
        outcome=Outcome.REFUSED,
        status=400,
        error="unknown_engine",
        told="There is no 'x'.",
        attempt=None,
    )
    found = kept(store, refused)
    assert (found.error_kind, found.error) == ("unknown_engine", "There is no 'x'.")


def test_what_is_too_long_is_cut_and_how_much_is_said(store: Store) -> None:
    long = {
        **SAID,
        "choices": [{"index": 0, "message": {"content": "word " * 1000}, "finish_reason": "stop"}],
    }
    messages = [{"role": "user", "content": f"{n} " + "x " * 400} for n in range(5)]
    found = kept(store, asked(chat(messages=messages), body=json.dumps(long).encode()), max_bytes=1000)
    assert found.answer_left_out == 4000 and found.messages_left_out == 4
    assert found.came is not None and found.came.cut and len(found.came.value["messages"]) == 1
    assert found.back is not None and found.back.cut


def test_an_answer_that_was_too_large_to_be_read_is_said_to_be_left_out(store: Store) -> None:
    found = kept(store, asked(chat(), body=whole(b""), assembled=None))
    assert found.answer_left_out == 0
    from engines.answers.answer import Body

    large = finished(
        chat(), body=Body((), 5_000_000, "application/json"), id="req-2", attempt=WITH, assembled=None
    )
    assert kept(store, large).answer_left_out == 5_000_000


def test_a_repeat_keeps_who_asked_again(store: Store) -> None:
    first = asked(chat(user="ann"), exact_key=b"k")
    kept(store, first)
    again = asked(
        chat(user="bob"), id="req-2", exact_key=b"k", hit=b"{}", outcome=Outcome.HIT, attempt=None, plan=None
    )
    found = kept(store, again)
    assert (found.user, found.of_another) == ("bob", "req-1") and found.came is not None


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("secrets", {"request": chat(f"My key is {KEY}.")}),
        ("opted_out_model", {"remember": False}),
        ("busy", {"allowance": Allowance(0.0)}),
    ],
)
def test_the_row_says_why_there_is_no_text(store: Store, why: str, changes: dict[str, Any]) -> None:
    allowance = changes.pop("allowance", None) or Allowance(1.0)
    if why == "busy":
        allowance.spend(10)
    found = kept(store, asked(changes.pop("request", chat()), **changes), allowance=allowance)
    assert found.no_text == why and found.came is None


def test_without_a_log_of_texts_or_room_in_it_the_row_says_so(store: Store) -> None:
    keeper = RequestKeeper(store.decisions.requests, store.decisions.usage, secret=store.secret)
    keep(keeper, asked(chat()))
    row = store.decisions.requests.get("req-1")
    assert row is not None and row.no_text == "off" and row.session

    class Full(TextKeeper):
        def write(self) -> Iterator[tuple[str, Future[Any], int]]:
            raise StoreBusy("full")

    texts = Full(store.decisions.texts, Admission(admission_settings()), Allowance(1.0))
    keep(
        RequestKeeper(store.decisions.requests, store.decisions.usage, texts=texts),
        asked(chat(), id="req-2"),
    )
    row = store.decisions.requests.get("req-2")
    assert row is not None and row.no_text == "busy"


def test_what_is_kept_together_is_all_kept_though_one_value_is_refused(store: Store) -> None:
    keeper = RequestKeeper(store.decisions.requests, store.decisions.usage, secret=store.secret)
    for number, status in enumerate((200, 2**70, 200)):
        assert not list(keeper.keep(asked(chat(), id=f"req-{number}", status=status)))
    ((kind, written, count),) = keeper.write()
    with pytest.raises(ValueRefused):
        written.result(30)
    rows = [store.decisions.requests.get(f"req-{number}") is not None for number in range(3)]
    assert (kind, count, rows) == ("request", 3, [True, False, True])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(max_size=20), JSON, max_size=4), JSON, JSON)
def test_whatever_a_body_holds_can_be_kept(fields: dict[str, Any], content: Any, tools: Any) -> None:
    request = chat(messages=[{"role": "user", "content": content}])
    body = {**request.fields, "tools": tools, "functions": tools, **fields, "messages": request.messages}
    what = asked(ChatRequest(b"", body, "m", request.messages, stream=False, include_usage=False))
    screen = Screen(Admission(admission_settings()))
    kept = details_of(what, screen, {}, answer="", left_out=0, max_characters=200)
    assert KeptDetails.unpacked(kept.packed()).tools_called == kept.tools_called
