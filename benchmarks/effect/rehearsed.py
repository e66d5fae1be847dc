"""Rehearses a stream before it is played: does `understudy learn rehearse` foresee the share that opens?

The log holds the stream's requests with the large engine's answers, and what people would say of some of them. The small
engine is asked over HTTP, by the command that an operator would type.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.effect.engines import USD_PER_MTOK, Engine, Upstreams
from benchmarks.effect.streams import Stream
from benchmarks.tables import markdown

_HEAD = ("stream", "said", "foreseen to open", "opened", "inside", "questions", "took")


async def rehearsed(stream: Stream, engines: dict[str, Engine], *, questions: int = 100) -> dict[str, Any]:
    """What the command found, and the seconds that it took."""
    upstreams = Upstreams({"small": engines["small"]})
    large = await asyncio.gather(*[engines["large"].would_say(stream.body(text)) for text in stream.texts])
    with tempfile.TemporaryDirectory(prefix="understudy-rehearse-") as name:
        log, told = Path(name) / "log.jsonl", Path(name) / "told.json"
        lines = [_line(stream, text, said) for text, said in zip(stream.texts, large, strict=True)]
        log.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
        async with upstreams.serving() as address:
            prices = [
                option
                for engine in ("small", "large")
                for option in (f"--{engine}-price", ",".join(map(str, USD_PER_MTOK[engine])))
            ]
            command = ["learn", "rehearse", str(log), "--small", f"{address}/small/v1=small", *prices]
            command += [
                "--state",
                str(Path(name) / "state.jsonl"),
                "--questions",
                str(questions),
                "--json",
                str(told),
            ]
            began = time.monotonic()
            process = await asyncio.create_subprocess_exec(sys.executable, "-m", "understudy", *command)
            if await process.wait():
                raise RuntimeError(f"stream {stream.key}: understudy learn rehearse failed")
        found: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
        wall_s = time.monotonic() - began
    asked = upstreams.asked["small"].requests
    return found | {"stream": stream.key, "task": bool(stream.task), "wall_s": wall_s, "asked": asked}


def _line(stream: Stream, text: str, said: str) -> dict[str, Any]:
    answer = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
    line: dict[str, Any] = {"request": stream.body(text), "response": {"choices": [answer], "model": "large"}}
    if stream.tells(text):
        line["score"] = stream.grade(said, stream.right[text])
        if stream.corrects:
            line["correction"] = stream.right[text]
    return line


def foreseen(row: Mapping[str, Any], *, task: bool) -> tuple[float, float, float]:
    """The share that is to open, with the ends of its interval: the small engine's, and the student's in a declared task."""
    parts = [row["gate"], *([row["student"]] if task and row["student"] else [])]
    share = sum(part["share"] for part in parts)
    low, high = (sum(part["within"][end] for part in parts) for end in (0, 1))
    return share, low, min(1.0, high)


def table(found: Sequence[Mapping[str, Any]], observed: Mapping[str, float]) -> str:
    """Markdown: a row per stream, in the order given. `observed`: the share that opened when it was played."""
    rows = []
    for row in found:
        share, low, high = foreseen(row, task=row["task"])
        opened = observed.get(row["stream"])
        rows.append(
            [
                row["stream"],
                row["said"],
                f"{share:.1%} ({low:.1%} to {high:.1%})",
                "not played" if opened is None else f"{opened:.1%}",
                "-" if opened is None else "yes" if low <= opened <= high else "**no**",
                str(row["ways"][0]["questions"]),
                f"{row['wall_s']:.0f} s, {row['asked']} asked",
            ]
        )
    return markdown(_HEAD, rows)
