"""Does anything grow that should not? `make soak`, or `python -m benchmarks.soak [--minutes 30] [--rate 60]`.

Two workers with a bank of examples at its cap are asked without a pause, under keys with limits and budgets: new questions,
repeats, streams, Responses, embeddings, clients that leave, end users and ids that nobody heard of before, refused and
failing requests. Metrics are scraped, and SIGHUP has the configuration read anew. Memory, open files and threads of every
process are read as the requests go by, and the sizes of the journals of limits and of the database's log of writes.

The first half of the time fills caches, and counts for nothing. In the second a process's memory may grow by at most 1 MiB
per 10,000 requests, which for a worker are its own: the slope of a straight line through the readings, shown with its 95 %
interval. Open files, threads and journals may grow by nothing but those of requests under way. Exit status 1: something
grew, or a right request was answered wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks import processes
from benchmarks.options import options, write
from benchmarks.overhead.servers import answers
from benchmarks.processes import free_port
from benchmarks.soak.readings import Process, Size, listening
from benchmarks.soak.traffic import Calls, Traffic
from benchmarks.tables import markdown

WORKERS = 2
BANK = 300
TEXTS = 6000
"""Questions that no other asks, before the time begins: what is kept of texts is at its cap then, or near it (4,096 vectors,
4,000 examples as read). With the bank's own questions alone that takes some 100,000 requests of each worker."""
_READINGS = 240
_READ_AT_MOST_EVERY_S = 5.0
_RELOADS_AT = tuple(begin + n / 100 for begin in (0.2, 0.6) for n in range(5))
"""Shares of the time. In between, the helpers, which start anew with each, live long enough to be measured."""
_LIVED = 1 / 5
"""Of the time, at least: of others too little is known."""
_TTL_S = 30
"""Exact answers are asked for anew so soon."""
_START_S = 180.0
_MOST_WRONG = 0.001
"""Share of right requests that may be answered with an error: a deadline on a loaded machine."""
_RIGHT = dict.fromkeys(
    ("fill", "new", "repeat", "learned", "stream", "user", "embedding", "models"), ("200",)
) | {
    # An id that nobody heard of is refused.
    "responses": ("200", "404", "left"),
    "responses stream": ("200", "404", "left"),
    "no such key": ("401",),
    "no such model": ("403", "404"),
    "wrong": ("400",),
}
SECRETS = (
    "us-soak-without-limits-0123456789",
    "us-soak-with-limits-0123456789ab",
    "us-soak-limits-of-users-0123",
)
_PRICE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 4.0}


def configuration(base: str, data: Path, port: int, admin_port: int = 0) -> dict[str, Any]:
    """Everything on: exact answers, a bank at its cap, learning, a log of requests with texts, limits that never refuse."""
    engine = {"base_url": base, "api_key": "none", "price": _PRICE}
    served = {"engines": ["small", "large"], "proof": "off"}
    wide: dict[str, Any] = {"requests_per_minute": 10**7, "tokens_per_minute": 10**10, "concurrency": 5000}
    wide["budgets"] = [{"usd": 1e6, "per": "day"}, {"usd": 1e6, "per": "month"}]
    return {
        "listen": {"workers": WORKERS, "port": port, "grace_s": 5},
        "admin": {"port": admin_port},
        "engines": {"small": engine, "large": engine},
        "models": {
            "bench": served | {"policy": "few_shot"},
            "learned": served | {"policy": "in_context"},
            "vectors": {"engines": ["large"]},
        },
        "keys": {
            "free": {"secret": SECRETS[0]},
            "limited": {"secret": SECRETS[1], "limits": wide},
            "users": {"secret": SECRETS[2], "each_user": wide},
        },
        "memory": {
            "data_dir": str(data),
            "exact": {"disk_mib": 8, "ttl_s": _TTL_S},
            "examples": {"max_stored": BANK},
        },
    }


@dataclass
class Soak:
    """A running gateway and what is read of it."""

    config: Path
    pid: int
    port: int
    traffic: Traffic
    readings: dict[int, Process] = field(default_factory=dict)
    sizes: list[Size] = field(default_factory=list)
    reloads: int = 0
    scraped: int = 0

    async def run(self, minutes: float, texts: int = TEXTS) -> None:
        """Fill the bank, and what is kept of so many texts; then ask for so long."""
        await self.traffic.fill(BANK + BANK // 10)
        await self.traffic.fill(texts, learned=True)
        length_s = minutes * 60
        until_s = time.monotonic() + length_s
        async with asyncio.TaskGroup() as all_of_it:
            all_of_it.create_task(self.traffic.run(until_s))
            all_of_it.create_task(self._read(until_s, min(_READ_AT_MOST_EVERY_S, length_s / _READINGS)))
            all_of_it.create_task(self._reload(time.monotonic(), length_s))

    async def _read(self, until_s: float, every_s: float) -> None:
        """Scraping is what a Prometheus does; reading the files of /proc costs the gateway nothing."""
        async with aiohttp.ClientSession() as session:
            while time.monotonic() < until_s:
                await asyncio.sleep(every_s)
                with suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"http://127.0.0.1:{self.port}/metrics") as answer:
                        self.scraped += bool(await answer.read())
                for pid in (self.pid, *_children(self.pid)):
                    with suppress(OSError):
                        process = self.readings.setdefault(pid, Process(self._named(pid), pid))
                        process.name = self._named(pid)
                        share = WORKERS if process.name.startswith("worker") else 1
                        process.read(self.traffic.done / share)
                for size in self.sizes:
                    size.read()

    async def _reload(self, began: float, length_s: float) -> None:
        """Another configuration each time."""
        config = json.loads(self.config.read_text())
        for share in _RELOADS_AT:
            await asyncio.sleep(max(0.0, began + share * length_s - time.monotonic()))
            self.reloads += 1
            config["models"]["bench"]["max_loss"] = 0.05 + 0.01 * (self.reloads % 2)
            new = self.config.with_suffix(".new")
            new.write_text(json.dumps(config))
            new.replace(self.config)
            os.kill(self.pid, signal.SIGHUP)

    def _named(self, pid: int) -> str:
        if pid == self.pid:
            return f"supervisor {pid}"
        ports = listening(pid)
        kind = "worker" if self.port in ports else "admin" if ports else "learner"
        return f"{kind} {pid}"

    def wrong(self) -> dict[str, int]:
        """Answers to right requests that were not theirs, by kind and status."""
        found = {}
        for told, number in self.traffic.statuses.items():
            kind, _, status = told.partition(": ")
            if kind in _RIGHT and status not in _RIGHT[kind]:
                found[told] = number
        return found


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


