"""The text of a step's answer, however the answer comes."""

from __future__ import annotations

import gzip

import orjson
import pytest
from multidict import CIMultiDict

from engines.errors import StreamBroken
from gateway.runs.step_send import StepSend
from gateway.send import ClientGone

EVENTS = CIMultiDict({"Content-Type": "text/event-stream"})
JSON = CIMultiDict({"Content-Type": "application/json"})


def chunk(text: str) -> bytes:
    return b"data: " + orjson.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}) + b"\n\n"


def completion(**message: object) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return orjson.dumps({"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})


async def test_a_stream_cut_anywhere() -> None:
    whole = (
        chunk("wö")
        + chunk("rld")
        + b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    )
    whole += b"data: [DONE]\n\n"
    for at in range(len(whole)):
        said: list[str] = []
        send = StepSend(said.append, max_text_bytes=100)
        write = await send.begin(200, EVENTS)
        await write(whole[:at])
        await write(whole[at:])
        await send.end()
        assert send.text == "".join(said) == "wörld" and not send.broken
        used = send.used(9)
        assert used is not None and used.completion_tokens == 2 and not used.estimated


async def test_a_whole_answer_plain_and_packed() -> None:
    send = StepSend(lambda piece: None, max_text_bytes=100)
    send.whole(200, JSON, completion(content="word"))
    assert send.text == "word" and send.used(9) is not None
    packed = StepSend(lambda piece: None, max_text_bytes=100)
    packed.whole(
        200, CIMultiDict({**JSON, "Content-Encoding": "gzip"}), gzip.compress(completion(content="word"))
    )
    assert packed.text == "word"
    in_chunks = StepSend(lambda piece: None, max_text_bytes=100)
    write = await in_chunks.begin(200, JSON)
    for byte in completion(content="word"):
        await write(bytes([byte]))
    await in_chunks.end()
    assert in_chunks.text == "word"


async def test_an_error_tools_and_an_end_too_early() -> None:
    refused = StepSend(lambda piece: None, max_text_bytes=100)
    refused.whole(400, JSON, b'{"error": {"message": "too warm"}}')
    assert refused.refusal == "too warm" and refused.status == 400 and not refused.text
    odd = StepSend(lambda piece: None, max_text_bytes=100)
    odd.whole(502, JSON, b"<html>")
    assert odd.refusal == "<html>"
    tools = StepSend(lambda piece: None, max_text_bytes=100)
    tools.whole(200, JSON, completion(content=None, tool_calls=[{"id": "1", "function": {"name": "f"}}]))
    assert tools.calls and not tools.text
    broken = StepSend(lambda piece: None, max_text_bytes=100)
    await (await broken.begin(200, EVENTS))(chunk("half"))
    await broken.break_off(StreamBroken("it ended"))
    assert broken.broken == "it ended"


async def test_too_much() -> None:
    send = StepSend(lambda piece: None, max_text_bytes=4)
    write = await send.begin(200, EVENTS)
    await write(chunk("four"))
    with pytest.raises(ClientGone):
        await write(chunk("!"))
    assert send.too_large and send.text == "four"
