"""What one more text costs a collection that holds many: `python -m benchmarks.ingest.growing`.

Each size: so many random vectors are taken in and searched once, as a collection that is in use. Then one more text comes
and a search follows, again and again: the text's own time, and that of the search that has to find it. Neither should grow
with the size, but for a search that compares every text (up to 20,000 of them). `found_percent`: how often the new text was
the nearest one; of random vectors, which have no neighbourhoods, a graph misses more than of texts' own.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import numpy as np
import numpy.typing as npt

from benchmarks.options import options, write
from workflows.running.vector_table import VectorTable

SIZES = (1_000, 10_000, 100_000)


def main() -> None:
    """Prints a line for each size; with --json also writes them."""
    arguments = options(__doc__)
    arguments.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="texts %(default)s")
    arguments.add_argument("--dimensions", type=int, default=384, help="of a vector [%(default)s]")
    arguments.add_argument("--more", type=int, default=200, help="texts that come later [%(default)s]")
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    rows = []
    for size in chosen.sizes:
        rows.append(asyncio.run(measured(size, chosen.dimensions, chosen.more, chosen.seed)))
        print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    write(rows, chosen.json)


async def measured(size: int, dimensions: int, more: int, seed: int) -> dict[str, float]:
    """Milliseconds: medians and the worst, over the texts that came later."""
    draw = np.random.default_rng(seed)
    table = VectorTable()
    table.add(0, [f"text {number}" for number in range(size)], _vectors(draw, size, dimensions))
    await table.search(_vectors(draw, 1, dimensions)[0], 5)
    took_ms, searched_ms, found = [], [], 0
    for number in range(size, size + more):
        vector = _vectors(draw, 1, dimensions)
        began = time.perf_counter()
        table.add(number, [f"text {number}"], vector)
        added = time.perf_counter()
        ((_, _, place),) = await table.search(vector[0], 1)
        searched_ms.append((time.perf_counter() - added) * 1000)
        took_ms.append((added - began) * 1000)
        found += place == number
    return {
        "texts": size,
        "one_more_ms": round(statistics.median(took_ms), 3),
        "one_more_worst_ms": round(max(took_ms), 3),
        "next_search_ms": round(statistics.median(searched_ms), 3),
        "next_search_worst_ms": round(max(searched_ms), 3),
        "found_percent": round(100 * found / more, 1),
    }


def _vectors(draw: np.random.Generator, count: int, dimensions: int) -> npt.NDArray[np.float32]:
    return draw.standard_normal((count, dimensions), np.float32)


if __name__ == "__main__":
    main()
