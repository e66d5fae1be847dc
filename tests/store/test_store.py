from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from store import Store
from store.decisions.outcomes import FeedbackRecord
from store.examples.vector_index import TenantIndexes
from store.learned.quality_floors import FloorRow
from tests.store.behind import forget_contributor
from tests.store.rows import (
    answer,
    choice_record,
    new_example,
    outcome_record,
    request_record,
    unit_vector,
)

ROOT = Path(__file__).parents[2]


def opened(folder: Path) -> Store:
    return Store.open(folder, dimensions=8, embedding_version="v1", poll_s=1e6)


def teach(memory: Store, number: int, tenant: str, who: str, text: str) -> bytes:
    """Have a choice, feedback with a comment and an outcome; gives the choice's vector as SQLite keeps it."""
    vector = unit_vector(number + 5000, 64)
    memory.decisions.choices.record(
        choice_record(number, tenant=tenant, contributor=who, vector=vector, completion_id=text)
    )
    said = FeedbackRecord(tenant, f"key {number}", "", f"req-{number}", who, 1.0, comment=text)
    memory.outcomes.feedback.give(said, [outcome_record(number, tenant=tenant)])
    return vector.astype("<f2").tobytes()


@pytest.mark.slow
def test_kills_while_snapshots_are_written_lose_no_example_and_no_neighbour(tmp_path: Path) -> None:
    acknowledged: set[int] = set()
    for life in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(tmp_path), str(life)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert child.stdout is not None
        for _ in range(60 + 17 * life):
            acknowledged.add(int(child.stdout.readline()))
        child.kill()
        acknowledged.update(int(line) for line in child.stdout if line.endswith("\n"))
        child.wait()
        child.stdout.close()

    memory = opened(tmp_path)
    assert memory.follower is not None and memory.indexes is not None
    assert memory.follower.wait_for(memory.examples.last_seq(), 30)
    rebuilt = TenantIndexes(tmp_path / "elsewhere", 8, "v1")
    rebuilt.fold(memory.examples.tail(0, 10_000))
    assert {example.id for example in memory.examples.by_ids("a1", sorted(acknowledged))} == acknowledged
    assert memory.indexes.size("a1") == memory.examples.count() == rebuilt.size("a1")
    for number in range(30):
        ours = memory.indexes.nearest("a1", unit_vector(number), 1)
        assert ours[0][1] == rebuilt.nearest("a1", unit_vector(number), 1)[0][1]
    assert memory.close()
    assert len(list((tmp_path / "index").glob("*.usearch"))) == 1


ENDLESS = """
import itertools, sys
from pathlib import Path
from store import Store
from tests.store.rows import new_example

memory = Store.open(Path(sys.argv[1]), dimensions=8, embedding_version="v1", poll_s=0.001, save_every_s=0.001)
for number in itertools.count():
    added = memory.examples.add(new_example(number, request_id=f"{sys.argv[2]} {number}")).result(60)
    print(added.id, flush=True)
"""


def test_without_an_embedder_there_is_no_index(tmp_path: Path) -> None:
    memory = Store.open(tmp_path)
    assert (memory.indexes, memory.follower) == (None, None)
    assert memory.examples.add(new_example(1, vector=None)).result(30).id == 1
    assert memory.close()
    assert not (tmp_path / "index").exists()


