"""What limits cost: one gateway and two keys that differ in nothing else, and one worker beside two.

Both keys ask the same served model, in turn. One has no limit; the other has one of every kind, and so has its tenant: six
windows are reserved in and settled for each request, all of them wide enough never to refuse. Nothing is remembered of
answers, and request texts are off: how many of these are kept goes by time, so a slower request would pay for more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from benchmarks.overhead.questions import KNOWN_TEXTS, Questions
from benchmarks.overhead.rounds import Subject, in_rounds, measured
from benchmarks.overhead.servers import Server, gateway
from store import Store
from store.people.limits import Budget, Limits
from store.records import Terms

WIDE = Limits(
    requests_per_minute=10**9,
    tokens_per_minute=10**12,
    concurrency=10_000,
    max_output_tokens=100_000,
    budgets=(Budget(1e6, "day"), Budget(1e6, "month")),
)
_SECRETS = {"no_limits": "us-bench-without-limits-0123456789", "limits": "us-bench-with-limits-0123456789ab"}
_CLIENTS = b"sk-bench-0123456789"


def configuration(mock: Server, data: Path, workers: int = 1) -> dict[str, Any]:
    """A priced engine behind a served model, and nothing remembered of its answers."""
    base = f"http://127.0.0.1:{mock.port}/v1"
    price = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 4.0}
    return {
        "listen": {"workers": workers},
        "engines": {"large": {"base_url": base, "model": "bench", "api_key": "sk-up", "price": price}},
        "models": {"bench": {"engines": ["large"]}},
        "memory": {
            "data_dir": str(data),
            "examples": {"enabled": False},
            "exact": {"enabled": False},
            "request_texts": {"enabled": False},
        },
    }


def _made(folder: Path) -> None:
    """Two keys of two tenants, one of which is limited like its key."""
    store = Store.open(folder)
    store.tenant_records.create("limits", Terms(limits=WIDE))
    for way, secret in _SECRETS.items():
        terms = Terms(limits=WIDE) if way == "limits" else None
        store.keys.create(way, way, secret_text=secret, terms=terms)
    store.close()


def _asking(way: str) -> Iterator[bytes]:
    """The same questions under one of the keys."""
    for request in Questions().repeated():
        yield request.replace(_CLIENTS, _SECRETS[way].encode())


async def measured_side_by_side(
    mock: Server, folder: Path, *, rounds: int, requests: int
) -> dict[str, list[dict[str, float]]]:
    """CPU per request by way, of one worker; and with limits of two workers on all cores."""
    with ExitStack() as stack:
        servers = {}
        for name, workers in (("one_worker", 1), ("two_workers", 2)):
            data = folder / name
            _made(data)
            path = folder / f"{name}.yaml"
            path.write_text(yaml.safe_dump(configuration(mock, data, workers)))
            servers[name] = stack.enter_context(
                gateway(name, ["--config", str(path)], folder, pinned=workers == 1)
            )
        asked = {way: _asking(way) for way in _SECRETS}
        subjects = [
            Subject("no_limits", servers["one_worker"], lambda: asked["no_limits"], remembers=True),
            Subject("limits", servers["one_worker"], lambda: asked["limits"], remembers=True),
            Subject("limits_two_workers", servers["two_workers"], lambda: asked["limits"]),
        ]
        for subject in subjects:
            await measured(subject, mock, max(KNOWN_TEXTS, requests // 4))

        async def once(subject: Subject) -> dict[str, float]:
            return await measured(subject, mock, requests)

        return await in_rounds(subjects, rounds, once)
