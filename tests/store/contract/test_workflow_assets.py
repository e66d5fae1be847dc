"""Tenants' workflows and collections: versions in their order, places that say what is new, and nobody else's.

Held to both databases.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.workflows.assets import NO_LIMITS, Assets, CollectionPlace, NewText
from store.workflows.records import Limits, TooManyBytes
from store.workflows.runs import WorkflowRuns
from tests.store.contract.conftest import BACKENDS, opener

NOW = 1_000.0
VECTOR = b"\0\0\x80?" * 4


@pytest.fixture(params=BACKENDS)
def runs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkflowRuns]:
    store = opener(request.param, request, tmp_path / "data")()
    yield store.runs
    store.close()


def put(assets: Assets, version: str, tenant: str = "a1", name: str = "qa", **options: object) -> int:
    definition = f"definition {version}".encode()
    number: int = assets.put_workflow(tenant, name, version, definition, now_s=NOW, **options).result()  # type: ignore[arg-type]
    return number


def add(
    assets: Assets,
    *texts: str,
    tenant: str = "a1",
    name: str = "papers",
    identity: str = "bge",
    contributor: str = "k/u",
    limits: Limits = NO_LIMITS,
    vector: bytes = VECTOR,
) -> CollectionPlace:
    return assets.add_texts(
        tenant,
        name,
        [NewText(text, vector) for text in texts],
        identity=identity,
        now_s=NOW,
        contributor=contributor,
        limits=limits,
    ).result()


def kept(assets: Assets, tenant: str = "a1", name: str = "papers") -> list[str]:
    return [each.text for each in assets.texts(tenant, name)]


# ---- workflows


def test_the_version_that_was_put_last_runs_and_earlier_ones_are_found_by_name(runs: WorkflowRuns) -> None:
    assets = runs.assets
    assert [put(assets, version) for version in ("v1", "v2", "v2", "v3")] == [1, 2, 2, 3]
    latest, second = assets.workflow("a1", "qa"), assets.workflow("a1", "qa", "v2")
    assert latest is not None and (latest.version, latest.number) == ("v3", 3)
    assert second is not None and (second.definition, second.number) == (b"definition v2", 2)
    assert put(assets, "v1") == 4, "an earlier version again"
    latest = assets.workflow("a1", "qa")
    assert latest is not None and (latest.version, latest.number) == ("v1", 4)


def test_only_the_latest_versions_are_kept(runs: WorkflowRuns) -> None:
    for version in ("v1", "v2", "v3", "v4"):
        put(runs.assets, version, keep=2)
    assert [runs.assets.workflow("a1", "qa", f"v{n}") is None for n in (1, 2, 3, 4)] == [
        True,
        True,
        False,
        False,
    ]
    assert runs.use("a1").total_bytes == 2 * len(b"definition v1")


def test_a_tenants_workflows_are_nobody_elses(runs: WorkflowRuns) -> None:
    assets = runs.assets
    put(assets, "v1")
    put(assets, "v2", tenant="b2", name="other")
    assert assets.workflow("b2", "qa") is None
    assert [each.name for each in assets.workflows("a1")] == ["qa"]
    assert [(each.tenant, each.name) for each in assets.workflows()] == [("a1", "qa"), ("b2", "other")]
    assert not assets.remove_workflow("b2", "qa").result()
    assert assets.remove_workflow("a1", "qa").result()
    assert not assets.remove_workflow("a1", "qa").result()
    assert (assets.workflow("a1", "qa"), runs.use("a1").total_bytes) == (None, 0)


# ---- collections


def test_texts_come_in_their_order_and_the_place_says_what_is_new(runs: WorkflowRuns) -> None:
    assets = runs.assets
    assert assets.place("a1", "papers") is None
    first = add(assets, "one", "two")
    second = add(assets, "three")
    assert (second.generation, second) == (first.generation, assets.place("a1", "papers"))
    assert [each.text for each in assets.texts("a1", "papers", first.last_seq)] == ["three"]
    found = assets.texts("a1", "papers", limit=2)
    assert [(each.text, each.vector, each.identity) for each in found] == [
        ("one", VECTOR, "bge"),
        ("two", VECTOR, "bge"),
    ]
    assert kept(assets) == ["one", "two", "three"]


def test_a_step_that_is_repeated_keeps_nothing_twice(runs: WorkflowRuns) -> None:
    first = add(runs.assets, "one", "two", "two")
    assert add(runs.assets, "two", "one") == first
    assert kept(runs.assets) == ["one", "two"]
    assert runs.use("a1").total_bytes == len("one" + "two") + 2 * len(VECTOR)


def test_another_embedder_replaces_vectors_and_has_everybody_read_anew(runs: WorkflowRuns) -> None:
    assets = runs.assets
    before = add(assets, "one", "two")
    after = add(assets, "one", identity="other", vector=VECTOR * 2)
    assert after.generation != before.generation and after.last_seq > before.last_seq
    assert {each.text: (each.identity, each.vector) for each in assets.texts("a1", "papers")} == {
        "one": ("other", VECTOR * 2),
        "two": ("bge", VECTOR),
    }
    assert runs.use("a1").total_bytes == len("one" + "two") + 3 * len(VECTOR)


def test_half_a_surrogate_pair_is_kept_as_it_came(runs: WorkflowRuns) -> None:
    add(runs.assets, "half \ud83d")
    assert kept(runs.assets) == ["half \ud83d"]


def test_a_tenants_collections_are_nobody_elses(runs: WorkflowRuns) -> None:
    assets = runs.assets
    add(assets, "one")
    add(assets, "uno", tenant="b2")
    assert kept(assets, "b2") == ["uno"]
    assert (assets.place("c3", "papers"), assets.texts("c3", "papers")) == (None, [])
    assert not assets.remove_collection("c3", "papers").result()
    assert [(each.tenant, each.name, each.texts, each.size_bytes) for each in assets.collections()] == [
        ("a1", "papers", 1, 3 + len(VECTOR)),
        ("b2", "papers", 1, 3 + len(VECTOR)),
    ]
    assert [each.tenant for each in assets.collections("b2")] == ["b2"]
    assert assets.remove_collection("a1", "papers").result()
    assert (kept(assets), kept(assets, "b2")) == ([], ["uno"])
    assert (runs.use("a1").total_bytes, runs.use("b2").total_bytes) == (0, 3 + len(VECTOR))


def test_a_collection_that_comes_again_is_another_one(runs: WorkflowRuns) -> None:
    first = add(runs.assets, "one")
    runs.assets.remove_collection("a1", "papers").result()
    assert add(runs.assets, "one").generation != first.generation


def test_what_takes_too_much_room_is_kept_not_at_all(runs: WorkflowRuns) -> None:
    assets, limits = runs.assets, Limits(max_total_bytes=40)
    add(assets, "one", limits=limits)
    with pytest.raises(TooManyBytes):
        add(assets, "two", "three", limits=limits)
    with pytest.raises(TooManyBytes):
        put(assets, "a version with many words", limits=limits)
    assert (kept(assets), assets.workflows("a1")) == (["one"], [])
    assert runs.use("a1").total_bytes == 3 + len(VECTOR)
    add(assets, "one", limits=Limits(max_total_bytes=1))


# ---- away


def test_whoever_is_forgotten_leaves_no_text_and_no_workflow(runs: WorkflowRuns) -> None:
    assets = runs.assets
    before = add(assets, "one", "shared")
    add(assets, "two", "shared", contributor="k/v")
    add(assets, "alone", name="own")
    put(assets, "v1", contributor="k/v")
    put(assets, "v2", contributor="k/u")
    assert runs.forget_contributor("a1", "k/u").result() == 4
    place = assets.place("a1", "papers")
    assert place is not None and place.generation != before.generation
    assert (sorted(kept(assets)), assets.place("a1", "own")) == (["shared", "two"], None)
    latest = assets.workflow("a1", "qa")
    assert latest is not None and latest.version == "v1"
    assert runs.forget_tenant("b2").result() == 0
    assert runs.forget_tenant("a1").result() == 3
    assert (assets.collections(), assets.workflows(), runs.use("a1").total_bytes) == ([], [], 0)
