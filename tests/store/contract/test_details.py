"""What is known of one request, and by what requests are found: ids, names, conversations."""

from __future__ import annotations

import json

import pytest

from store import Store
from store.decisions import session_ids
from store.decisions.details import Attempted, ToolOffered
from store.decisions.kept_details import NOTHING, KeptDetails, KeptJson, ToolCalled
from store.decisions.resolve import Hit
from store.decisions.search import Wanted
from store.decisions.sessions import Session
from store.decisions.texts import RequestTexts, SentExample
from store.people.secret import user_digest
from tests.store.rows import new_example, request_record

BODY = {
    "model": "gpt-4o",
    "temperature": 0.5,
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How warm is it?"}],
    "tools": [
        {
            "type": "function",
            "function": {"name": "get_weather", "description": "Now.", "parameters": {"type": "object"}},
        }
    ],
}
KEPT = KeptDetails(
    user="ann",
    session="trip to Rome",
    error="No connection.",
    said=("is overloaded", ""),
    came=KeptJson(BODY, 12),
    changes={"model": "small-v1", "temperature": None},
    back=KeptJson({"id": "chatcmpl-1"}),
    tools_called=(ToolCalled("get_weather", '{"city": "Rome"}', "call_1"),),
    finish_reasons=("tool_calls",),
    answer_left_out=7,
    replaced=("EMAIL",),
)
TRAIL = json.dumps(
    {
        "tried": [
            {"engine": "small", "replica": "r0", "kind": "server", "status": 503, "seconds": 0.2},
            {"engine": "large", "replica": "", "kind": None, "status": 200, "seconds": 1.5},
        ]
    }
)


def kept(store: Store, number: int, **changes: object) -> None:
    fields = {
        "tenant": "a1",
        "request_id": f"req-{number}",
        "contributor": "key_1/ann",
        "at_s": 1000.0,
        "messages": ({"role": "user", "text": "How warm is it?"},),
        "sent_at": 1,
        "sent": (SentExample(7, "abc"),),
        "details": KEPT,
    }
    store.decisions.texts.keep(RequestTexts(**(fields | changes))).result(30)  # type: ignore[arg-type]


def logged(store: Store, number: int, **changes: object) -> None:
    store.decisions.requests.record(request_record(number, **changes)).result(30)


def test_kept_details_come_back_as_they_were_and_nothing_is_nothing() -> None:
    assert KeptDetails.unpacked(KEPT.packed()) == KEPT
    assert KeptDetails.unpacked(NOTHING.packed()) == NOTHING == KeptDetails.unpacked(None)
    assert KeptJson("x", 1).cut and not KeptJson("x").cut


def test_details_are_those_of_the_row_and_of_the_texts(store: Store) -> None:
    logged(
        store, 1, trail=TRAIL, completion_id="chatcmpl-1", session="n1", error_kind="server", end_user="u1"
    )
    kept(store, 1)
    found = store.decisions.details.get("a1", "req-1")
    assert found is not None
    assert (found.completion_id, found.session, found.error_kind, found.end_user) == (
        "chatcmpl-1",
        "n1",
        "server",
        "u1",
    )
    assert (found.user, found.session_name, found.error) == ("ann", "trip to Rome", "No connection.")
    assert found.attempts == (
        Attempted("small", "r0", "server", 503, 0.2, "is overloaded"),
        Attempted("large", "", "", 200, 1.5),
    )
    assert found.parameters == {"temperature": 0.5}
    assert found.tools_offered == (ToolOffered("get_weather", "Now.", {"type": "object"}),)
    assert found.tools_called[0].arguments == '{"city": "Rome"}' and found.answer_left_out == 7
    assert found.came is not None and found.came.cut
    assert store.decisions.details.get("b2", "req-1") is None


def test_the_body_as_the_engine_got_it_has_the_examples_as_they_are_now(store: Store) -> None:
    logged(store, 1)
    kept(store, 1)
    found = store.decisions.details.get("a1", "req-1")
    assert found is not None
    sent = found.to_engine({7: ("And in Oslo?", "Cold.")})
    assert sent is not None and sent.value["model"] == "small-v1" and "temperature" not in sent.value
    assert [m["content"] for m in sent.value["messages"]] == [
        "Be brief.",
        "And in Oslo?",
        "Cold.",
        "How warm is it?",
    ]
    gone = found.to_engine({})
    assert gone is not None and "not in the bank any more" in gone.value["messages"][1]["content"]


def test_a_repeat_has_its_own_user_and_the_first_ones_body(store: Store) -> None:
    logged(store, 1)
    logged(store, 2, outcome="hit", engine="", exact_key=b"s", no_text="of_key")
    kept(store, 1, same=b"s")
    kept(store, 2, same=b"s", messages=None, sent=(), sent_at=None, details=KeptDetails(user="bob"))
    found = store.decisions.details.get("a1", "req-2")
    assert found is not None and (found.user, found.of_another) == ("bob", "req-1")
    assert found.came == KEPT.came and found.tools_called == KEPT.tools_called and not found.changes


