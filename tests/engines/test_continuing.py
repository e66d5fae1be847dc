"""Streams that break off after their first data: who goes on with them, over real sockets, and what is never sent.

Whole answers through the gateway are in tests/flow/test_line_continuation.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from engines.answers.tail import Tail
from engines.attempts import Attempts
from engines.continuing import continuable
from engines.errors import Kind, StreamBroken
from engines.timeouts import Timeouts
from tests.engines.plans import breaks_after, chat, chunks_of, end_of, plan, read, refuses, says, text_of
from tests.flow.upstream import Call, Script, Upstream

WHOLE = "One two three four five six seven eight nine ten. Eleven, twelve and thirteen: fourteen."
HALF = "One two three four five six seven eight nine ten. Eleven, "
STREAM = {"stream": True}
DIED = b'data: {"error":{"message":"EngineCore died","type":"server_error","code":500}}\n\n'


@pytest.fixture
def two() -> Iterator[tuple[Upstream, Upstream]]:
    made = Upstream(), Upstream()
    yield made
    for upstream in made:
        upstream.forget()
        upstream.close()


Two = tuple[Upstream, Upstream]


@pytest.mark.parametrize(
    ("fields", "can"),
    [
        ({}, True),
        ({"n": 1, "tools": [], "logprobs": False, "response_format": {"type": "text"}}, True),
        ({"stream": False}, False),
        ({"n": 2}, False),
        ({"logprobs": True}, False),
        ({"guided_json": {}}, True),
        ({"guided_json": {"type": "object"}}, False),
        ({"modalities": ["text", "audio"]}, False),
        ({"add_generation_prompt": False}, False),
        ({"messages": []}, False),
    ],
)
def test_only_one_choice_of_plain_text_can_be_carried_on(fields: dict[str, Any], can: bool) -> None:
    assert continuable(chat(**fields)) is can


def obeys(call: Call) -> None:
    """Repeats the words it is given, and goes on."""
    repeated = call.json()["messages"][-1]["content"].rpartition("\n\n")[2]
    says(repeated + WHOLE.partition(repeated)[2])(call)


BREAKS: dict[str, Script] = {
    "a cut": breaks_after(HALF),
    "half an event": breaks_after(HALF, chunks_of("twelve")[1][:40]),
    "no end": breaks_after(HALF, whole=True),
    "an error": breaks_after(HALF, DIED, whole=True),
    "a rate limit": breaks_after(
        HALF, b'data: {"error":{"message":"slow down","type":"rate_limit_error"}}\n\n', whole=True
    ),
    "an error behind other members": breaks_after(
        HALF, b'data: {"id":"1","choices":[{"delta":{},"finish_reason":"error"}],"error":{"code":502}}\n\n'
    ),
}


@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize("goes_on", [obeys, says(WHOLE)])
async def test_an_engine_that_is_instructed_ends_the_answer_whether_it_obeys_or_starts_over(
    two: Two, broken: str, goes_on: Script
) -> None:
    first, second = two
    first.plays(BREAKS[broken])
    second.plays(goes_on)
    async with plan(first.port, second.port, fields=STREAM, continues="instruct") as tries:
        attempts = Attempts(tries, carry_on=True)
        _, body = await read(attempts)
    assert text_of(body) == WHOLE and body.count(b"[DONE]") == 1 and body.count(b'"role": "assistant"') <= 1
    assert b"error" not in body and b": understudy: engine1 carries on from here\n\n" in body
    assert [one.engine.info.name for one in attempts.carried_on] == ["engine1"]
    assert [(one.engine, one.kind is None) for one in attempts.trail] == [
        ("engine0", False),
        ("engine1", True),
    ]
    asked = second.calls[0].json()
    assert [message["role"] for message in asked["messages"]] == ["user", "assistant", "user"]
    assert asked["messages"][1]["content"] == HALF and "continue_final_message" not in asked


@pytest.mark.parametrize("says_else", ["Something else.", "Sure! " + WHOLE, HALF[:30]])
async def test_what_does_not_match_is_never_sent_and_the_break_is_told_as_it_came(
    two: Two, says_else: str
) -> None:
    first, second = two
    first.plays(breaks_after(HALF, DIED, whole=True))
    second.plays(says("Otherwise: " + says_else))
    async with plan(first.port, second.port, fields=STREAM, attempts=1, continues="instruct") as tries:
        attempts = Attempts(tries, carry_on=True)
        _, body = await read(attempts)
    assert body == b"".join(chunks_of(HALF)) + DIED
    assert attempts.trail[-1].kind is Kind.INVALID and not attempts.carried_on


async def test_one_that_says_something_else_is_followed_by_the_next(two: Two) -> None:
    """The last is the first engine itself."""
    first, second = two
    first.plays(lambda call: (breaks_after(HALF) if len(first.calls) == 1 else says(WHOLE))(call))
    second.plays(says("Something else."))
    async with plan(first.port, second.port, fields=STREAM, continues="instruct") as tries:
        attempts = Attempts(tries, carry_on=True)
        _, body = await read(attempts)
    assert text_of(body) == WHOLE and b"else" not in body
    assert [one.engine.info.name for one in attempts.carried_on] == ["engine0"]


async def test_a_refused_prefill_is_asked_as_instruct(two: Two) -> None:
    first, second = two
    first.plays(breaks_after(HALF))

    def refuses_prefill(call: Call) -> None:
        (refuses(400) if "continue_final_message" in call.json() else obeys)(call)

    second.plays(refuses_prefill)
    async with plan(first.port, second.port, fields=STREAM, attempts=1, continues="prefill") as tries:
        _, body = await read(Attempts(tries, carry_on=True))
    assert text_of(body) == WHOLE and len(second.calls) == 2


async def test_there_are_at_most_two_seams(two: Two) -> None:
    first, second = two

    def a_word_more(call: Call) -> None:
        given = [m["content"] for m in call.json()["messages"] if m["role"] == "assistant"]
        said = len(given[0].split()) if given else 0
        breaks_after(" ".join(WHOLE.split()[: said + 1]) + " ")(call)

    first.plays(a_word_more)
    second.plays(a_word_more)
    got: list[bytes] = []
    async with plan(first.port, second.port, fields=STREAM, continues="instruct") as tries:
        attempts = Attempts(tries, carry_on=True)
        async with attempts:
            tail = Tail()
            with pytest.raises(StreamBroken):
                async for chunk in attempts.chunks(tail):
                    got.append(chunk)
                    tail.feed(chunk)
    assert text_of(b"".join(got)) == "One two three " and len(attempts.carried_on) == 2
    assert len(first.calls) + len(second.calls) == 3


@pytest.mark.parametrize(
    ("continues", "fields", "first_breaks"),
    [
        ("off", {}, breaks_after(HALF)),
        ("instruct", {"tools": [{"type": "function", "function": {"name": "f"}}]}, breaks_after(HALF)),
        (
            "instruct",
            {},
            breaks_after(HALF, b'data: {"error":{"message":"filtered","type":"x","code":400}}\n\n'),
        ),
    ],
)
async def test_what_may_not_be_continued_is_not(
    two: Two, continues: str, fields: dict[str, Any], first_breaks: Script
) -> None:
    first, second = two
    first.plays(first_breaks)
    second.plays(says(WHOLE))
    async with plan(first.port, second.port, fields=STREAM | fields, continues=continues) as tries:
        assert isinstance(await end_of(Attempts(tries, carry_on=True)), StreamBroken)
    assert not second.calls


async def test_x_should_retry_false_ends_continuation_too(two: Two) -> None:
    first, second = two

    def script(call: Call) -> None:
        call.begin(headers=[("x-should-retry", "false")])
        call.chunk(b"".join(chunks_of(HALF)))

    first.plays(script)
    async with plan(first.port, second.port, fields=STREAM, continues="instruct") as tries:
        await end_of(Attempts(tries, carry_on=True))
    assert not second.calls


async def test_a_stream_whose_beginning_was_let_go_is_not_carried_on(two: Two) -> None:
    first, second = two
    first.plays(breaks_after(HALF))
    async with plan(first.port, second.port, fields=STREAM, continues="instruct") as tries:
        await end_of(Attempts(tries, carry_on=True, limit_bytes=500))
    assert not second.calls


async def test_one_that_stalls_is_left_and_carried_on(two: Two) -> None:
    first, second = two

    def stalls(call: Call) -> None:
        call.begin()
        call.chunk(b"".join(chunks_of(HALF)))
        assert call.hung_up()

    first.plays(stalls)
    second.plays(says(WHOLE))
    async with plan(
        first.port, second.port, timeouts=Timeouts(2, 5, 0.3, 20), fields=STREAM, continues="instruct"
    ) as tries:
        attempts = Attempts(tries, carry_on=True)
        _, body = await read(attempts)
    assert text_of(body) == WHOLE and attempts.trail[0].kind is Kind.TIMEOUT_GAP


async def test_a_lone_engine_that_broke_is_asked_again_and_afresh_where_it_said_nothing(two: Two) -> None:
    first, _ = two
    first.plays(lambda call: (breaks_after("") if len(first.calls) == 1 else says(WHOLE))(call))
    async with plan(first.port, fields=STREAM) as tries:
        _, body = await read(Attempts(tries, carry_on=True))
    assert text_of(body) == WHOLE and body.count(b'"assistant"') == 1
    assert [len(call.json()["messages"]) for call in first.calls] == [1, 1]


async def test_limits_on_the_length_leave_room_for_what_is_repeated(two: Two) -> None:
    first, second = two
    first.plays(breaks_after(HALF))
    second.plays(obeys)
    async with plan(
        first.port, second.port, fields=STREAM | {"max_tokens": 50}, continues="instruct"
    ) as tries:
        await read(Attempts(tries, carry_on=True))
    assert 50 - 11 < second.calls[0].json()["max_tokens"] < 80


async def test_a_whole_answer_passes_unchanged(two: Two) -> None:
    first, second = two
    whole = b"".join(chunks_of(WHOLE, "stop")) + b"data: [DONE]\n\n"

    def script(call: Call) -> None:
        call.begin()
        for start in range(0, len(whole), 37):
            call.chunk(whole[start : start + 37])
        call.end()

    first.plays(script)
    async with plan(first.port, second.port, fields=STREAM, continues="instruct") as tries:
        _, body = await read(Attempts(tries, carry_on=True))
    assert body == whole and not second.calls


def test_the_tests_text_holds_its_half() -> None:
    assert WHOLE.startswith(HALF) and json.dumps(WHOLE).isascii()


@pytest.mark.parametrize("whole", [False, True])
async def test_an_answer_that_was_finished_when_its_engine_died_is_ended_and_asked_of_nobody(
    two: Two, whole: bool
) -> None:
    first, second = two
    end = b'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    first.plays(breaks_after(WHOLE, end, whole=whole))
    async with plan(first.port, second.port, fields=STREAM, continues="prefill") as tries:
        attempts = Attempts(tries, carry_on=True)
        _, body = await read(attempts)
    assert text_of(body) == WHOLE and not second.calls
    # A transfer that came to its declared end is passed on as it is.
    assert body.count(b"data: [DONE]") == (0 if whole else 1)