def test_a_forgotten_tenant_is_in_no_table_no_index_and_no_file(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    assert memory.follower is not None and memory.indexes is not None
    chance = random.Random(11)
    vectors: dict[str, list[bytes]] = {"GONE": [], "KEPT": []}
    for number in range(300):
        tenant, mark = ("a1", "GONE") if number % 2 else ("b2", "KEPT")
        text = f"{mark}{number} " + "x" * chance.choice([0, 50, 700, 3000, 9000])
        new = new_example(number, tenant, question=text, answer=text, embedded_text=text)
        if number % 7 == 1:
            memory.examples.remove(tenant, [memory.examples.add(new).result(30).id])
        else:
            memory.examples.add(new)
        memory.answers.exact.put(b"%d" % number, tenant, answer(text.encode()))
        memory.decisions.requests.record(request_record(number, tenant=tenant, reason=text))
        vectors[mark].append(teach(memory, number, tenant, "ann", text))
    for tenant, mark in (("a1", "GONE"), ("b2", "KEPT")):
        memory.artifacts.publish("scorer", tenant, "m", f"{mark} weights".encode(), metrics={})
        memory.quality_floors.put(FloorRow(tenant, "m", 1.0, 0.5, "holds", 1, 1, mark)).result(30)
    assert memory.drain(30)
    assert memory.follower.wait_for(memory.examples.last_seq(), 30)
    memory.indexes.save(memory.examples.database_id(), memory.follower.folded_seq)
    assert list((tmp_path / "index").glob("a1.*"))

    forgotten = memory.forget_tenant("a1")

    assert forgotten.erased
    assert (forgotten.answers, forgotten.requests) == (150, 150)
    assert (forgotten.choices, forgotten.versions) == (150, 1)
    assert forgotten.examples == 300 / 2 - len(range(1, 300, 14))
    assert memory.indexes.nearest("a1", unit_vector(1), 5) == []
    assert memory.answers.exact.get(b"1", 1001.0) is None
    assert memory.decisions.requests.recent(10, tenant="a1") == []
    assert memory.outcomes.after(0, tenant="a1") == []
    assert memory.decisions.choices.after(0, tenant="a1") == []
    for file in tmp_path.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert b"GONE" not in content, file
        assert not any(vector in content for vector in vectors["GONE"]), file
    assert any(vector in (tmp_path / "understudy.db").read_bytes() for vector in vectors["KEPT"])
    assert len(memory.outcomes.experiences("b2", limit=200)) == 150
    assert memory.artifacts.active("scorer", "b2", "m") is not None
    assert not list((tmp_path / "index").glob("a1.*"))
    assert memory.answers.exact.get(b"2", 1001.0) is not None
    assert memory.examples.count("b2") == memory.indexes.size("b2") > 100
    assert memory.close()


def test_a_forgotten_contributor_is_in_no_table_no_index_no_exact_answer_and_no_file(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    assert memory.follower is not None and memory.indexes is not None
    chance = random.Random(12)
    vectors: dict[str, list[bytes]] = {"ann": [], "bob": []}
    for number in range(200):
        who, mark = ("ann", "GONE") if number % 2 else ("bob", "KEPT")
        text = f"{mark}{number} " + "x" * chance.choice([0, 50, 700, 3000, 9000])
        memory.examples.add(
            new_example(number, "a1", question=text, answer=text, embedded_text=text, contributor=who)
        )
        vectors[who].append(unit_vector(number).astype("<f2").tobytes())
        vectors[who].append(teach(memory, number, "a1", who, text))
        memory.answers.exact.put(b"%d" % number, "a1", answer(text.encode()))
    memory.answers.exact.put(b"theirs", "b2", answer(b"KEPT"))
    assert memory.drain(30)
    assert memory.follower.wait_for(memory.examples.last_seq(), 30)
    memory.indexes.save(memory.examples.database_id(), memory.follower.folded_seq)
    before = next((tmp_path / "index").glob("a1.*.usearch")).stat().st_size

    forgotten = forget_contributor(memory, "a1", "ann")

    assert (forgotten.examples, forgotten.answers, forgotten.erased) == (100, 200, True)
    assert forgotten.choices == 100
    assert {e.choice.contributor for e in memory.outcomes.experiences("a1")} == {"bob"}
    assert memory.examples.count("a1") == memory.indexes.size("a1") == 100
    assert memory.answers.exact.get(b"1", 1001.0) is None
    assert memory.answers.exact.get(b"theirs", 1001.0) is not None
    for file in tmp_path.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert b"GONE" not in content, file
        assert not any(vector in content for vector in vectors["ann"]), file
    assert any(vector in (tmp_path / "understudy.db").read_bytes() for vector in vectors["bob"])
    (snapshot,) = (tmp_path / "index").glob("a1.*.usearch")
    assert snapshot.stat().st_size < before * 0.6
    assert memory.close()
    again = opened(tmp_path)
    assert again.follower is not None and again.indexes is not None
    assert again.follower.wait_for(0, 30)
    assert again.indexes.size("a1") == 100
    assert again.close()
