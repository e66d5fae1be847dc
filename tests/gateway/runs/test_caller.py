"""What is kept of a step's client: everything an engine sees, and no credential."""

from __future__ import annotations

import orjson
from multidict import CIMultiDict

from engines.placement import PLAIN
from gateway.admission import as_operator
from gateway.runs.caller import Caller
from router.asked import Admitted, Asked, Controls
from workflows.running.chats import chat_of, streamed

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Q"}]}


def caller() -> Caller:
    headers = CIMultiDict(
        {
            "Authorization": "Bearer sk-1",
            "X-Customer": "sk-3",
            "Content-Length": "7",
            "OpenAI-Beta": "x",
            "Accept": "a",
        }
    )
    arrival = Admitted("id", 0.0, 0.0, "POST", "/v1/chat/completions", "ann", "key-1")
    controls = Controls(scope="s")
    asked = Asked(
        arrival, "/chat/completions?api-version=1&key=sk-2", headers, chat_of(CHAT), controls, 9, "c", "u"
    )
    return Caller.behind(asked, ("x-customer",))


def test_what_is_kept_holds_no_credential_and_is_read_back() -> None:
    made = caller()
    kept = orjson.dumps(made.kept())
    assert b"sk-" not in kept and made.holds_credential
    read = Caller.read("ann", orjson.loads(kept))
    assert read.credential_lost and not read.holds_credential
    assert (read.tenant, read.key_id, read.contributor, read.end_user) == ("ann", "key-1", "c", "u")
    assert read.headers["OpenAI-Beta"] == "x" and read.controls == made.controls
    assert read.target == "/chat/completions?api-version=1"


def test_a_step_is_asked_as_its_client_would() -> None:
    made = caller()
    asked = made.asked(as_operator(made.arrival(), made.tenant), chat_of(CHAT), PLAIN)
    assert asked.arrival.tenant == "ann" and asked.arrival.id != "id" and asked.placement is PLAIN
    assert "Content-Length" not in asked.headers and asked.headers["Authorization"] == "Bearer sk-1"
    assert asked.chat.model == "m" and orjson.loads(asked.chat.body) == CHAT
    assert caller().stored_nowhere().controls.no_store


def test_steps_are_streamed_unless_they_say_otherwise() -> None:
    assert streamed(CHAT)["stream"] and streamed(CHAT)["stream_options"] == {"include_usage": True}
    assert streamed({**CHAT, "stream": False}) == {**CHAT, "stream": False}


def test_integers_beyond_64_bits_survive() -> None:
    assert b"18446744073709551617" in chat_of({**CHAT, "seed": 2**64 + 1}).body


def test_a_header_that_tells_clients_apart_is_a_credential() -> None:
    asked = Asked(
        Admitted("id", 0.0, 0.0, "POST", "/v1/chat/completions", "ann"),
        "/chat/completions",
        CIMultiDict({"X-Customer": "sk-3"}),
        chat_of(CHAT),
        Controls(),
        9,
        "c",
        "u",
    )
    assert Caller.behind(asked, ("x-customer",)).kept()["credential_lost"]
    assert not Caller.behind(asked).kept()["credential_lost"]
