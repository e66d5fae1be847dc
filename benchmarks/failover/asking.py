"""One chat completion, asked and read as a careful client does: with a limit, and taking an error event for an error."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp

_NUMBERS = itertools.count(1)


@dataclass
class Answer:
    """What a client saw."""

    ok: bool = False
    status: int = 0
    text: str = ""
    """All that was said, also before an error."""
    error: str = ""
    hung: bool = False
    seconds: float = 0.0
    first_s: float = 0.0
    """Until the first text of a stream, or the whole of another answer."""
    model: str = ""
    usage: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class Client:
    """Asks a gateway. Each question is another one, so that no answer comes from memory."""

    def __init__(self, origin: str, session: aiohttp.ClientSession) -> None:
        self._origin = origin
        self.session = session

    async def ask(self, model: str, *, stream: bool = True, within_s: float = 60.0, **more: Any) -> Answer:
        """The answer of a model; `within_s`: hung after that."""
        body = {
            "model": model,
            "messages": [
                {
                    "role": "user",
                    "content": f"Question {next(_NUMBERS)}: why do gateways earn trust when engines fail?",
                }
            ],
            **({"stream": True, "stream_options": {"include_usage": True}} if stream else {}),
            **more,
        }
        return await self.post("/v1/chat/completions", body, within_s=within_s)

    async def post(self, path: str, body: dict[str, Any], *, within_s: float = 60.0) -> Answer:
        """The same for any endpoint with a JSON body."""
        answer, began = Answer(), time.monotonic()
        try:
            async with asyncio.timeout(within_s):
                await self._read(path, body, answer, began)
        except TimeoutError:
            answer.ok, answer.hung, answer.error = False, True, f"nothing within {within_s:g} s"
        except aiohttp.ClientError as error:
            answer.ok, answer.error = False, f"{type(error).__name__}: {error}"
        answer.seconds = time.monotonic() - began
        return answer

    async def _read(self, path: str, body: dict[str, Any], answer: Answer, began: float) -> None:
        headers = {"Authorization": "Bearer sk-benchmark"}
        async with self.session.post(f"{self._origin}{path}", json=body, headers=headers) as response:
            answer.status = response.status
            answer.headers = {name.lower(): value for name, value in response.headers.items()}
            if response.content_type == "text/event-stream":
                await _read_stream(response, answer, began)
            else:
                _read_whole(response.status, await response.read(), answer)
                answer.first_s = time.monotonic() - began


def _read_whole(status: int, body: bytes, answer: Answer) -> None:
    try:
        told = json.loads(body)
    except ValueError:
        answer.error = f"HTTP {status} without JSON: {body[:80]!r}"
        return
    if status != 200 or "error" in told:
        answer.error = f"HTTP {status}: {json.dumps(told)[:300]}"
        return
    answer.model, answer.usage = told.get("model") or "", told.get("usage")
    choices = told.get("choices") or []
    message = (choices[0].get("message") or {}) if choices else {}
    answer.text = message.get("content") or (choices[0].get("text") if choices else "") or ""
    answer.ok = bool(answer.text) or "data" in told or "output" in told
    if not answer.ok:
        answer.error = "HTTP 200 without an answer"


async def _read_stream(response: aiohttp.ClientResponse, answer: Answer, began: float) -> None:
    finished = False
    async for line in response.content:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            finished = True
            break
        try:
            told = json.loads(data)
        except ValueError:
            continue
        if told.get("error"):
            answer.error = json.dumps(told["error"])[:300]
            return
        answer.model = told.get("model") or answer.model
        answer.usage = told.get("usage") or answer.usage
        for choice in told.get("choices") or ():
            answer.text += (choice.get("delta") or {}).get("content") or ""
            if answer.text and not answer.first_s:
                answer.first_s = time.monotonic() - began
            finished = finished or bool(choice.get("finish_reason"))
    answer.ok = finished or bool(answer.text)
    if not answer.ok:
        answer.error = "a stream without an answer"
