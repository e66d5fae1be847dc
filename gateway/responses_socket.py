"""Responses over a WebSocket: each `response.create` that a client sends is a request of its own, answered in frames.

What comes in a frame goes through the gateway's own door as a `POST` with that body would: its key, limits, guardrails and
model are looked at anew. What is answered goes out as one text frame for each event. A connection remembers its last answer
if that is stored nowhere else (`store: false`), so that the next frame may name it in `previous_response_id`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast

import orjson
from aiohttp import WSMsgType, web
from multidict import CIMultiDict

from engines.codecs.response_answer import as_events
from engines.codecs.response_request import input_items, said_before
from engines.codecs.responses import RESPONSES
from engines.codecs.said import Said
from engines.errors import RequestError
from engines.loose_json import listed, member
from engines.sse import EventCutter, json_events
from gateway.endpoints.handler import Handler, no_such_path
from gateway.http.plain import PlainConnection, PlainRequest, PlainResponse
from gateway.limits.headers import lend_place
from gateway.paths import origin_form
from gateway.send import Write
from gateway.websocket import wants_upgrade
from router.finished import Journey

PATH = "/responses"
_MOST_S = 3600.0
"""How long a connection may stay open: as long as OpenAI's."""
_PING_EVERY_S = 30.0
_MOST_WAITING = 16
"""Frames of a client that wait for those before them; while there are so many, no more are read."""
_OF_THE_HANDSHAKE = frozenset({"connection", "upgrade", "content-length", "content-type", "expect"})
_OF_THE_FRAME = ("type", "stream", "stream_id", "generate", "background")
"""Members of a frame that a body does not have."""
_LAST = frozenset({"response.completed", "response.incomplete"})

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Held(NamedTuple):
    """The last answer of a connection that nobody else stores."""

    id: str
    items: list[dict[str, Any]]
    """The conversation up to its end, as input items."""


class _Frames:
    """Stands where a PlainRequest expects its connection, and sends what is written there as frames."""

    def __init__(self, socket: web.WebSocketResponse, stream_id: object, previous: str | None) -> None:
        self._socket = socket
        self._also = {"stream_id": stream_id} if isinstance(stream_id, str) else {}
        self._previous = previous
        self._cutter: EventCutter | None = EventCutter()
        self._whole = bytearray()
        """An answer that is no stream of events."""
        self.gone = False
        self.output_size = 0
        self.last: dict[str, Any] | None = None
        """The answer in its last event; None before that, and if it failed."""

    @property
    def transport(self) -> object | None:
        """None once the client is gone."""
        return None if self.gone or self._socket.closed else self._socket

    def begin(self, response: PlainResponse) -> Write:
        """See PlainConnection."""
        if self.transport is None:
            raise ConnectionResetError("the client is gone")
        if not _is_stream(response.headers):
            self._cutter = None
        response.prepared = True
        self.output_size = 1
        return self.write

    def push(self, chunk: bytes) -> bool:
        """See PlainConnection: a frame is always waited for."""
        return False

    async def write(self, chunk: bytes) -> None:
        """See PlainConnection."""
        if self.transport is None:
            raise ConnectionResetError("the client is gone")
        if self._cutter is None:
            self._whole += chunk
        else:
            await self._send_events(self._cutter.whole(chunk))

    def close(self) -> None:
        """See PlainConnection: the answer broke off, and its client was told; the next one may go well."""

    async def finish(self, response: web.StreamResponse) -> None:
        """Send what is not sent yet of an answer. Raises ConnectionError."""
        if response.prepared and self._cutter is not None:
            await self._send_events(self._cutter.rest())
            return
        whole = self._whole if response.prepared else cast(web.Response, response).body or b""
        body = bytes(cast(bytes, whole))
        if _is_stream(response.headers):
            await self._send_events(body)
            return
        try:
            said = orjson.loads(body)
        except orjson.JSONDecodeError:
            said = None
        if response.status < 400 and isinstance(said, dict):
            await self._send_events(as_events(said))
            return
        error = member(said, "error") or {"message": f"The answer has status {response.status} and no JSON."}
        await self.send({"type": "error", "status": response.status, "error": error})

    async def send(self, event: Mapping[str, Any]) -> None:
        """Send one event. Raises ConnectionError."""
        told = event.get("response")
        if isinstance(told, dict):
            if self._previous is not None:
                event = {**event, "response": {**told, "previous_response_id": self._previous}}
            if event.get("type") in _LAST:
                self.last = told
        if self.transport is None:
            raise ConnectionResetError("the client is gone")
        await self._socket.send_str(orjson.dumps({**event, **self._also}).decode())

    async def _send_events(self, whole: bytes) -> None:
        for event in json_events(whole):
            await self.send(event)


