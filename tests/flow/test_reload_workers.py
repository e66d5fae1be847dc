"""Reloads under load: nobody's request fails."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.flow.line import Asked
from tests.flow.reloading import Site, site

_RELOADS = 5
_OPEN = 20
_PER_S = 20


@pytest.mark.slow
async def test_reloads_fail_no_request(tmp_path: Path) -> None:
    """20 requests a second and 20 open streams throughout, on two workers, with the admin pages beside them."""
    async with site(tmp_path, workers=2, admin="on") as made:
        made.behind.script = _paced
        failed: Counter[str] = Counter()
        ended: Counter[str] = Counter()
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as clients:
            for number in range(_OPEN):
                clients.create_task(_streams(made, number, stopping, failed, ended))
            clients.create_task(_asks(made, stopping, failed, ended))
            models = made.config["models"]
            for number in range(_RELOADS):
                made.write(models={**models, f"m{number}": {"engines": ["a"]}})
                verdict = await made.order()
                assert verdict.done, verdict
            stopping.set()
        assert not failed, (failed, made.process.log()[-4000:])
        assert ended["stream"] >= _OPEN and ended["plain"] > _PER_S, ended
        assert len(made.process.events("listening")) == 2 * (_RELOADS + 1)
        assert await made.chat(f"m{_RELOADS - 1}", "the last configuration") is not None


async def _streams(
    made: Site, number: int, stopping: asyncio.Event, failed: Counter[str], ended: Counter[str]
) -> None:
    asked = 0
    while not stopping.is_set():
        asked += 1
        await _counted(made, "stream", f"stream {number} {asked}", failed, ended, stream=True)


async def _asks(made: Site, stopping: asyncio.Event, failed: Counter[str], ended: Counter[str]) -> None:
    asked = 0
    async with asyncio.TaskGroup() as asking:
        while not stopping.is_set():
            asked += 1
            asking.create_task(_counted(made, "plain", f"plain {asked}", failed, ended))
            await asyncio.sleep(1 / _PER_S)


async def _counted(
    made: Site, kind: str, question: str, failed: Counter[str], ended: Counter[str], **fields: object
) -> None:
    try:
        status, said = await made.chat("m", question, **fields)
    except (aiohttp.ClientError, OSError) as error:
        failed[f"{kind}: {type(error).__name__} {error}"] += 1
        return
    whole = status == 200 and (kind == "plain" or said.endswith(b"data: [DONE]\n\n"))
    if whole:
        ended[kind] += 1
    else:
        failed[f"{kind}: {status} {said[-300:]!r}"] += 1


async def _paced(request: web.Request, asked: Asked) -> web.StreamResponse:
    """A stream takes two seconds."""
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "x"}
    if not asked.json.get("stream"):
        message = {"role": "assistant", "content": "yes", "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return web.json_response(head | {"choices": [choice]})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number in range(20):
        choice = {"index": 0, "delta": {"content": f"{number} "}, "finish_reason": None}
        chunk = head | {"object": "chat.completion.chunk", "choices": [choice]}
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await asyncio.sleep(0.1)
    last = head | {"object": "chat.completion.chunk", "choices": [choice | {"finish_reason": "stop"}]}
    await response.write(b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n")
    return response


@pytest.mark.slow
async def test_keys_come_and_go_by_reload_and_what_a_limit_has_counted_stays(tmp_path: Path) -> None:
    one, two = "us-one-" + "k" * 30, "us-two-" + "k" * 30
    async with site(tmp_path, workers=2) as made:
        made.behind.script = _paced

        async def status(key: str) -> int:
            body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "n": 1}
            headers = {"Authorization": f"Bearer {key}", "Cache-Control": "no-store"}
            url = f"{made.process.url}/chat/completions"
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, json=body, headers=headers) as answer,
            ):
                return answer.status

        limited = {"secret": one, "tenant": "acme", "limits": {"requests_per_minute": 6}}
        made.write(keys={"one": limited})
        assert (await made.order()).done
        assert [await status(one) for _ in range(4)] == [200] * 4
        assert await status(two) == 401
        made.write(keys={"one": limited, "two": {"secret": two, "tenant": "globex"}})
        assert (await made.order()).done
        assert await status(two) == 200
        assert [await status(one) for _ in range(3)] == [200, 200, 429], "four were counted before"
        made.write(keys={"two": {"secret": two, "tenant": "globex"}})
        assert (await made.order()).done
        assert (await status(one), await status(two)) == (401, 200)
        made.write(keys={"two": {"secret": two, "tenant": "globex"}, "three": {"secret": two}})
        verdict = await made.order()
        assert not verdict.done and verdict.text, "one secret is no two keys'"
        assert await status(two) == 200
