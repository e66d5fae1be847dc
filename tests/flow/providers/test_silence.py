"""Whatever a provider says, in whichever member, is an answer; one in which all is empty is none, and is asked again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.flow.line import Asked, Got, Line, Upstream, line, upstream
from tests.flow.providers.merged import merged, missing
from tests.flow.providers.shapes import Says, encoded

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAYS = Says("c-1", "m")
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
CITED = {"type": "url_citation", "url_citation": {"url": "https://e.org/", "start_index": 0, "end_index": 1}}
SAID: dict[str, dict[str, Any]] = {
    "pictures": {"content": "", "images": [PICTURE]},
    "pictures and null": {"content": None, "images": [PICTURE]},
    "sound": {"content": None, "audio": {"id": "a", "data": "AA", "transcript": "Hi", "expires_at": 1}},
    "reasoning of vLLM": {"content": None, "reasoning": "Hm."},
    "reasoning of DeepSeek": {"content": "", "reasoning_content": "Hm."},
    "reasoning of OpenRouter": {
        "content": "",
        "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}],
    },
    "annotations": {"content": "", "annotations": [CITED]},
    "citations": {"content": "", "citations": ["https://e.org/"]},
    "a refusal": {"content": None, "refusal": "No."},
    "what nobody has heard of": {"content": "", "hologram": {"depth": 3}},
    "blocks": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
}
NOTHING: dict[str, dict[str, Any]] = {
    "an empty text": {"content": ""},
    "null": {"content": None, "refusal": None, "tool_calls": None},
    "empty lists": {"content": "", "annotations": [], "tool_calls": [], "images": []},
}


@dataclass
class Pair:
    """A gateway before an engine that is asked first and one that stands in."""

    gate: Line
    first: Upstream
    stand_in: Upstream

    async def ask(self, message: dict[str, Any], question: str, *, stream: bool) -> Got:
        """Ask what the first engine answers with this message."""

        async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
            if not stream:
                return web.json_response(SAYS.whole(message, USAGE))
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for event in (SAYS({"role": "assistant"} | message), SAYS({}, "stop")):
                await response.write(encoded(event))
            await response.write(b"data: [DONE]\n\n")
            return response

        self.first.script = script
        self.first.asked.clear()
        self.stand_in.asked.clear()
        got = await self.gate.chat(question, model="m", stream=stream)
        assert got.status == 200 and self.first.asked
        return got


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair() -> AsyncIterator[Pair]:
    async with upstream() as first, upstream() as stand_in:
        engines = {
            name: {"base_url": behind.url, "api_key": "none"}
            for name, behind in (("stand-in", stand_in), ("first", first))
        }
        async with line({"engines": engines, "models": {"m": {"engines": ["stand-in", "first"]}}}) as gate:
            yield Pair(gate, first, stand_in)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("what", SAID)
async def test_what_is_said_in_any_member_is_an_answer(pair: Pair, what: str, stream: bool) -> None:
    got = await pair.ask(SAID[what], f"Say {what}.", stream=stream)
    answer = merged(got.body, "chat") if stream else got.json
    assert missing(SAID[what], answer["choices"][0]["message"]) == []
    assert len(pair.first.asked) == 1 and not pair.stand_in.asked


@pytest.mark.parametrize("what", NOTHING)
async def test_an_answer_in_which_all_is_empty_is_none(pair: Pair, what: str) -> None:
    got = await pair.ask(NOTHING[what], f"Say nothing: {what}.", stream=False)
    assert got.text == pair.stand_in.says and pair.stand_in.asked
