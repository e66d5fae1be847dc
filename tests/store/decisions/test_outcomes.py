from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from store.decisions.outcomes import Outcomes
from store.sqlite.database import Database

ROOT = Path(__file__).parents[3]


@pytest.fixture
def outcomes(db: Database) -> Outcomes:
    return Outcomes(db)


def test_an_acknowledged_outcome_survives_a_kill(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path / "a.db")], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert child.stdout is not None
    acknowledged = [int(child.stdout.readline()) for _ in range(200)]
    child.kill()
    acknowledged += [int(line) for line in child.stdout if line.endswith("\n")]
    child.wait()
    child.stdout.close()
    db = Database.open(tmp_path / "a.db")
    assert {o.id for o in Outcomes(db).after(0, 10**6)} >= set(acknowledged)
    db.close()


ENDLESS = """
import itertools, sys
from pathlib import Path
from store.sqlite.database import Database
from store.decisions.outcomes import Outcomes
from tests.store.rows import outcome_record

outcomes = Outcomes(Database.open(Path(sys.argv[1])))
for number in itertools.count():
    print(outcomes.note(outcome_record(number)).result(60).id, flush=True)
"""