class ResponsesSocket:
    """Answers handshakes at `/v1/responses`; everything else that is read there is `otherwise`'s.

    `handle` is the gateway's door. `on`: if not, a handshake is refused with 426, which has clients ask by POST.
    """

    def __init__(self, handle: Handle, otherwise: Handler | None, *, on: bool, max_json_bytes: int) -> None:
        self._handle = handle
        self._otherwise = otherwise
        self._on = on
        self._max_json_bytes = max_json_bytes

    async def __call__(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """See gateway.endpoints.handler.Handler. Raises RequestError."""
        if not wants_upgrade(request):
            if self._otherwise is None:
                raise no_such_path()
            return await self._otherwise(request, target, journey)
        if not self._on:
            # Of all refusals this is the one after which clients ask by POST at once.
            raise RequestError(
                "WebSockets are off here (listen.advanced.responses_websocket): send a POST to the same path.",
                status=426,
                code="websocket_off",
            )
        # Each frame takes a place among those under way for itself.
        lend_place(request)
        socket = web.WebSocketResponse(heartbeat=_PING_EVERY_S, max_msg_size=self._max_json_bytes)
        socket.headers["x-request-id"] = journey.arrival.id
        await socket.prepare(request)
        journey.answered(101)
        await _Conversation(self._handle, request, socket).run()
        return socket


class _Conversation:
    """One connection, from its handshake to its end."""

    def __init__(self, handle: Handle, request: web.BaseRequest, socket: web.WebSocketResponse) -> None:
        self._handle = handle
        self._target = origin_form(request.raw_path)
        self._socket = socket
        kept = ((n, v) for n, v in request.headers.items() if not _is_of_the_handshake(n))
        self._headers: CIMultiDict[str] = CIMultiDict(kept)
        self._held: _Held | None = None
        self._waiting: asyncio.Queue[str | bytes] = asyncio.Queue(_MOST_WAITING)

    async def run(self) -> None:
        """Answer frames until the client leaves, or for as long as a connection may last."""
        try:
            async with asyncio.TaskGroup() as tasks:
                answering = tasks.create_task(self._answer_all(), name="frames of a WebSocket")
                await self._read_all()
                answering.cancel()
        finally:
            await self._socket.close()

    async def _read_all(self) -> None:
        try:
            async with asyncio.timeout(_MOST_S):
                while (message := await self._socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    await self._waiting.put(message.data)
        except TimeoutError:
            await self._tell(
                429, "websocket_connection_limit_reached", "This connection is an hour old: open another."
            )

    async def _answer_all(self) -> None:
        while True:
            data = await self._waiting.get()
            try:
                await self._answer(data)
            except ConnectionError:
                return

    async def _answer(self, data: str | bytes) -> None:
        try:
            frame = orjson.loads(data)
        except orjson.JSONDecodeError:
            await self._tell(400, "invalid_json", "A frame must be one JSON object.")
            return
        if member(frame, "type") != "response.create":
            kind = str(member(frame, "type"))[:100]
            await self._tell(
                400, "unknown_event", f"The event {kind!r} is not known here: response.create is."
            )
            return
        fields = {name: value for name, value in frame.items() if name not in _OF_THE_FRAME}
        previous, held = None, self._held
        if held is not None and fields.get("previous_response_id") == held.id:
            previous = fields.pop("previous_response_id")
            fields["input"] = [*held.items, *input_items(fields)]
        frames = _Frames(self._socket, frame.get("stream_id"), previous)
        if frame.get("generate") is False:
            self._held = _to_hold(fields, await _prepared(frames, fields))
            return
        last = await self._asked(frames, {**fields, "stream": True})
        self._held = _to_hold(fields, last) if fields.get("store") is False else None

    async def _asked(self, frames: _Frames, fields: dict[str, Any]) -> dict[str, Any] | None:
        """Have the request answered; gives the answer, None if it failed."""
        body = orjson.dumps(fields)
        headers = self._headers.copy()
        headers["Content-Type"] = "application/json"
        headers["Content-Length"] = str(len(body))
        request = PlainRequest(self._target, headers, body, cast(PlainConnection, frames))
        try:
            response = await self._handle(request)
            await frames.finish(response)
        finally:
            frames.gone = True
        return frames.last

    async def _tell(self, status: int, code: str, message: str) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": message, "param": None}
        told = {"type": "error", "status": status, "error": error}
        await self._socket.send_str(orjson.dumps(told).decode())


def _is_stream(headers: Mapping[str, str]) -> bool:
    return headers.get("Content-Type", "").partition(";")[0].strip().lower() == "text/event-stream"


def _is_of_the_handshake(name: str) -> bool:
    name = name.lower()
    return name in _OF_THE_HANDSHAKE or name.startswith("sec-websocket-")


async def _prepared(frames: _Frames, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Answer `generate: false`, which only says what the next frame goes on with: nobody is asked."""
    said = Said(secrets.token_hex(16), int(time.time()), str(fields.get("model") or ""))
    chat = RESPONSES.read(b"", dict(fields))
    response = RESPONSES.said(said, chat) | {"output": []}
    for event in json_events(as_events(response)):
        await frames.send(event)
    return response


def _to_hold(fields: Mapping[str, Any], last: Mapping[str, Any] | None) -> _Held | None:
    if last is None or not isinstance(last.get("id"), str):
        return None
    return _Held(last["id"], [*input_items(fields), *said_before(listed(last.get("output")))])
