"""Killed amid import, eviction, re-embedding and compaction: nothing acknowledged is lost, and it starts clean."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from store import Store
from store.examples.capacity import make_room
from store.examples.vector_index import TenantIndexes
from tests.store.rows import unit_vector

CHILD = Path(__file__).parent / "child_that_manages.py"
ROOT = Path(__file__).parents[2]


def test_kills_amid_import_eviction_and_reembedding_lose_nothing_acknowledged(tmp_path: Path) -> None:
    kept: dict[int, tuple[str, str]] = {}
    embedded: set[int] = set()
    for life in range(4):
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(tmp_path), str(life)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
        )
        assert child.stdout is not None and child.stderr is not None
        lines: list[str] = []
        seen: Counter[str] = Counter()
        while len(lines) < 300 + 137 * life or seen["evicted"] < 3 or seen["embedded"] < 20:
            lines.append(child.stdout.readline())
            assert lines[-1], child.stderr.read()
            seen[lines[-1].split()[0]] += 1
        child.kill()
        lines += child.stdout.readlines()
        said = child.stderr.read()
        child.wait()
        child.stdout.close()
        child.stderr.close()
        assert "Traceback" not in said, said
        for line in lines:
            words = line.split() if line.endswith("\n") else []
            if words[:1] == ["kept"]:
                kept[int(words[2])] = (words[1], words[3])
            elif words[:1] == ["embedded"]:
                embedded.add(int(words[1]))

    connection = sqlite3.connect(tmp_path / "understudy.db")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    sums = connection.execute(
        "SELECT tenant, count(*), sum(size_bytes) FROM example_accounts GROUP BY tenant ORDER BY tenant"
    ).fetchall()
    assert connection.execute("SELECT * FROM example_totals ORDER BY tenant").fetchall() == sums
    accounts = {id for (id,) in connection.execute("SELECT id FROM example_accounts")}
    rows = connection.execute("SELECT id, tenant, request_id, embedding_version FROM examples").fetchall()
    connection.close()
    assert accounts == {row[0] for row in rows}
    there = {id: (tenant, request) for id, tenant, request, _ in rows}
    assert {id: one for id, one in kept.items() if one[0] == "a1"}.items() <= there.items()
    assert all(version == "v2" for id, _, _, version in rows if id in embedded)

    memory = Store.open(tmp_path, dimensions=8, embedding_version="v2", poll_s=1e6)
    assert memory.follower is not None and memory.indexes is not None
    assert memory.follower.wait_for(memory.examples.last_seq(), 60)
    make_room(memory.examples, "b2", max_examples=60)
    assert memory.follower.wait_for(memory.examples.last_seq(), 60)
    for tenant in ("a1", "b2"):
        rebuilt = TenantIndexes(tmp_path / "elsewhere", 8, "v2")
        rebuilt.attach(memory.examples, lambda: None)
        rebuilt.load(tenant)
        assert memory.indexes.size(tenant) == rebuilt.size(tenant) > 0
        for number in range(20):
            ours = memory.indexes.nearest(tenant, unit_vector(number), 1)
            assert ours[0][1] == pytest.approx(
                rebuilt.nearest(tenant, unit_vector(number), 1)[0][1], abs=1e-6
            )
    assert memory.close()