@contextmanager
def running(folder: Path, rate: float) -> Iterator[Soak]:
    """An upstream and a gateway, until the block ends. Raises processes.NotReady."""
    with ExitStack() as started:

        def start(name: str, command: list[str], ready: tuple[int, str]) -> int:
            log = folder / f"{name}.log"
            process = started.enter_context(processes.started(command, log))
            processes.wait_until(lambda: answers(*ready), name, process, log, within_s=_START_S, pause_s=0.05)
            return process.pid

        behind, port, admin_port = free_port(), free_port(), free_port()
        start("upstream", [sys.executable, "-m", "benchmarks.soak.upstream", str(behind)], (behind, "/"))
        config, data = folder / "config.json", folder / "data"
        made = configuration(f"http://127.0.0.1:{behind}/v1", data, port, admin_port)
        config.write_text(json.dumps(made))
        serve = [sys.executable, "-m", "understudy", "serve", "--config", str(config)]
        pid = start("gateway", serve, (port, "/readyz"))
        traffic = Traffic(f"http://127.0.0.1:{port}/v1", Calls(SECRETS), rate)
        yield Soak(config, pid, port, traffic, sizes=_sizes(data))


def _sizes(data: Path) -> list[Size]:
    return [
        Size("journals of limits", data, "*.journal"),
        Size("log of writes", data, "*-wal"),
        # Rows of requests are kept for months.
        Size("data folder", data, "*", bounded=False),
    ]


def report(soak: Soak, minutes: float) -> tuple[str, dict[str, Any]]:
    """As text and as figures; `ok` of the figures says whether nothing grew and nothing was answered wrong."""
    most = max((len(process.requests) for process in soak.readings.values()), default=0)
    lasting = [one for one in soak.readings.values() if len(one.requests) >= most * _LIVED]
    rows = [process.grown() for process in lasting]
    sizes = [size.grown() for size in soak.sizes]
    wrong = soak.wrong()
    most_wrong = _MOST_WRONG * soak.traffic.done
    shown = [
        (
            row["name"],
            row["requests"],
            " -> ".join(map(str, row["rss_mib"])),
            "{1} ({0} to {2})".format(*row["mib_per_10000"]),
            " -> ".join(map(str, row["files"])),
            " -> ".join(map(str, row["threads"])),
            row["told"],
        )
        for row in rows
    ]
    head = ("process", "requests", "RSS, MiB", "MiB per 10,000", "files: most -> last", "threads", "")
    files = [(row["name"], " -> ".join(map(str, row["mib"])), row["told"]) for row in sizes]
    text = "\n\n".join(
        (
            f"{soak.traffic.done} requests in {minutes:g} minutes, {soak.reloads} reloads, {soak.scraped} scrapes.",
            markdown(head, shown),
            markdown(("files", "MiB: half-way -> most -> last", ""), files),
            markdown(("requests", "number"), sorted(soak.traffic.statuses.items())),
            f"Answered wrong: {wrong or 'none'}.",
        )
    )
    ok = bool(rows) and all(row["ok"] for row in (*rows, *sizes)) and sum(wrong.values()) <= most_wrong
    figures = {
        "minutes": minutes,
        "requests": soak.traffic.done,
        "reloads": soak.reloads,
        "statuses": soak.traffic.statuses,
        "wrong": wrong,
        "processes": rows,
        "files": sizes,
        "ok": ok,
    }
    return text, figures


def main() -> None:
    """Runs it, prints the tables, and ends with 1 where something grew."""
    parser = options(__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long [%(default)s]")
    parser.add_argument("--rate", type=float, default=60.0, help="requests per second [%(default)s]")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep logs and data in this folder, which is new"
    )
    chosen = parser.parse_args()
    with ExitStack() as held:
        there = chosen.keep or Path(
            held.enter_context(tempfile.TemporaryDirectory(prefix="understudy-soak-"))
        )
        there.mkdir(parents=True, exist_ok=True)
        soak = held.enter_context(running(there, chosen.rate))
        asyncio.run(soak.run(chosen.minutes))
        text, figures = report(soak, chosen.minutes)
    print(text)
    write(figures, chosen.json)
    sys.exit(0 if figures["ok"] else 1)


if __name__ == "__main__":
    main()
