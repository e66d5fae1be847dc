"""What it costs to keep what was asked and answered for the admin pages: two gateways that differ in nothing else.

Both answer the same offloaded requests, in turn; one keeps no text, the other that of every request. A gateway spends no
more than a tenth of a core on texts, and saves up what it does not spend: the pause before each batch is long enough for
all texts of the batch. That every text was kept is read from the gateway's own metrics.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from benchmarks.overhead.questions import KNOWN_TEXTS, Questions
from benchmarks.overhead.rounds import Subject, in_rounds, measured
from benchmarks.overhead.servers import Server, fetch, gateway

WAYS: dict[str, dict[str, Any]] = {"no_texts": {"enabled": False}, "all_texts": {"enabled": True}}
"""By what is kept: the settings of memory.request_texts."""
PAUSE_S = 0.01
"""Per request of a batch: in this time a tenth of a core gives the millisecond that a text takes."""


def configuration(mock: Server, data: Path, texts: dict[str, Any]) -> dict[str, Any]:
    """The whole line with few_shot, as `few_shot` in __main__ has it, and what is kept of texts."""
    base = f"http://127.0.0.1:{mock.port}/v1"
    return {
        "upstream": {"base_url": base},
        "engines": {
            "small": {"base_url": base, "model": "bench-small"},
            "large": {"base_url": base, "model": "bench"},
        },
        "models": {"bench": {"engines": ["small", "large"], "policy": "few_shot", "proof": "off"}},
        "memory": {"data_dir": str(data), "request_texts": texts},
    }


def texts_counted(server: Server) -> dict[str, float]:
    """How many finished answers came to what, as to their texts: from the gateway's metrics, by result."""
    found = re.findall(
        r'^understudy_remembered_total\{kind="text",result="(\w+)"\} (\S+)',
        fetch(server.port, "/metrics"),
        re.M,
    )
    return {result: float(value) for result, value in found}


async def measured_side_by_side(
    mock: Server, folder: Path, *, rounds: int, requests: int, fill: Callable[[Server], Awaitable[None]]
) -> dict[str, list[dict[str, float]]]:
    """CPU per offloaded request by way. Raises SystemExit where the one kept a text, or the other did not keep every one."""
    with ExitStack() as stack:
        servers = {}
        for way, texts in WAYS.items():
            path = folder / f"{way}.yaml"
            path.write_text(yaml.safe_dump(configuration(mock, folder / way, texts)))
            servers[way] = stack.enter_context(gateway(way, ["--config", str(path)], folder))
            await fill(servers[way])

        known = Questions().new_with_known_words()
        subjects = [Subject(way, server, lambda: known, remembers=True) for way, server in servers.items()]
        for subject in subjects:
            await measured(subject, mock, max(KNOWN_TEXTS, requests // 4))
        before = {way: texts_counted(server) for way, server in servers.items()}

        async def after_a_pause(subject: Subject) -> dict[str, float]:
            await asyncio.sleep(requests * PAUSE_S)
            return await measured(subject, mock, requests)

        found = await in_rounds(subjects, rounds, after_a_pause)
        for way, server in servers.items():
            now = texts_counted(server)
            new = {result: n - before[way].get(result, 0.0) for result, n in now.items()}
            expected = rounds * requests if way == "all_texts" else 0
            if new.get("stored", 0.0) != expected:
                raise SystemExit(f"{way}: {expected} texts should have been kept; metrics say {new}")
        return found
