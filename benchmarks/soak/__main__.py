"""Does anything grow that should not? `make soak`, or `python -m benchmarks.soak [--minutes 30] [--rate 60]`.

Two workers with a bank of examples at its cap are asked without a pause: new questions, repeats, streams, clients that
leave, refused requests, embeddings. Memory, open files and threads of every process are read as the requests go by. The
first third of the time fills caches and the bank, and counts for nothing. After it a worker's memory may grow by at most
1 MiB per 10,000 requests (the slope of a straight line through all readings), and open files and threads by nothing but
those of requests under way. Exit status 1: something grew.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from benchmarks.options import options, write
from benchmarks.overhead.servers import gateway, upstream

MOST_MIB = 1.0
"""By how much a worker's memory may grow in 10,000 requests."""
MOST_FILES = 24
MOST_THREADS = 4
"""By how much the largest number of the last third may pass that of the second: what is under way differs."""
_READ_EVERY_S = 5.0
_BANK = 500
_WARM_SHARE = 1 / 3
_REPEATED = 40
_DISTINCT = 1500
"""So many questions there are: what is kept of each in caches that are bounded in bytes is there after the warm-up."""
_TTL_S = 30
"""Their answers are asked for anew so soon."""
_LEAVES_S = 0.02


@dataclass
class Process:
    """Readings of one process, by how many requests had been answered."""

    name: str
    requests: list[int] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    def read(self, pid: int, requests: int) -> None:
        proc = Path(f"/proc/{pid}")
        pages = int((proc / "statm").read_text().split()[1])
        threads = len(list((proc / "task").iterdir()))
        files = len(list((proc / "fd").iterdir()))
        self.requests.append(requests)
        self.rss_mib.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        self.files.append(files)
        self.threads.append(threads)

    def grown(self) -> dict[str, Any]:
        """What changed after the warm-up; `ok` where nothing grew."""
        warm = int(len(self.requests) * _WARM_SHARE)
        half = warm + (len(self.requests) - warm) // 2
        x, y = np.asarray(self.requests[warm:], float), np.asarray(self.rss_mib[warm:])
        slope = float(np.polyfit(x, y, 1)[0]) * 10_000 if len(x) > 2 and x[-1] > x[0] else 0.0
        files = max(self.files[half:]) - max(self.files[warm:half], default=0)
        threads = max(self.threads[half:]) - max(self.threads[warm:half], default=0)
        return {
            "process": self.name,
            "rss_mib": [round(self.rss_mib[warm], 1), round(self.rss_mib[-1], 1)],
            "mib_per_10000": round(slope, 3),
            "files": [self.files[warm], self.files[-1]],
            "threads": [self.threads[warm], self.threads[-1]],
            "ok": slope <= MOST_MIB and files <= MOST_FILES and threads <= MOST_THREADS,
        }


class Traffic:
    """Asks at a rate until it is told to stop, and counts what came of it."""

    def __init__(self, url: str, rate: float) -> None:
        self._url = url
        self._rate = rate
        self._random = random.Random(5)
        self.done = 0
        self.statuses: dict[str, int] = {}

    async def run(self, until_s: float) -> None:
        connector = aiohttp.TCPConnector(limit=200)
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
            places = asyncio.Semaphore(150)
            while time.monotonic() < until_s:
                await places.acquire()
                tasks.create_task(self._one(session)).add_done_callback(lambda _: places.release())
                await asyncio.sleep(self._random.expovariate(self._rate))

    async def _one(self, session: aiohttp.ClientSession) -> None:
        kind = self._random.choices(
            ("new", "repeat", "stream", "leave", "wrong", "embedding"), (30, 30, 20, 8, 6, 6)
        )[0]
        number = (
            self._random.randrange(_REPEATED)
            if kind == "repeat"
            else _REPEATED + self._random.randrange(_DISTINCT)
        )
        text = f"What is the best way to paint fence number {number} in the spring, and what do I need?"
        path, body = "/chat/completions", self._chat(text, stream=kind in ("stream", "leave"))
        if kind == "embedding":
            path, body = "/embeddings", {"model": "bench", "input": text}
        if kind == "wrong":
            body = {"model": "bench", "messages": "none"}
        came = "left"
        with suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(_LEAVES_S if kind == "leave" else 30):
                async with session.post(self._url + path, json=body) as answer:
                    await answer.read()
                    came = str(answer.status)
        self.done += 1
        self.statuses[f"{kind} {came}"] = self.statuses.get(f"{kind} {came}", 0) + 1

    def _chat(self, text: str, *, stream: bool) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"model": "bench", "messages": messages, "temperature": 0, "stream": stream}


