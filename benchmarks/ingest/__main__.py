"""How many requests lose their embedding while a large document is ingested: `python -m benchmarks.ingest`.

One process with the real embedder: requests at random moments (Poisson), each a text of its own and the gateway's deadline;
beside them the chunks of a document, as a workflow ingests it. Spells with and without the document alternate, so that what
else the machine does meets both alike. A request is bypassed when its embedding is not there by the deadline: it is then
answered without examples.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.ingest import through_gateway
from benchmarks.ingest.texts import text
from benchmarks.options import options, write
from engines.components.component import ComponentLimits, ComponentSpec, Work
from engines.components.registry import ComponentRegistry
from gateway.components.local import LocalEmbedder
from router.embedding.embedder import Embedder, EmbedderLate


@dataclass(slots=True)
class Asked:
    """What became of the requests of one kind of spell."""

    took_ms: list[float] = field(default_factory=list)
    bypassed: int = 0

    @property
    def figures(self) -> dict[str, float]:
        """Counts and quantiles."""
        took = sorted(self.took_ms)
        return {
            "requests": len(took) + self.bypassed,
            "bypassed": self.bypassed,
            "bypassed_percent": round(100 * self.bypassed / max(1, len(took) + self.bypassed), 3),
            "median_ms": round(statistics.median(took), 2) if took else 0.0,
            "p99_ms": round(took[int(len(took) * 0.99)], 2) if took else 0.0,
        }


def main() -> None:
    """Prints the figures; with --json also writes them."""
    arguments = options(__doc__, cache=True)
    arguments.add_argument(
        "--gateway",
        action="store_true",
        help="through the sockets of a gateway, as a workflow and its clients",
    )
    arguments.add_argument("--source", default="package", help="package, folder:PATH or hub:OWNER/NAME")
    arguments.add_argument("--chunks", type=int, default=5000, help="of the document [%(default)s]")
    arguments.add_argument("--tokens", type=int, default=256, help="of a chunk, about [%(default)s]")
    arguments.add_argument("--rate", type=float, default=5.0, help="requests a second [%(default)s]")
    arguments.add_argument("--deadline-ms", type=float, default=50.0, help="of an embedding [%(default)s]")
    arguments.add_argument("--spell", type=int, default=200, help="chunks in one spell [%(default)s]")
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    chosen.cache.mkdir(parents=True, exist_ok=True)
    if chosen.gateway:
        with tempfile.TemporaryDirectory() as folder:
            figures = asyncio.run(through_gateway.measured(chosen, Path(folder)))
    else:
        figures = asyncio.run(measured(chosen))
    for name, value in figures.items():
        print(f"{name:>24}: {value}")
    write(figures, chosen.json)


async def measured(chosen: Any) -> dict[str, Any]:
    """Alternates until all chunks are in."""
    embedder = await asyncio.to_thread(
        lambda: Embedder.open(chosen.source, chosen.cache, deadline_ms=chosen.deadline_ms)
    )
    limits = ComponentLimits(4, None, 1, 60.0, 10_000, 5.0, 2**20, 5, 10.0)
    spec = ComponentSpec("local", "local", limits)
    components = ComponentRegistry([LocalEmbedder("local", lambda: embedder).member(spec)])
    draw = random.Random(chosen.seed)
    alone, beside, ingested_s, done = Asked(), Asked(), 0.0, 0
    try:
        while done < chosen.chunks:
            chunks = [text(draw, chosen.tokens) for _ in range(min(chosen.spell, chosen.chunks - done))]
            began = time.perf_counter()
            async with _requests(embedder, chosen.rate, draw, beside):
                await components.embed("local", chunks, Work("run", "t", "index", 1, time.monotonic()))
            spell_s = time.perf_counter() - began
            async with _requests(embedder, chosen.rate, draw, alone):
                await asyncio.sleep(spell_s)
            ingested_s += spell_s
            done += len(chunks)
    finally:
        await components.aclose()
        embedder.close()
    rise = beside.figures["bypassed_percent"] - alone.figures["bypassed_percent"]
    return {
        "chunks": done,
        "chunks_a_second": round(done / ingested_s, 1),
        "requests_a_second": chosen.rate,
        "deadline_ms": chosen.deadline_ms,
        "without_ingestion": alone.figures,
        "with_ingestion": beside.figures,
        "rise_in_points": round(rise, 3),
    }


@contextlib.asynccontextmanager
async def _requests(
    embedder: Embedder, rate: float, draw: random.Random, asked: Asked
) -> AsyncIterator[None]:
    """Requests come while this is entered; those under way at its end are waited for."""
    over = asyncio.Event()

    async def one(question: str) -> None:
        began = time.perf_counter()
        try:
            await embedder.embed(question)
        except EmbedderLate:
            asked.bypassed += 1
        else:
            asked.took_ms.append((time.perf_counter() - began) * 1000)

    async with asyncio.TaskGroup() as requests:

        async def come() -> None:
            while not over.is_set():
                await asyncio.sleep(draw.expovariate(rate))
                requests.create_task(one(text(draw, draw.choice((8, 12, 16, 24, 32, 64)))))

        requests.create_task(come())
        yield
        over.set()


if __name__ == "__main__":
    main()
