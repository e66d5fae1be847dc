"""`python -m benchmarks.postgres.copying`: moves a data folder to PostgreSQL, killed on the way, and back, and compares.

The rows are made up: examples with vectors of 384 numbers and answers of 600 letters, requests of about 500 bytes.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from benchmarks.postgres_server import server
from benchmarks.tables import markdown
from store import Store

_EXAMPLE = (
    "INSERT INTO examples (seq, tenant, scope, source_engine, request_id, created_at_s, prompt_tokens, "
    "completion_tokens, embedding_version, vector, question, answer, embedded_text)"
    " VALUES (?, ?, 's', 'large', ?, ?, 100, 50, 'v1', ?, ?, ?, ?)"
)
_ACCOUNT = (
    "INSERT INTO example_accounts (id, tenant, kind, contributor, pinned, flagged, merged, served_from_s, seen_at_s,"
    " size_bytes, uses, used, used_at_s, gain, gain_at_s, quality_sum, quality_count, worth, worth_per_byte)"
    " SELECT id, tenant, 'observed', '', 0, 0, 0, 0, 0, 2000, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM examples"
)
_REQUESTS = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
    " INSERT INTO requests (id, tenant, started_at_s, endpoint, model, engine, outcome, status, policy, policy_version,"
    " probability, reason, example_count, example_ids, prompt_tokens, completion_tokens, usage_estimated, cost_usd,"
    " total_ms, first_chunk_ms, overhead_ms, stages_ms)"
    " SELECT 'req_' || lower(hex(randomblob(12))), 't' || (i % 50), 1.7e9 + i / 10.0,"
    " '/v1/chat/completions', 'gpt-4o', 'small', 'answered', 200, 'in_context', '7', 0.9, 'enough similar examples', 3,"
    " '[1, 2, 3]', 900 + i % 100, 120, 0, 0.0004, 800.5, 120.25, 3.5, '{\"embed\": 3.1, \"search\": 0.4}' FROM n"
)


def made(folder: Path, examples: int, requests: int) -> None:
    """Fill a data folder."""
    Store.open(folder).close()
    vectors = np.random.default_rng(0).normal(size=(1000, 384)).astype(np.float32)
    words = ["answer", "because", "number", "which", "often", "never", "river", "table", "seven", "engine"]
    chosen = random.Random(0)
    with closing(sqlite3.connect(folder / "understudy.db")) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.executemany(
            _EXAMPLE,
            (
                (
                    number,
                    f"t{number % 50}",
                    f"r{number}",
                    1.7e9 + number,
                    vectors[number % 1000].tobytes(),
                    f"question {number} about {chosen.choice(words)} and {chosen.choice(words)}",
                    " ".join(chosen.choice(words) for _ in range(100)),
                    f"question {number}",
                )
                for number in range(1, examples + 1)
            ),
        )
        connection.execute(_ACCOUNT)
        connection.execute("UPDATE example_sequence SET last_seq = ?", (examples,))
        connection.execute(_REQUESTS, (requests,))
        connection.commit()


def command(*arguments: str) -> subprocess.Popen[str]:
    """`understudy store …`, begun."""
    return subprocess.Popen(
        [sys.executable, "-m", "understudy", "store", *arguments], stdout=subprocess.PIPE, text=True
    )


def timed(*arguments: str) -> float:
    """Run it to its end; gives seconds. Raises RuntimeError where it fails."""
    began_s = time.monotonic()
    child = command(*arguments)
    said, _ = child.communicate()
    print(said.strip().splitlines()[-1] if said.strip() else "", flush=True)
    if child.returncode != 0:
        raise RuntimeError(f"understudy store {arguments[0]} ended with {child.returncode}: {said[-2000:]}")
    return time.monotonic() - began_s


def killed(times: int, after_s: float, *arguments: str) -> int:
    """Begin it so many times, and kill it; gives how often it was still at work."""
    hit = 0
    for _ in range(times):
        child = command(*arguments)
        time.sleep(after_s * random.uniform(0.7, 1.3))
        hit += child.poll() is None
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    return hit


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--kill-after-s", type=float, default=8.0)
    options = parser.parse_args()
    with server(durable=True) as running, tempfile.TemporaryDirectory() as temporary:
        one, back, url = Path(temporary) / "one", Path(temporary) / "back", running.url()
        made(one, options.examples, options.requests)
        back.mkdir()
        (back / "secret").write_bytes((one / "secret").read_bytes())
        there, here = ("--from", str(one), "--to", url), ("--from", url, "--to", str(back))
        timed("migrate", "--url", url)
        hit = killed(options.kills, options.kill_after_s, "copy", *there)
        rows = [
            ["killed while at work", hit, ""],
            ["to PostgreSQL, the rest", f"{timed('copy', *there):.1f} s", "in use"],
            ["to PostgreSQL, --final", f"{timed('copy', *there, '--final'):.1f} s", "nobody writes"],
            ["--verify", f"{timed('copy', *there, '--verify'):.1f} s", ""],
            ["back, all", f"{timed('copy', *here):.1f} s", "in use"],
            [
                "back, --final --verify",
                f"{timed('copy', *here, '--final', '--verify'):.1f} s",
                "nobody writes",
            ],
            [
                "first folder and last, --verify",
                f"{timed('copy', '--from', str(back), '--to', url, '--verify'):.1f} s",
                "",
            ],
        ]
    print(f"\n{options.examples:,} examples, {options.requests:,} requests\n")
    print(markdown(["step", "took", "source"], rows))


if __name__ == "__main__":
    main()