def configuration(base: str, data: Path) -> dict[str, Any]:
    """Everything on: exact answers, a bank at its cap, a log of requests with texts."""
    engine = {"base_url": base, "api_key": "none"}
    return {
        "listen": {"workers": 2},
        "upstream": {"base_url": base},
        "engines": {"small": engine, "large": engine},
        "models": {"bench": {"engines": ["small", "large"], "policy": "few_shot", "proof": "off"}},
        "memory": {
            "data_dir": str(data),
            "anonymous": True,
            "exact": {"disk_mib": 8, "ttl_s": _TTL_S},
            "examples": {"max_stored": _BANK},
        },
    }


async def soaked(server_pid: int, url: str, minutes: float, rate: float) -> tuple[list[Process], Traffic]:
    """The readings of the server's processes, and the traffic that they stood."""
    traffic = Traffic(url, rate)
    until_s = time.monotonic() + minutes * 60
    readings: dict[int, Process] = {}

    async def read() -> None:
        while time.monotonic() < until_s:
            await asyncio.sleep(min(_READ_EVERY_S, minutes * 60 / 12))
            for pid in (server_pid, *_children(server_pid)):
                with suppress(OSError):
                    readings.setdefault(pid, Process(_named(pid, server_pid))).read(pid, traffic.done)

    async with asyncio.TaskGroup() as both:
        both.create_task(traffic.run(until_s))
        both.create_task(read())
    return list(readings.values()), traffic


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _named(pid: int, server_pid: int) -> str:
    return f"supervisor {pid}" if pid == server_pid else f"child {pid}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long [%(default)s]")
    parser.add_argument("--rate", type=float, default=60.0, help="requests per second [%(default)s]")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="understudy-soak-") as folder, ExitStack() as running:
        there = Path(folder)
        mock = running.enter_context(upstream(there))
        config = there / "config.json"
        config.write_text(json.dumps(configuration(f"http://127.0.0.1:{mock.port}/v1", there / "data")))
        server = running.enter_context(gateway("soaked", ["--config", str(config)], there, pinned=False))
        url = f"http://127.0.0.1:{server.port}/v1"
        processes, traffic = asyncio.run(soaked(server.pid, url, chosen.minutes, chosen.rate))
    rows = [process.grown() for process in processes if len(process.requests) > 5]
    print(f"{traffic.done} requests in {chosen.minutes:g} minutes: {dict(sorted(traffic.statuses.items()))}")
    print(f"{'process':20} {'RSS MiB':>18} {'MiB/10,000':>11} {'files':>12} {'threads':>10}")
    for row in rows:
        pairs = [f"{a} -> {b}" for a, b in (row["rss_mib"], row["files"], row["threads"])]
        print(
            f"{row['process']:20} {pairs[0]:>18} {row['mib_per_10000']:>11} {pairs[1]:>12} {pairs[2]:>10}"
            f"  {'flat' if row['ok'] else 'GREW'}"
        )
    write({"requests": traffic.done, "statuses": traffic.statuses, "processes": rows}, chosen.json)
    sys.exit(0 if rows and all(row["ok"] for row in rows) else 1)


if __name__ == "__main__":
    main()
