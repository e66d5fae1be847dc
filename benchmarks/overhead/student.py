"""What a task's student costs in the gateway: the same requests side by side, whoever answers them.

A gateway learns the task from its teacher first, by the product's own learner, and is started anew with the learner off,
so that no training is measured. Embeddings are cached: every text was asked before, and every request is new by its seed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from benchmarks.overhead.load import Batch, ask, chat_request
from benchmarks.overhead.questions import KNOWN_TEXTS, VERBS, Questions
from benchmarks.overhead.rounds import CONNECTIONS, Subject, in_rounds, measured, settle
from benchmarks.overhead.servers import Server, bypassed, gateway

SYSTEM = "Classify what is to be done. Answer in one word."
TAUGHT = 240
"""Teacher's answers that the student is trained on."""
_LEARNT_WITHIN_S = 120
_NEVER = 1.0
"""Doubt by margin never comes up to it: the teacher is asked only where the student has no answer."""
_NO_STUDENT = b"x-understudy-preference: 1\r\n"
"""Such a client is answered by an engine; the student predicts all the same."""


def configuration(mock: Server, data: Path, *, learn: bool) -> dict[str, Any]:
    """One engine, and one task that is known by its system prompt."""
    task = {"labels": list(VERBS), "system": "^Classify", "threshold": _NEVER, "retrain_every": TAUGHT}
    return {
        "engines": {"large": {"base_url": f"http://127.0.0.1:{mock.port}/v1", "model": "bench"}},
        "models": {"bench": {"engines": ["large"], "policy": "fixed", "tasks": {"verb": task}}},
        "memory": {"data_dir": str(data)},
        "learning": {"enabled": learn, "advanced": {"every_s": 1}},
    }


class Requests:
    """Of the task; its texts come again, its requests do not."""

    def __init__(self) -> None:
        self._questions = Questions()

    def one(self, n: int, headers: bytes = b"", *, stream: bool = False) -> bytes:
        """With the n-th text, and for the upstream the label that it is to answer."""
        text = self._questions.text(n)
        body = self._questions.body(text, unlike_any=True, stream=stream, system=SYSTEM)
        return chat_request(body, b"x-bench-label: %s\r\n%s" % (_label(n).encode(), headers))

    def endless(self, headers: bytes = b"", *, stream: bool = False) -> Iterator[bytes]:
        """One after the other."""
        return (self.one(n % KNOWN_TEXTS, headers, stream=stream) for n in itertools.count())


def _label(n: int) -> str:
    return VERBS[n % len(VERBS)]


def says_a_label(body: bytes) -> bool:
    """Whether an answer, or a stream, is one of the labels and nothing else. The upstream never streams a label."""
    *events, done = [event.removeprefix(b"data: ") for event in body.split(b"\n\n") if event] or [b""]
    if not events:
        choice = json.loads(body)["choices"][0]
        return choice["message"]["content"] in VERBS and choice["finish_reason"] == "stop"
    chunks = [json.loads(event)["choices"][0] for event in events]
    said = "".join(chunk["delta"].get("content") or "" for chunk in chunks)
    return done == b"[DONE]" and said in VERBS and chunks[-1]["finish_reason"] == "stop"


async def measured_side_by_side(
    mock: Server, folder: Path, *, rounds: int, requests: int
) -> tuple[dict[str, list[dict[str, float]]], dict[str, float]]:
    """CPU per request by who answers; and what the task's gateway did without. Raises SystemExit where no student came."""
    data, asked = folder / "task", Requests()
    with ExitStack() as stack:
        await _taught(stack.enter_context(_gateway("learning", mock, data, folder, learn=True)), asked)
    with ExitStack() as stack:
        base = f"http://127.0.0.1:{mock.port}/v1"
        through = stack.enter_context(gateway("no_task", ["--upstream", base], folder))
        task = stack.enter_context(_gateway("task", mock, data, folder, learn=False))
        plain, engine, streams = asked.endless(), asked.endless(_NO_STUDENT), asked.endless(stream=True)
        subjects = [
            Subject("through", through, lambda: plain, expected=says_a_label),
            Subject("teacher", task, lambda: engine, remembers=True, expected=says_a_label),
            Subject("student", task, lambda: plain, remembers=True, expected=says_a_label),
            Subject("student_streams", task, lambda: streams, remembers=True, expected=says_a_label),
        ]
        for subject in subjects:
            await measured(subject, mock, max(KNOWN_TEXTS, requests // 4))
        before = bypassed(task)
        found = await in_rounds(subjects, rounds, lambda subject: measured(subject, mock, requests))
        now = bypassed(task)
    return found, {name: n - before.get(name, 0) for name, n in now.items() if n > before.get(name, 0)}


def _gateway(name: str, mock: Server, data: Path, folder: Path, *, learn: bool) -> Any:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(configuration(mock, data, learn=learn)))
    return gateway(name, ["--config", str(path)], folder)


async def _taught(server: Server, asked: Requests) -> None:
    """Has the teacher answer, and waits until the student does."""
    await _ask(server, (asked.one(n) for n in range(TAUGHT)))
    for _ in range(_LEARNT_WITHIN_S):
        if (await _ask(server, iter([asked.one(0)]))).by_student:
            return
        await asyncio.sleep(1)
    raise SystemExit(f"no student answered within {_LEARNT_WITHIN_S} s")


async def _ask(server: Server, requests: Iterator[bytes]) -> Batch:
    batch = await ask(server.port, requests, says_a_label, connections=CONNECTIONS)
    if batch.wrong:
        raise SystemExit(f"the teacher's answer was wrong: {batch.wrong[:1]}")
    await settle(server)
    return batch
