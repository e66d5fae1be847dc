"""Tenants' workflows and collections: versions in their order, places that say what is new, and nobody else's.

Held to both: the database, and the memory of a gateway that has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.workflows.library import NO_LIMITS, CollectionPlace, Library, NewText
from store.workflows.memory import MemoryRuns
from store.workflows.records import Limits, TooManyBytes
from store.workflows.run_store import RunStore
from tests.store.contract.conftest import BACKENDS

NOW = 1_000.0
VECTOR = b"\0\0\x80?" * 4


@pytest.fixture(params=["memory", *sorted(BACKENDS)])
def runs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStore]:
    if request.param == "memory":
        yield MemoryRuns()
    else:
        store = BACKENDS[request.param](tmp_path)()
        yield store.runs
        store.close()


def put(library: Library, version: str, tenant: str = "a1", name: str = "qa", **options: object) -> int:
    definition = f"definition {version}".encode()
    number: int = library.put_workflow(tenant, name, version, definition, now_s=NOW, **options).result()  # type: ignore[arg-type]
    return number


def add(
    library: Library,
    *texts: str,
    tenant: str = "a1",
    name: str = "papers",
    identity: str = "bge",
    contributor: str = "k/u",
    limits: Limits = NO_LIMITS,
    vector: bytes = VECTOR,
) -> CollectionPlace:
    return library.add_texts(
        tenant,
        name,
        [NewText(text, vector) for text in texts],
        identity=identity,
        now_s=NOW,
        contributor=contributor,
        limits=limits,
    ).result()


def kept(library: Library, tenant: str = "a1", name: str = "papers") -> list[str]:
    return [each.text for each in library.texts(tenant, name)]


# ---- workflows


def test_the_version_that_was_put_last_runs_and_earlier_ones_are_found_by_name(runs: RunStore) -> None:
    library = runs.library
    assert [put(library, version) for version in ("v1", "v2", "v2", "v3")] == [1, 2, 2, 3]
    latest, second = library.workflow("a1", "qa"), library.workflow("a1", "qa", "v2")
    assert latest is not None and (latest.version, latest.number) == ("v3", 3)
    assert second is not None and (second.definition, second.number) == (b"definition v2", 2)
    assert put(library, "v1") == 4, "an earlier version again"
    latest = library.workflow("a1", "qa")
    assert latest is not None and (latest.version, latest.number) == ("v1", 4)


def test_only_the_latest_versions_are_kept(runs: RunStore) -> None:
    for version in ("v1", "v2", "v3", "v4"):
        put(runs.library, version, keep=2)
    assert [runs.library.workflow("a1", "qa", f"v{n}") is None for n in (1, 2, 3, 4)] == [
        True,
        True,
        False,
        False,
    ]
    assert runs.use("a1").total_bytes == 2 * len(b"definition v1")


def test_a_tenants_workflows_are_nobody_elses(runs: RunStore) -> None:
    library = runs.library
    put(library, "v1")
    put(library, "v2", tenant="b2", name="other")
    assert library.workflow("b2", "qa") is None
    assert [each.name for each in library.workflows("a1")] == ["qa"]
    assert [(each.tenant, each.name) for each in library.workflows()] == [("a1", "qa"), ("b2", "other")]
    assert not library.remove_workflow("b2", "qa").result()
    assert library.remove_workflow("a1", "qa").result()
    assert not library.remove_workflow("a1", "qa").result()
    assert (library.workflow("a1", "qa"), runs.use("a1").total_bytes) == (None, 0)


def test_whoever_looks_notices_that_there_is_a_new_name(runs: RunStore) -> None:
    library = runs.library
    places = [library.names_place()]
    for tenant, name in (("a1", "qa"), ("b2", "qa"), ("b2", "other")):
        put(library, "v1", tenant=tenant, name=name)
        places.append(library.names_place())
    assert sorted(library.workflow_names()) == ["other", "qa"]
    library.remove_workflow("b2", "other").result()
    put(library, "v1", tenant="b2", name="other")
    assert len({*places, library.names_place()}) == 5


# ---- collections


def test_texts_come_in_their_order_and_the_place_says_what_is_new(runs: RunStore) -> None:
    library = runs.library
    assert library.place("a1", "papers") is None
    first = add(library, "one", "two")
    second = add(library, "three")
    assert (second.generation, second) == (first.generation, library.place("a1", "papers"))
    assert [each.text for each in library.texts("a1", "papers", first.last_seq)] == ["three"]
    found = library.texts("a1", "papers", limit=2)
    assert [(each.text, each.vector, each.identity) for each in found] == [
        ("one", VECTOR, "bge"),
        ("two", VECTOR, "bge"),
    ]
    assert kept(library) == ["one", "two", "three"]


def test_a_step_that_is_repeated_keeps_nothing_twice(runs: RunStore) -> None:
    first = add(runs.library, "one", "two", "two")
    assert add(runs.library, "two", "one") == first
    assert kept(runs.library) == ["one", "two"]
    assert runs.use("a1").total_bytes == len("one" + "two") + 2 * len(VECTOR)


def test_another_embedder_replaces_vectors_and_has_everybody_read_anew(runs: RunStore) -> None:
    library = runs.library
    before = add(library, "one", "two")
    after = add(library, "one", identity="other", vector=VECTOR * 2)
    assert (after.generation != before.generation, after.last_seq) == (True, before.last_seq)
    assert {each.text: (each.identity, each.vector) for each in library.texts("a1", "papers")} == {
        "one": ("other", VECTOR * 2),
        "two": ("bge", VECTOR),
    }
    assert runs.use("a1").total_bytes == len("one" + "two") + 3 * len(VECTOR)


def test_half_a_surrogate_pair_is_kept_as_it_came(runs: RunStore) -> None:
    add(runs.library, "half \ud83d")
    assert kept(runs.library) == ["half \ud83d"]


def test_a_tenants_collections_are_nobody_elses(runs: RunStore) -> None:
    library = runs.library
    add(library, "one")
    add(library, "uno", tenant="b2")
    assert kept(library, "b2") == ["uno"]
    assert (library.place("c3", "papers"), library.texts("c3", "papers")) == (None, [])
    assert not library.remove_collection("c3", "papers").result()
    assert [(each.tenant, each.name, each.texts, each.size_bytes) for each in library.collections()] == [
        ("a1", "papers", 1, 3 + len(VECTOR)),
        ("b2", "papers", 1, 3 + len(VECTOR)),
    ]
    assert [each.tenant for each in library.collections("b2")] == ["b2"]
    assert library.remove_collection("a1", "papers").result()
    assert (kept(library), kept(library, "b2")) == ([], ["uno"])
    assert (runs.use("a1").total_bytes, runs.use("b2").total_bytes) == (0, 3 + len(VECTOR))


def test_a_collection_that_comes_again_is_another_one(runs: RunStore) -> None:
    first = add(runs.library, "one")
    runs.library.remove_collection("a1", "papers").result()
    assert add(runs.library, "one").generation != first.generation


def test_what_takes_too_much_room_is_kept_not_at_all(runs: RunStore) -> None:
    library, limits = runs.library, Limits(max_total_bytes=40)
    add(library, "one", limits=limits)
    with pytest.raises(TooManyBytes):
        add(library, "two", "three", limits=limits)
    with pytest.raises(TooManyBytes):
        put(library, "a version with many words", limits=limits)
    assert (kept(library), library.workflows("a1")) == (["one"], [])
    assert runs.use("a1").total_bytes == 3 + len(VECTOR)
    add(library, "one", limits=Limits(max_total_bytes=1))


# ---- away


def test_whoever_is_forgotten_leaves_no_text_and_no_workflow(runs: RunStore) -> None:
    library = runs.library
    before = add(library, "one", "shared")
    add(library, "two", "shared", contributor="k/v")
    add(library, "alone", name="own")
    put(library, "v1", contributor="k/v")
    put(library, "v2", contributor="k/u")
    assert runs.forget_contributor("a1", "k/u").result() == 4
    place = library.place("a1", "papers")
    assert place is not None and place.generation != before.generation
    assert (kept(library), library.place("a1", "own")) == (["two", "shared"], None)
    latest = library.workflow("a1", "qa")
    assert latest is not None and latest.version == "v1"
    assert runs.forget_tenant("b2").result() == 0
    assert runs.forget_tenant("a1").result() == 3
    assert (library.collections(), library.workflows(), runs.use("a1").total_bytes) == ([], [], 0)
