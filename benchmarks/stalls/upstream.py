"""The upstream of benchmarks.stalls: answers at once with what the header `x-bench-answer` names.

python -m benchmarks.stalls.upstream PORT
"""

from __future__ import annotations

import json
import sys
import zlib

from aiohttp import web

MIB = 2**20
LONG_ANSWER = "The understudy waits in the wings. " * 26_000
"""0.9 MB of text."""
_HUGE_EVENT_MIB = 20
_PACKED_MIB = 1000


def completion(text: str) -> bytes:
    """A chat completion that says so."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return json.dumps(
        {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
    ).encode()


def packed() -> bytes:
    """A megabyte of gzip that unpacks to a thousand."""
    compressor = zlib.compressobj(9, wbits=31)
    blanks = b" " * MIB
    pieces = [compressor.compress(blanks) for _ in range(_PACKED_MIB)]
    return b"".join((*pieces, compressor.compress(b"{}"), compressor.flush()))


async def _huge_event(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b'data: {"choices":[{"index":0,"delta":{"content":"')
    for _ in range(_HUGE_EVENT_MIB):
        await response.write(b"x" * MIB)
    await response.write(b'"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    return response


class Upstream:
    """Answers by header."""

    def __init__(self) -> None:
        self._short, self._long, self._packed = completion("Yes."), completion(LONG_ANSWER), packed()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Read all of the request, then answer."""
        await request.read()
        wanted = request.headers.get("x-bench-answer", "short")
        if wanted == "event":
            return await _huge_event(request)
        headers = {"Content-Type": "application/json"}
        if wanted == "packed":
            headers["Content-Encoding"] = "gzip"
        body = {"long": self._long, "packed": self._packed}.get(wanted, self._short)
        return web.Response(body=body, headers=headers)


def main() -> None:
    """Serve until told to stop."""
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", Upstream().handle)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)


if __name__ == "__main__":
    main()
