"""Structured logging: one JSON object per line on standard error, written by a thread of its own.

Writing to a pipe can block, so the event loop only appends to a queue. A full queue drops lines and counts them: a slow log
reader must never slow a request.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import BinaryIO

import orjson
import structlog

from gateway.log_texts import text_of

Line = bytes | Callable[[], bytes]
"""A line without its newline, or what makes it: that is called once, on the writing thread."""

_QUEUE_LINES = 20_000
_FLUSH_EVERY_S = 0.2


class LineWriter:
    """Takes lines from any thread, writes them in batches from one."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._lines: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        self.dropped = 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        """What is queued is written at once."""

    def write(self, line: Line) -> None:
        """Queue one line. Never blocks."""
        if self._thread is None:
            self._start()
        if self._lines.qsize() < _QUEUE_LINES:
            self._lines.put(line)
        else:
            self.dropped += 1

    def close(self) -> None:
        """Write what is queued and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._closing.set()
            self._lines.put(None)
            thread.join(timeout=5)
            self._closing.clear()

    def reset(self) -> None:
        """Forget the thread and what it had queued: in a forked child neither is there any more."""
        self._lines = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        open_ = True
        while open_:
            batch = [self._lines.get()]
            self._closing.wait(_FLUSH_EVERY_S)
            while not self._lines.empty():
                batch.append(self._lines.get_nowait())
            open_ = None not in batch
            try:
                self._sink.write(b"".join(self._ended(line) for line in batch if line is not None))
                self._sink.flush()
            except (OSError, ValueError):
                self.dropped += len(batch)

    def _ended(self, line: Line) -> bytes:
        try:
            return (line if isinstance(line, bytes) else line()) + b"\n"
        except Exception:
            # One line that cannot be put into words must not end the log.
            self.dropped += 1
            return b""


WRITER = LineWriter(sys.stderr.buffer)
"""Standard error is one per process, so its writer is too."""
os.register_at_fork(after_in_child=WRITER.reset)


def configure(level: str = "info", *, for_terminal: bool = False) -> None:
    """Send the events of every structlog logger of this process to standard error, from `level` on.

    `level`: debug, info, warning or error. An event's name is stable, for machines; its fields must be free of secrets and
    of content. `for_terminal`: events that have a sentence in log_texts are written as that instead of JSON.
    """
    structlog.configure(
        processors=[structlog.processors.add_log_level, _as_text_or_line if for_terminal else _as_line],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Sink,
        cache_logger_on_first_use=False,
    )


class _Sink:
    """Where structlog hands over finished lines."""

    def __init__(self, *_: object) -> None:
        pass

    def msg(self, line: bytes) -> None:
        WRITER.write(line)

    debug = info = warning = error = msg


def _as_text_or_line(logger: object, method: str, fields: structlog.typing.EventDict) -> bytes:
    text = text_of(fields["event"], fields)
    return _as_line(logger, method, fields) if text is None else f"understudy: {text}".encode()


def _as_line(_: object, __: str, fields: structlog.typing.EventDict) -> bytes:
    level, event, error = fields.pop("level"), fields.pop("event"), fields.pop("error", None)
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "level": level,
        "event": event,
        **fields,
    }
    if isinstance(error, BaseException):
        # The message of an arbitrary exception may quote a header or a body; where it happened is enough to mend it.
        line["error"] = type(error).__name__
        line["at"] = [
            f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)[-6:]
        ]
    elif error is not None:
        line["error"] = error
    return orjson.dumps(line, default=str)
