"""Answers a parsed request in time: waits for a slot, waits out the delays, writes, injects faults.

loadtest.mock.protocol parses HTTP.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from loadtest.clock import Alarm, now
from loadtest.mock import answers
from loadtest.mock.faults import Fault, Schedule
from loadtest.mock.settings import Counters, MockSettings


class Connection(Protocol):
    """A client's connection, as the service uses it."""

    gone: bool

    def write(self, data: bytes) -> None:
        """Sends bytes to the client."""

    def finish(self, keep_alive: bool) -> None:
        """The answer is complete: reads the next request, or closes."""

    def reset(self) -> None:
        """Aborts the connection at once."""


@dataclass(slots=True, eq=False)
class Job:
    """One request, as far as its answer depends on it."""

    connection: Connection
    chat: bool
    model: str
    stream: bool
    with_usage: bool
    prompt_tokens: int
    tokens: int
    ttft_s: float
    token_s: float
    keep_alive: bool
    fault: Fault | None = None
    extra_head: str = ""
    arrived_s: float = 0.0
    begun_s: float = 0.0
    counted: bool = False


class Service:
    """Answers jobs with their delays. One per server; single-threaded."""

    def __init__(self, settings: MockSettings, alarm: Alarm) -> None:
        self.settings = settings
        self.counters = Counters()
        self.rng = random.Random(settings.seed)
        self.intended_s: deque[float] = deque(maxlen=500_000)  # arrival to last byte, as planned
        self.intended_first_s: deque[float] = deque(maxlen=500_000)  # arrival to first token, as planned
        self._alarm = alarm
        self._schedule = Schedule(settings.windows, settings.seed)
        self._waiting: deque[Job] = deque()
        self._busy = 0
        self._first_request_s = 0.0

    def reset(self) -> None:
        """Resets the counters, the intended delays and the fault schedule."""
        open_now = self.counters.connections
        self.counters = Counters(connections=open_now)
        self.intended_s.clear()
        self.intended_first_s.clear()
        self._first_request_s = 0.0

    def submit(self, job: Job) -> None:
        """Takes a job; its answer goes to `job.connection` when it is due."""
        job.arrived_s = now()
        if not self._first_request_s:
            self._first_request_s = job.arrived_s
        counters = self.counters
        counters.requests += 1
        counters.in_flight += 1
        counters.in_flight_max = max(counters.in_flight_max, counters.in_flight)
        job.counted = True
        job.fault = job.fault or self._schedule.fault_at(job.arrived_s - self._first_request_s)
        settings = self.settings
        if settings.capacity and self._busy >= settings.capacity:
            if settings.max_queue and len(self._waiting) >= settings.max_queue:
                counters.rejected += 1
                self._busy += 1
                self._answer_error(job, 429, f"the mock's queue of {settings.max_queue} is full")
                return
            self._waiting.append(job)
            counters.queued += 1
            counters.queued_max = max(counters.queued_max, len(self._waiting))
            return
        self._begin(job)

    def _begin(self, job: Job) -> None:
        self._busy += 1
        job.begun_s = start_s = now()
        fault = job.fault
        if fault is not None:
            self.counters.faults += 1
            if fault.kind == "stall":
                start_s += max(0.0, fault.amount) if fault.amount >= 0 else 30.0
            elif fault.kind == "slow":
                job.ttft_s *= fault.amount
                job.token_s *= fault.amount
            elif self._failed_at_once(job, fault):
                return
        first_s = start_s + job.ttft_s
        last_s = first_s + job.token_s * (job.tokens - 1)
        if self._schedule is not None and self.settings.windows:
            origin = self._first_request_s
            first_s = origin + self._schedule.earliest_write(first_s - origin)
            last_s = max(first_s, origin + self._schedule.earliest_write(last_s - origin))
        self.intended_s.append(last_s - job.arrived_s)
        self.intended_first_s.append((first_s if job.stream else last_s) - job.arrived_s)
        if not job.stream:
            self._at(last_s, self._write_message, job)
        elif job.token_s or (fault is not None and fault.kind in ("cut", "error")):
            self._at(first_s, self._write_token, job, 0, first_s)
        else:
            self._at(first_s, self._write_whole_stream, job)

    def _at(self, when_s: float, callback: object, *args: object) -> None:
        if when_s <= now():
            callback(*args)  # type: ignore[operator]
        else:
            self._alarm.call_at(when_s, callback, *args)  # type: ignore[arg-type]

    def _failed_at_once(self, job: Job, fault: Fault) -> bool:
        """Injects a fault that replaces the answer; False for other faults."""
        if fault.kind == "http":
            self._answer_error(job, int(fault.amount), f"mock fault {int(fault.amount)}")
        elif fault.kind == "reset":
            job.connection.reset()
            self._release(job)
        elif fault.kind == "hang":
            pass  # its slot stays taken until the client gives up, see `client_left`
        elif fault.kind == "garbage":
            self._answer(job, answers.http_head(200, "application/json", 9) + b'{"choices')
        elif fault.kind == "html":
            page = b"<!doctype html><title>It works</title><p>Not an API."
            self._answer(job, answers.http_head(200, "text/html", len(page)) + page)
        else:
            return False
        return True

    def _answer_error(self, job: Job, status: int, message: str) -> None:
        self._answer(job, answers.error_response(status, message))

    def _answer(self, job: Job, data: bytes) -> None:
        if not job.connection.gone:
            job.connection.write(data)
        self._done(job)

    def _write_message(self, job: Job) -> None:
        if job.connection.gone:
            return
        serial = self.counters.requests
        body = answers.message_body(job.chat, job.model, job.tokens, job.prompt_tokens, serial)
        head = answers.http_head(200, "application/json", len(body), job.extra_head)
        if job.fault is not None and job.fault.kind in ("cut", "error"):
            job.connection.write(head + body[: len(body) // 2])
            job.connection.finish(False)
            self._release(job)
            return
        self._answer(job, head + body)

    def _stream_head(self, job: Job) -> bytes:
        return answers.http_head(200, "text/event-stream; charset=utf-8", -1, job.extra_head)

    def _write_whole_stream(self, job: Job) -> None:
        if job.connection.gone:
            return
        self.counters.streams += 1
        whole = answers.whole_stream(job.chat, job.model, job.tokens, job.prompt_tokens, job.with_usage)
        self._answer(job, self._stream_head(job) + whole)

    def _write_token(self, job: Job, k: int, first_s: float) -> None:
        connection = job.connection
        if connection.gone:
            return
        frames = answers.stream_frames(job.chat, job.model, job.tokens, job.prompt_tokens, job.with_usage)
        if k == 0:
            self.counters.streams += 1
            connection.write(self._stream_head(job) + frames.opening)
        fault = job.fault
        if fault is not None and fault.kind in ("cut", "error"):
            limit = int(fault.amount) if fault.amount >= 0 else job.tokens // 2
            if k >= limit:
                if fault.kind == "error":
                    connection.write(frames.error)
                connection.finish(False)
                self._release(job)
                return
        if k == job.tokens - 1:
            connection.write(frames.token(k) + frames.closing)
            self._done(job)
            return
        connection.write(frames.token(k))
        due_s = first_s + (k + 1) * job.token_s
        if self.settings.windows:
            origin = self._first_request_s
            due_s = origin + self._schedule.earliest_write(due_s - origin)
        self._alarm.call_at(due_s, self._write_token, job, k + 1, first_s)

    def client_left(self, job: Job) -> None:
        """The client closed before its answer was complete: frees its slot, wherever the job was."""
        self.counters.client_gone += 1
        if job in self._waiting:
            self._waiting.remove(job)
            job.counted = False
            self.counters.in_flight -= 1
            return
        self._release(job)

    def _done(self, job: Job) -> None:
        self.counters.answered += 1
        self._release(job)
        if not job.connection.gone:
            job.connection.finish(job.keep_alive)

    def _release(self, job: Job) -> None:
        if not job.counted:
            return
        job.counted = False
        self.counters.in_flight -= 1
        self._busy -= 1
        if self._waiting and self._busy < self.settings.capacity:
            self._begin(self._waiting.popleft())
