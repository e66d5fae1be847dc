"""One request's times and outcome, from when it was due to how it ended. No sockets, no schedule."""

from __future__ import annotations

from array import array

from loadtest.clock import now
from loadtest.events import StreamReader, read_message
from loadtest.http1 import ProtocolError, ResponseReader
from loadtest.records import Names

_NAN = float("nan")
_CACHE_HEADERS = (b"x-cache", b"x-litellm-cache-hit", b"x-cache-status")


class Exchange:
    """A request and its answer so far. `due_s`, `taken_s` and the rest are `time.monotonic()` values."""

    __slots__ = (
        "_body",
        "_last_s",
        "_pieces",
        "_reader",
        "_stream",
        "_streaming",
        "after",
        "begun_s",
        "carrier",
        "data",
        "done_s",
        "due_s",
        "ended",
        "expect",
        "first_s",
        "fresh_connection",
        "outcome",
        "taken_s",
        "user",
        "warm",
    )

    def __init__(self, data: bytes, due_s: float, taken_s: float, expect: str = "") -> None:
        self.data = data
        self.due_s = due_s
        self.taken_s = taken_s
        self.begun_s = 0.0  # when a connection (or the making of one) was given to it
        self.first_s = 0.0
        self.done_s = 0.0
        self.outcome = ""
        self.ended = False
        self.expect = expect
        self.after: tuple[bytes, ...] = ()
        self.user = -1
        self.warm = False  # part of the warm-up: its gaps are not kept
        self.carrier: object = None  # the connection it was sent on
        self.fresh_connection = False
        self._last_s = 0.0
        self._pieces: list[bytes] = []
        self._body = b""
        self._streaming = False
        self._stream: StreamReader | None = None
        self._reader = ResponseReader()

    @property
    def nothing_read(self) -> bool:
        """Whether no byte of an answer has arrived."""
        return not self._reader.started

    @property
    def keep_alive(self) -> bool:
        """Whether the connection may be used again."""
        return self._reader.keep_alive and self._reader.done

    def start_over(self) -> None:
        """Resets the answer, since a kept-alive connection turned out to be closed. The due time stays."""
        self._reader = ResponseReader()

    def feed(self, data: bytes, gaps: array[float]) -> bool:
        """Takes bytes from the connection; True once the answer is complete. Gaps between tokens (s) go to `gaps`."""
        reader = self._reader
        instant = now()
        try:
            in_body = reader.status != 0
            body = reader.feed(data)
        except ProtocolError:
            self.end("not HTTP/1.1")
            return True
        if not in_body and reader.status:
            self._streaming = reader.status == 200 and (
                b"text/event-stream" in (reader.header(b"content-type") or b"")
            )
            if self._streaming:
                self._stream = StreamReader(bool(self.expect))
        if body:
            if self._stream is not None:
                self._take_events(self._stream, body, instant, gaps)
            else:
                self._pieces.append(body)
        if reader.done:
            self._conclude()
            return True
        return False

    def _take_events(self, stream: StreamReader, body: bytes, instant: float, gaps: array[float]) -> None:
        fresh = stream.feed(body)
        if not fresh:
            return
        if not self.warm:
            if self.first_s:
                gaps.append(instant - self._last_s)
            for _ in range(fresh - 1):
                gaps.append(0.0)
        self.first_s = self.first_s or instant
        self._last_s = instant

    def peer_closed(self) -> None:
        """The connection was closed, which completes the answer or truncates it."""
        if self._reader.end():
            self._conclude()
        elif self._stream is not None and self._stream.error:
            self.end(f"stream: {self._stream.error}")
        elif self._reader.status:
            self.end("cut off: the answer began and did not end")
        else:
            self.end("connection closed without an answer")

    def forget(self) -> None:
        """Drops everything but the times: it may stay on a timeout list for a while."""
        self.data = self._body = b""
        self.carrier = self._stream = None
        self._pieces = []

    def end(self, outcome: str) -> None:
        """Ends the exchange with a failure."""
        self.outcome = outcome
        self.done_s = now()
        self.ended = True

    def _conclude(self) -> None:
        self.done_s = now()
        self.ended = True
        status = self._reader.status
        if status != 200:
            self.outcome = f"http {status}"
        elif self._stream is not None:
            stream = self._stream
            if stream.error:
                self.outcome = f"stream: {stream.error}"
            elif not stream.complete:
                self.outcome = "stream ended without its terminal event"
            else:
                self.outcome = "ok"
        else:
            self._body = b"".join(self._pieces)

    def row(
        self, names: Names, start_s: float, engine_header: bytes, quality_header: bytes
    ) -> tuple[float, ...]:
        """The request as one row of `records.COLUMNS`."""
        usage, model, text, tokens = None, "", "", 0
        stream = self._stream
        if stream is not None:
            usage, model, tokens = stream.usage, stream.model, stream.tokens_seen
            text = "".join(stream.text)
        elif self._body:
            wrong, usage, model, text = read_message(self._body)
            self.outcome = wrong or "ok"
        elif not self.outcome:
            self.outcome = "not JSON"
        ok = self.outcome == "ok"
        tokens_in = tokens_out = _NAN
        if isinstance(usage, dict):
            tokens_in = _number(usage.get("prompt_tokens"))
            tokens_out = _number(usage.get("completion_tokens"))
        # NaN is not equal to itself: then the endpoint gave no count, and its events are counted instead.
        counted = tokens_out if tokens_out == tokens_out and tokens_out > 1 else float(tokens)
        tpot = (
            (self._last_s - self.first_s) / (counted - 1)
            if self.first_s and counted > 1 and tokens > 1
            else _NAN
        )
        quality = _NAN
        if ok and self.expect:
            quality = 1.0 if self.expect.strip().lower() in text.lower() else 0.0
        reader = self._reader
        if quality_header and (said := reader.header(quality_header)):
            quality = _number(said)
        return (
            self.due_s - start_s,
            self.taken_s - self.due_s,
            max(0.0, self.begun_s - self.taken_s) if self.begun_s else self.done_s - self.taken_s,
            self.first_s - self.due_s if self.first_s else _NAN,
            self.done_s - self.due_s,
            tpot,
            tokens_in,
            tokens_out,
            float(tokens),
            quality,
            names.number(self.outcome),
            names.number((reader.header(engine_header) or b"").decode("latin-1")),
            names.number(_cache_status(reader)),
            names.number(model),
        )


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return _NAN


def _cache_status(reader: ResponseReader) -> str:
    """`hit`, `miss`, `bypass` or "": from RFC 9211's Cache-Status if present, else from the usual X- headers."""
    said = reader.header(b"cache-status")
    if said is not None:
        parts = [part.strip() for part in said.split(b",")[-1].split(b";")]
        hit = next((part for part in parts[1:] if part == b"hit" or part.startswith(b"hit=")), b"")
        detail = next((part[7:].strip(b'"') for part in parts[1:] if part.startswith(b"detail=")), b"")
        word = "hit" if hit and hit != b"hit=?0" else "bypass" if b"fwd=bypass" in parts else "miss"
        return f"{word} ({detail.decode('latin-1')})" if detail and word == "hit" else word
    for name in _CACHE_HEADERS:
        if (value := reader.header(name)) is not None:
            return "hit" if b"hit" in value or value == b"true" else "miss"
    return ""
