"""The chaos of many machines: `make chaos-postgres`, or `python -m benchmarks.chaos_postgres [--minutes 10] [--seed 1]`.

Three replicas of two workers, with learner and admin pages, on one PostgreSQL server (18, fsync on), each through a relay
of its own that can freeze; three engines, traffic, promises and verdict as in `python -m benchmarks.chaos`. Workers,
replicas and PostgreSQL are killed, connections frozen, engines killed and stopped; with reloads and rolling upgrades in
between. docs/experiments/chaos-postgresql.md says what counts. Exit status 1: something was promised and did not hold.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from benchmarks.chaos.__main__ import chaos, command_line, tight_usd
from benchmarks.chaos_postgres.faults import KINDS, ORDERS, PostgresSchedule
from benchmarks.chaos_postgres.site import site


def run(
    minutes: float, seed: int, rate: float, folder: Path, *, kept: bool = False, **more: Any
) -> dict[str, Any]:
    """What benchmarks.chaos reports. `kept`: PostgreSQL's log is left in `folder`, too."""
    folder.mkdir(exist_ok=True)
    more = {"kinds": KINDS, "orders": ORDERS, **more}
    with site(folder, tight_usd(minutes, rate), kept=kept) as made:
        return asyncio.run(chaos(made, minutes, seed, rate, happens=PostgresSchedule, **more))


if __name__ == "__main__":
    command_line(__doc__, run, KINDS, ORDERS)