def test_details_go_with_whoever_asked(store: Store) -> None:
    logged(store, 1, end_user="ann", session="n1", trail='{"tried":[],"error":"ann@x.org is unknown"}')
    kept(store, 1)
    store.forget_contributors("a1", ["key_1/ann"])
    found = store.decisions.details.get("a1", "req-1")
    assert (
        found is not None
        and found.came is None
        and not found.user
        and not found.session
        and not found.end_user
    )
    record = store.decisions.requests.get("req-1")
    assert record is not None and not record.trail


def test_one_text_is_resolved_whatever_it_names(store: Store) -> None:
    ann = user_digest(store.secret, "a1", "ann")
    session = session_ids.named(store.secret, "trip to Rome")
    fields = {"completion_id": "chatcmpl-1", "session": session, "end_user": ann}
    logged(store, 1, id="0123456789abcdef01234567", **fields)
    logged(store, 2, id="0123999999abcdef01234567", **fields | {"tenant": "b2", "end_user": ""})
    find = store.decisions.resolve.find
    first, second = (
        Hit("request", "0123456789abcdef01234567", "a1"),
        Hit("request", "0123999999abcdef01234567", "b2"),
    )
    assert find("chatcmpl-1") == [second, first]
    assert find(first.id) == find("0123456789") == [first]
    assert find("0123") == [] and find("") == [] and find("\0") == []
    assert find("trip to Rome") == [Hit("session", session, "b2"), Hit("session", session, "a1")]
    assert find("ann") == [Hit("user", ann, "a1")] == find(ann)
    assert find("a1") == [Hit("tenant", "a1", "a1")]
    example = store.examples.add(new_example(1)).result(30).id
    assert Hit("example", str(example), "a1") in find(f"#{example}")
    key, _ = store.keys.create("acme", "billing")
    assert find(key.id) == [Hit("key", key.id, key.tenant)] == find("billing") == find(key.prefix)
    assert find("acme") == [Hit("tenant", key.tenant, key.tenant)]


def test_requests_are_found_by_session_user_and_completion(store: Store) -> None:
    for number in range(1, 5):
        logged(store, number, session=f"n{number % 2}", end_user=f"u{number % 2}", completion_id=f"c{number}")
    page = store.decisions.search.page
    assert [one.id for one in page(Wanted(session="n1"), limit=9).rows] == ["req-3", "req-1"]
    assert [one.id for one in page(Wanted(end_user="u0"), limit=9).rows] == ["req-4", "req-2"]
    assert [one.id for one in page(Wanted(completion_id="c2"), limit=9).rows] == ["req-2"]


def test_sessions_are_paged_by_their_last_request(store: Store) -> None:
    for number, session in enumerate("aabcab", start=1):
        logged(
            store,
            number,
            session=f"n{session}",
            outcome="hit" if number == 1 else "failed" if number == 2 else "answered",
        )
    logged(store, 9, tenant="b2", session="na")
    logged(store, 10, session="")
    sessions = store.decisions.sessions
    first = sessions.page(limit=2)
    assert all(isinstance(one, Session) and one.named for one in first.rows)
    assert [(one.id, one.tenant, one.requests) for one in first.rows] == [("na", "b2", 1), ("nb", "a1", 2)]
    rest = sessions.page(limit=2, before_s=first.next)
    assert [(one.id, one.requests, one.hits, one.failed) for one in rest.rows] == [
        ("na", 3, 1, 1),
        ("nc", 1, 0, 0),
    ]
    assert rest.rows[0].last_request == "req-5" and rest.rows[0].cost_usd == pytest.approx(0.75)
    assert sessions.page(limit=9, before_s=rest.next).rows == () or rest.next is None
    assert [one.id for one in sessions.page(tenant="a1", least_requests=2).rows] == ["nb", "na"]
    assert sessions.get("a1", "na") == rest.rows[0] and sessions.get("a1", "x") is None
    latest = sessions.latest_answer("a1", "na", "gpt-4o", 0.0)
    assert latest is not None
    row = store.decisions.requests.get("req-5")
    assert row is not None
    assert (latest.engine, latest.prompt_tokens, latest.started_at_s) == (
        row.engine,
        row.prompt_tokens,
        row.started_at_s,
    )
    assert sessions.latest_answer("a1", "na", "gpt-4o", row.started_at_s + 1.0) is None
    assert sessions.latest_answer("a1", "na", "another", 0.0) is None
    kept(store, 5)
    assert sessions.names([rest.rows[0]]) == {("a1", "na"): "trip to Rome"}


def test_a_session_is_named_by_its_client_or_by_how_it_begins() -> None:
    secret = b"s" * 32
    assert session_ids.is_named(session_ids.named(secret, "x")) and len(session_ids.named(secret, "x")) == 24
    of_ann = session_ids.beginning(secret, "a1", "k/ann", "Hello")
    assert not session_ids.is_named(of_ann)
    assert (
        of_ann
        == session_ids.beginning(secret, "a1", "k/ann", "Hello")
        != session_ids.beginning(secret, "a1", "k/bob", "Hello")
    )
