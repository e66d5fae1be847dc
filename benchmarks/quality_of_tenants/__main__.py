"""What a look at every tenant's own quality costs with thousands of tenants.

Judged answers of a week are written through the store's own API: of each tenant about as many (the most tenants then have
enough), and by Zipf's law (few have most of them). "read" is the database's work, "judged" what Python does with its rows;
both are made beside the pages and beside requests, once a minute. CPU is the process's. What pages take then:
`python -m benchmarks.admin_pages --tenants 5000`.

    python -m benchmarks.quality_of_tenants [--tenants 5000] [--outcomes 100000]
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.admin_pages.content import Writing
from benchmarks.options import options, write
from learning.guarantee.quality_alarm import FEWEST, LATEST, quality_standings, standings_of_tenants
from store import Store
from store.records import OutcomeRecord, RequestRecord

_WEEK_S = 7 * 86_400


def fill(store: Store, tenants: int, outcomes: int, exponent: float, seed: int = 7) -> None:
    """Judged answers of the small engine, of a week."""
    rng, now_s = np.random.default_rng(seed), time.time()
    shares = 1.0 / np.arange(1, tenants + 1) ** exponent
    whose = rng.choice(tenants, outcomes, p=shares / shares.sum())
    times = np.sort(now_s - rng.random(outcomes) * _WEEK_S)
    writing = Writing()
    for i in range(outcomes):
        tenant, at_s = f"{int(whose[i]) * 2_654_435_761 % 2**32:08x}{0:024x}", float(times[i])
        request = RequestRecord(
            id=f"{seed:04x}{i:020x}",
            tenant=tenant,
            started_at_s=at_s,
            endpoint="/v1/chat/completions",
            model="gpt-4o",
            engine="small",
            outcome="answered",
            status=200,
            policy="fixed",
            policy_version="1",
            probability=1.0,
            reason="fixed",
            example_ids=(),
            prompt_tokens=100,
            completion_tokens=50,
            usage_estimated=False,
            cost_usd=0.001,
            total_ms=500.0,
            first_chunk_ms=None,
            overhead_ms=2.0,
            stages_ms="{}",
            key_id="",
            reference_cost_usd=0.01,
        )
        writing.add(store.decisions.requests.record(request))
        quality = float(rng.random() < 0.95)
        outcome = OutcomeRecord(
            *(request.id, tenant, at_s, "judge", "k", "small", (), True, quality), probability=0.2
        )
        writing.add(store.outcomes.note(outcome))
    writing.wait()
    while store.decisions.quality.catch_up():
        pass
    store.decisions.trim_sums(now_s).result(60)


def looked(store: Store) -> dict[str, float]:
    """Median milliseconds of the parts of a look, and over how many tenants."""
    quality, references, now_s = store.decisions.quality, {"gpt-4o": "large"}, time.time()
    latest = {"judge": LATEST["judge"], "user": LATEST["feedback"], "label": LATEST["review"]}
    rows = quality.lately(now_s, _WEEK_S, latest, fewest=FEWEST)
    return {
        "measured": len(standings_of_tenants(rows, references, 0.9)),
        "read_ms": _median_ms(lambda: quality.lately(now_s, _WEEK_S, latest, fewest=FEWEST)),
        "judged_ms": _median_ms(lambda: standings_of_tenants(rows, references, 0.9)),
        "everybody_ms": _median_ms(lambda: quality_standings(quality, references, 0.9, now_s)),
    }


def _median_ms(work: Callable[[], object]) -> float:
    took = []
    for _ in range(7):
        began = time.process_time()
        work()
        took.append((time.process_time() - began) * 1000)
    return statistics.median(took)


def measured(folder: Path, tenants: int, outcomes: int, exponent: float) -> dict[str, float]:
    """The look's milliseconds in a store that is made in the folder."""
    store = Store.open(folder)
    fill(store, tenants, outcomes, exponent)
    found = looked(store)
    store.close()
    return found


def main() -> None:
    """Fill, look, print."""
    parser = options(__doc__)
    parser.add_argument("--tenants", type=int, default=5_000)
    parser.add_argument("--outcomes", type=int, default=100_000)
    chosen = parser.parse_args()
    figures = {}
    for name, exponent in (("about as many each", 0.0), ("by Zipf's law", 1.0)):
        with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
            took = measured(Path(folder), chosen.tenants, chosen.outcomes, exponent)
        figures[name] = took
        print(
            f"{chosen.outcomes} judged answers of {chosen.tenants} tenants, {name}: {took['measured']} with {FEWEST}+."
            f" Read {took['read_ms']:.0f} ms, judged {took['judged_ms']:.0f} ms; everybody {took['everybody_ms']:.1f} ms"
        )
    write(figures, chosen.json)


if __name__ == "__main__":
    main()
