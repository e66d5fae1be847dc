"""Which prefixes to keep warm, by use or by the knapsack, and what an order saves (`python -m benchmarks.kv_plan`).

Choosing: 5,000 examples with the lengths of recorded pairs (bank_alpaca_open) and uses that follow Zipf's law, at several
sizes of memory. "of exact" is the share of the knapsack's savings (EchoLM, section 4.3.2) that is left when memory is filled
by use alone, as the plan does. Side by side, on the same examples.

Orders: a model of an engine's prefix cache (blocks of 16 tokens, the least recently used go first), not an engine. Requests
ask about topics (Zipf); each takes three of the topic's six examples, some more often than others. Cached tokens per
request, over the second half of the requests, the plan being made from the first half. What real vLLM does is in
tests/vllm/test_kv_plan.py.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kv_plan.knapsack import kept_in_cache
from benchmarks.options import options, write
from benchmarks.recorded import NoData, rows
from engines.chat import estimated_tokens
from learning.bank.warm.prefixes import most_used

BLOCK = 16
COMPUTE_MS_PER_TOKEN, LOAD_MS, LOAD_MS_PER_TOKEN = 0.2, 4.0, 0.01
"""Prefill of a small model, and loading from CPU memory."""
BANK = "bank_alpaca_open.jsonl.gz"
TOPICS, EXAMPLES_EACH, TAKEN = 400, 6, 3


def lengths(data: Path, count: int, seed: int) -> list[int]:
    """Tokens of recorded pairs, estimated. Raises NoData."""
    pairs = rows(data / BANK)
    random.Random(seed).shuffle(pairs)
    return [
        estimated_tokens(p["instruction"] + p["input"]) + estimated_tokens(p["response"]) + 8
        for p in pairs[:count]
    ]


def compare_solvers(tokens: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """One row per size of memory."""
    rng = np.random.default_rng(seed)
    uses = rng.permutation(1000.0 / np.arange(1, len(tokens) + 1))
    weights = [-(-t // BLOCK) for t in tokens]
    saved = COMPUTE_MS_PER_TOKEN - LOAD_MS_PER_TOKEN
    values = [float((saved * t - LOAD_MS) * u) for t, u in zip(tokens, uses, strict=True)]
    found = []
    for share in (0.005, 0.02, 0.1, 0.3):
        capacity = int(share * sum(weights))
        bound = _upper_bound(values, weights, capacity)
        row: dict[str, Any] = {"memory": share, "blocks": capacity, "bound": bound}
        solvers: dict[str, Callable[[], list[int]]] = {
            "exact": lambda: kept_in_cache(
                tokens,
                uses,
                capacity_bytes=capacity * BLOCK,  # noqa: B023 - called at once
                bytes_per_token=1,
                compute_ms_per_token=COMPUTE_MS_PER_TOKEN,
                load_ms=LOAD_MS,
                load_ms_per_token=LOAD_MS_PER_TOKEN,
                block_tokens=BLOCK,
            ),
            "most used": lambda: _by_use(uses, weights, capacity),  # noqa: B023
        }
        for name, solver in solvers.items():
            began = time.process_time()
            chosen = solver()
            row[f"{name} cpu_ms"] = round((time.process_time() - began) * 1000, 1)
            row[name] = sum(values[i] for i in chosen)
        found.append(row)
    return found


def _by_use(uses: Any, weights: Sequence[int], capacity: int) -> list[int]:
    chosen = []
    for i in np.argsort(-uses):
        if weights[i] <= capacity:
            chosen.append(int(i))
            capacity -= weights[i]
    return chosen


def _upper_bound(values: Sequence[float], weights: Sequence[int], capacity: int) -> float:
    """What no choice can exceed: the value when the last example may be cut (Dantzig's bound)."""
    total = 0.0
    worthwhile = [i for i, value in enumerate(values) if value > 0 and weights[i] <= capacity]
    for i in sorted(worthwhile, key=lambda i: -values[i] / weights[i]):
        if weights[i] > capacity:
            return total + values[i] * capacity / weights[i]
        total += values[i]
        capacity -= weights[i]
    return total


class PrefixCache:
    """Blocks by the whole prompt up to their end, as vLLM keys them; the least recently used go first."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._held: OrderedDict[int, None] = OrderedDict()

    def ask(self, examples: Sequence[tuple[int, int]]) -> int:
        """Tokens of this prompt that were there already; all of it is, afterwards. `examples`: (id, tokens)."""
        stream = [(id, i) for id, tokens in examples for i in range(tokens)]
        cached, above, unbroken = 0, 0, True
        for start in range(0, len(stream) - BLOCK + 1, BLOCK):
            above = hash((above, tuple(stream[start : start + BLOCK])))
            if above in self._held:
                self._held.move_to_end(above)
                cached += BLOCK if unbroken else 0
            else:
                unbroken = False
                self._held[above] = None
                if len(self._held) > self._blocks:
                    self._held.popitem(last=False)
        return cached


def compare_orders(tokens: Sequence[int], requests: int, blocks: int, seed: int) -> dict[str, float]:
    """Cached tokens per request, by order; on fewer topics where there are not enough examples for all."""
    rng = random.Random(seed)
    count = min(TOPICS, len(tokens) // EXAMPLES_EACH)
    topics = rng.choices(range(count), [1 / (n + 1) for n in range(count)], k=requests)
    favours = [[rng.expovariate(1.0) for _ in range(EXAMPLES_EACH)] for _ in range(count)]
    sets = []
    for topic in topics:
        # Helpfulness: the topic's favours, and what differs from request to request.
        scores = {
            topic * EXAMPLES_EACH + e: favours[topic][e] + rng.expovariate(1.0) for e in range(EXAMPLES_EACH)
        }
        sets.append(sorted(scores, key=scores.__getitem__)[-TAKEN:])
    ages = list(range(count * EXAMPLES_EACH))
    rng.shuffle(ages)
    half = requests // 2
    hot = most_used([("t", 0.0, tuple(chosen)) for chosen in sets[:half]], len(tokens), 0.0)
    places = {id: place for place, ((_, id), _) in enumerate(hot)}
    orders: dict[str, Callable[[int], Any]] = {
        "helpful_last": lambda id: 0,
        "by age": lambda id: ages[id],
        "kept warm first": lambda id: (places.get(id, len(places)), ages[id]),
    }
    found = {}
    for name, key in orders.items():
        cache, cached = PrefixCache(blocks), 0
        for number, chosen in enumerate(sets):
            got = cache.ask([(id, tokens[id]) for id in sorted(chosen, key=key)])
            cached += got if number >= half else 0
        found[name] = cached / (requests - half)
    found["prompt"] = sum(tokens[id] for chosen in sets[half:] for id in chosen) / (requests - half)
    return found


def main() -> None:
    """Run and print."""
    parser = options(__doc__, data=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=20_000)
    given = parser.parse_args()
    try:
        tokens = lengths(given.data, 5000, given.seed)
    except NoData as absent:
        print(absent)
        return
    solved = compare_solvers(tokens, given.seed)
    print(f"{len(tokens)} examples, {sum(tokens)} tokens, blocks of {BLOCK}, seed {given.seed}")
    print("memory  blocks  most used of exact  cpu ms exact / most used")
    for row in solved:
        print(
            f"{row['memory']:6.1%}  {row['blocks']:6d}  {row['most used'] / row['exact']:18.4f}"
            f"  {row['exact cpu_ms']:.0f} / {row['most used cpu_ms']:.0f}"
        )
    ordered = {}
    print("\ncached tokens per request (a model of a prefix cache, not an engine)")
    print("blocks  prompt  helpful_last  by age  kept warm first")
    for blocks in (500, 2000, 8000):
        row = ordered[blocks] = compare_orders(tokens, given.requests, blocks, given.seed)
        means = [row[name] for name in ("prompt", "helpful_last", "by age", "kept warm first")]
        print(f"{blocks:6d}  {means[0]:6.1f}  {means[1]:12.1f}  {means[2]:6.1f}  {means[3]:15.1f}")
    write({"solvers": solved, "orders": ordered, "seed": given.seed}, given.json)


if __name__ == "__main__":
    main()
