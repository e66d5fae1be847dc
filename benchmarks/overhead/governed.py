"""What governing costs: a key, a budget and durable books, beside our own passing through; and whether the books are right.

One upstream is asked in five ways that differ in nothing else: without keys; with a key; with a key that has a budget, which
is what counts as governed; the same budget for a served model; and with a key and a tenant that have a limit of every kind,
by one worker and by two. All limits are wide enough never to refuse. Nothing is remembered of answers, and request texts
are off: how many of these are kept goes by time, so a slower request would pay for more.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from benchmarks.chaos.verdict import books
from benchmarks.overhead.load import ask
from benchmarks.overhead.questions import KNOWN_TEXTS, Questions
from benchmarks.overhead.rounds import CONNECTIONS, Subject, in_rounds, measured
from benchmarks.overhead.servers import Server, answers, gateway
from benchmarks.overhead.upstream import INPUT_TOKENS, OUTPUT_TOKENS
from benchmarks.overhead.upstream import body as upstream_body
from benchmarks.processes import logged, wait_until
from store import Store
from store.people.limits import Budget, Limits, Terms

INPUT_USD, OUTPUT_USD = 1.0, 4.0
"""Per million tokens."""
_NANO_PER_USD_PER_MTOK = 1000
ANSWER_NANO = _NANO_PER_USD_PER_MTOK * int(INPUT_USD * INPUT_TOKENS + OUTPUT_USD * OUTPUT_TOKENS)
"""What the upstream charges for an answer, in nanodollars."""
_BUDGETS = (Budget(1e6, "day"), Budget(1e6, "month"))
WIDE = Limits(
    requests_per_minute=10**9,
    tokens_per_minute=10**12,
    concurrency=10_000,
    max_output_tokens=100_000,
    budgets=_BUDGETS,
)
_LIMITS = {"key": None, "budget": Limits(budgets=_BUDGETS[:1]), "limits": WIDE}
_SECRETS = {way: f"us-bench-{way}-0123456789abcdef0123456789" for way in _LIMITS}
_CLIENTS = b"sk-bench-0123456789"
WORKERS = 2
"""Of the gateway whose workers are killed."""


def configuration(mock: Server, data: Path, workers: int = 1, *, served: bool = False) -> dict[str, Any]:
    """A priced upstream, as the default one or behind a served model, and nothing remembered of its answers."""
    base = f"http://127.0.0.1:{mock.port}/v1"
    price = {"input_usd_per_mtok": INPUT_USD, "output_usd_per_mtok": OUTPUT_USD}
    return {
        "listen": {"workers": workers},
        "upstream": {"base_url": base, "api_key": "sk-up", "prices": {"bench": price}},
        "memory": {
            "data_dir": str(data),
            "examples": {"enabled": False},
            "exact": {"enabled": False},
            "request_texts": {"enabled": False},
        },
    } | (_served(base, price) if served else {})


def _served(base: str, price: dict[str, float]) -> dict[str, Any]:
    return {
        "engines": {"large": {"base_url": base, "model": "bench", "api_key": "sk-up", "price": price}},
        "models": {"bench": {"engines": ["large"]}},
    }


def _started(
    stack: ExitStack, mock: Server, folder: Path, name: str, workers: int = 1, *, served: bool = False
) -> Server:
    """A gateway with a key for each way, of which `limits` has a tenant that is limited like it."""
    data = folder / name
    store = Store.open(data)
    store.tenant_records.create("limits", Terms(limits=WIDE))
    for way, limits in _LIMITS.items():
        terms = None if limits is None else Terms(limits=limits)
        store.keys.create(way, way, secret_text=_SECRETS[way], terms=terms)
    store.close()
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(configuration(mock, data, workers, served=served)))
    return stack.enter_context(gateway(name, ["--config", str(path)], folder, pinned=workers == 1))


def _asking(way: str) -> Iterator[bytes]:
    """The same questions under one of the keys."""
    for request in Questions().repeated():
        yield request.replace(_CLIENTS, _SECRETS[way].encode())


async def measured_side_by_side(
    mock: Server, folder: Path, *, rounds: int, requests: int
) -> dict[str, list[dict[str, float]]]:
    """CPU per request by way, of one worker; and with limits of two workers on all cores."""
    with ExitStack() as stack:
        base = f"http://127.0.0.1:{mock.port}/v1"
        through = stack.enter_context(gateway("through", ["--upstream", base], folder))
        one = _started(stack, mock, folder, "one_worker")
        served = _started(stack, mock, folder, "served", served=True)
        two = _started(stack, mock, folder, "two_workers", 2)
        same = Questions().repeated()
        asked = {way: _asking(way) for way in _LIMITS}
        subjects = [
            Subject("through", through, lambda: same),
            Subject("key", one, lambda: asked["key"], remembers=True),
            Subject("governed", one, lambda: asked["budget"], remembers=True),
            Subject("limits", one, lambda: asked["limits"], remembers=True),
            Subject("governed_model", served, lambda: asked["budget"], remembers=True),
            Subject("limits_two_workers", two, lambda: asked["limits"]),
        ]
        for subject in subjects:
            await measured(subject, mock, max(KNOWN_TEXTS, requests // 4))

        async def once(subject: Subject) -> dict[str, float]:
            return await measured(subject, mock, requests)

        return await in_rounds(subjects, rounds, once)


async def kept_books(mock: Server, folder: Path, *, kills: int, requests: int) -> dict[str, float]:
    """What is booked for a key, and what its answers cost, with a worker killed (SIGKILL) as soon as all are answered.

    Raises SystemExit on a wrong answer, and NotReady where a killed worker does not come back.
    """
    with ExitStack() as stack:
        server, log = _started(stack, mock, folder, "books", WORKERS), folder / "books.log"
        for killed in range(kills):
            await asyncio.to_thread(_wait_for_workers, server, log, WORKERS + killed)
            asked = itertools.islice(_asking("budget"), requests)
            batch = await ask(server.port, asked, upstream_body(), connections=CONNECTIONS)
            if batch.wrong or batch.answered != requests:
                raise SystemExit(f"books: {batch.answered} of {requests} answered; wrong: {batch.wrong[:1]}")
            os.kill(_workers(log)[-1], signal.SIGKILL)
        standing = await books(folder / "books", "budget")
    return {
        "kills": kills,
        "answers": kills * requests,
        "charged_nano": kills * requests * ANSWER_NANO,
        "booked_nano": standing.spent,
        "estimated_nano": standing.estimated,
    }


def _wait_for_workers(server: Server, log: Path, ever: int) -> None:
    def ready() -> bool:
        return len(_workers(log)) >= ever and answers(server.port, "/readyz")

    wait_until(ready, "a worker", server.process, log, within_s=60, pause_s=0.05)


def _workers(log: Path) -> list[int]:
    """Process ids of all that ever listened, the latest last."""
    return [int(line["pid"]) for line in logged(log) if line.get("event") == "listening"]
