"""What PostgreSQL costs a gateway beside SQLite: two that differ in nothing else, asked in turn.

An exact hit from memory, the whole line with few_shot (embed, nearest, decide, remember), and as many requests in a second
as the one core of a worker answers. PostgreSQL runs on loopback, on the other core.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from benchmarks.overhead.questions import KNOWN_TEXTS, Questions
from benchmarks.overhead.rounds import Subject, in_rounds, measured
from benchmarks.overhead.servers import Server, bypassed, gateway
from benchmarks.postgres_server import server

STORES = ("sqlite", "postgres")


def configuration(mock: Server, data: Path, url: str) -> dict[str, Any]:
    """The whole line with few_shot, on the database at `url`; empty: SQLite."""
    base = f"http://127.0.0.1:{mock.port}/v1"
    return {
        "upstream": {"base_url": base},
        "engines": {
            "small": {"base_url": base, "model": "bench-small"},
            "large": {"base_url": base, "model": "bench"},
        },
        "models": {"bench": {"engines": ["small", "large"], "policy": "few_shot", "proof": "off"}},
        "memory": {
            "data_dir": str(data),
            "database_url": url or None,
            # How many texts are kept goes by time, so a slower request would pay for more.
            "request_texts": {"enabled": False},
        },
    }


async def measured_side_by_side(
    mock: Server,
    folder: Path,
    stores: tuple[str, ...],
    *,
    rounds: int,
    requests: int,
    fill: Callable[[Server], Awaitable[None]],
) -> tuple[dict[str, list[dict[str, float]]], dict[str, float]]:
    """(CPU and requests a second by store and way, what was bypassed with the last of the stores)."""
    with ExitStack() as stack:
        servers = {}
        for store in stores:
            path = folder / f"store-{store}.yaml"
            url = _database(stack) if store == "postgres" else ""
            path.write_text(yaml.safe_dump(configuration(mock, folder / f"store-{store}", url)))
            servers[store] = stack.enter_context(gateway(f"store-{store}", ["--config", str(path)], folder))
            await fill(servers[store])
        subjects = []
        for store, gate in servers.items():
            same, known = Questions().repeated(), Questions().new_with_known_words()
            subjects += [
                Subject(f"{store}_exact", gate, lambda same=same: same, remembers=True),
                Subject(f"{store}_few_shot", gate, lambda known=known: known, remembers=True),
            ]
        for subject in subjects:
            await measured(subject, mock, max(KNOWN_TEXTS, requests // 4))
        last = servers[stores[-1]]
        before = bypassed(last)
        found = await in_rounds(subjects, rounds, lambda subject: measured(subject, mock, requests))
        gone_without = {name: n - before.get(name, 0) for name, n in bypassed(last).items()}
        return found, {name: n for name, n in gone_without.items() if n}


def _database(stack: ExitStack) -> str:
    """A new server's, with the schema, which waits for the disk as a real one does."""
    from store.postgres.connecting import connect
    from store.postgres.schema import migrate

    url = stack.enter_context(server(durable=True)).url()
    with connect(url, statement_timeout_ms=0) as connection:
        migrate(connection)
    return url
