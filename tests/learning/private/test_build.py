"""A release counts people and not requests, is booked before it is known, and is refused when it would exceed the budget."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from learning.private.build import BudgetExhausted, NothingToRelease, PrivateBuilder, spent
from learning.private.tenants import make_private
from learning.private.words import Bounds
from store import Store
from store.examples.private_bank import BudgetMoved
from store.records import Vector
from tests.store.behind import admit_many
from tests.store.rows import new_example
from understudy.settings.file import ConfigError, parse_config
from understudy.settings.private import PrivateAdvanced, PrivateSettings
from understudy.setup.private import CannotBuild, mechanism, reference_of

SETTINGS = PrivateSettings(
    tenants=("id:a1",),
    epsilon=6,
    advanced=PrivateAdvanced(releases=2),
)
PEOPLE = 90


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    make_private(opened, SETTINGS.tenants)
    yield opened
    opened.close()


def put_aside(store: Store, contributor: str, question: str, count: int = 1) -> None:
    new = new_example(1, contributor=contributor, question=question, request_id="")
    done = admit_many(store.examples, [new] * count).result(30)
    assert {each.outcome for each in done} == {"private"}


def north(text: str) -> Vector:
    return np.array([1.0, 0.0], np.float32)


def builder(
    store: Store, settings: PrivateSettings = SETTINGS, synced: list[int] | None = None
) -> PrivateBuilder:
    def sync() -> None:
        if synced is not None:
            synced.append(len(store.examples.private.releases("a1")))

    common = {"the", "what", "about"}
    how = replace(mechanism(settings), bounds=Bounds(1, 3), planes=0, least_words=1)
    return PrivateBuilder(store.examples.private, how, north, common.__contains__, 2, sync)


async def test_people_are_counted_and_not_how_often_they_ask(store: Store) -> None:
    for number in range(PEOPLE):
        put_aside(store, f"k/{number}", "what about the parcel?")
    put_aside(store, "k/0", "blackmail", count=2 * PEOPLE)
    put_aside(store, "", "anonymous tipoff", count=2 * PEOPLE)
    synced: list[int] = []

    release = await builder(store, synced=synced).release("a1")

    assert release.told == [("scope", 0, ["parcel"])]
    assert synced == [1], "on the disk before anybody learns of it"


async def test_the_budget_is_kept_to_the_last_release_and_survives_deletion(store: Store) -> None:
    put_aside(store, "k/ann", "the parcel")
    for _ in range(SETTINGS.advanced.releases):
        assert (await builder(store).release("a1")).told == []
    store.forget_tenant("a1")
    put_aside(store, "k/ann", "the parcel")
    with pytest.raises(BudgetExhausted, match="2 releases spent epsilon 6"):
        await builder(store).release("a1")
    assert spent(store.examples.private.releases("a1")).slip <= SETTINGS.advanced.delta / 2


async def test_nothing_is_spent_on_nothing(store: Store) -> None:
    with pytest.raises(NothingToRelease):
        await builder(store).release("a1")
    assert store.examples.private.releases("a1") == []


async def test_of_two_at_once_one_is_booked_and_the_other_tells_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_aside(store, "k/ann", "the parcel")
    slow = builder(store)
    # The other comes in between: after the first has reckoned with what was spent, before it books.
    told = slow._bins

    def meanwhile(questions):  # type: ignore[no-untyped-def]
        builder(store)._release("a1")
        return told(questions)

    monkeypatch.setattr(slow, "_bins", meanwhile)
    with pytest.raises(BudgetMoved):
        await slow.release("a1")
    assert len(store.examples.private.releases("a1")) == 1


def test_names_become_private_by_key_or_by_id(store: Store) -> None:
    make_private(store, ("acme",))
    assert store.examples.private.tenants() == {"a1", store.keys.tenant_named("acme")}


def test_what_the_settings_lack_is_said() -> None:
    engines = {"e": {"kind": "simulated", "role": "lead"}}
    with pytest.raises(ConfigError, match=r"private\.tenants"):
        parse_config(
            {"engines": engines, "models": {"m": {"engines": ["e"]}}, "private": {"tenants": ["acme"]}}
        )
    config = parse_config({"engines": engines, "models": {"m": {"engines": ["e"]}}, "memory": {}})
    assert reference_of(config) == "e"
    with pytest.raises(CannotBuild, match="--engine"):
        reference_of(config.model_copy(update={"models": {}}))


def test_a_private_tenant_without_the_extra_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("understudy.settings.private.find_spec", lambda name: None)
    data = {"engines": {"e": {"kind": "simulated", "role": "lead"}}, "models": {"m": {"engines": ["e"]}}}
    with pytest.raises(ConfigError, match=r"private\.tenants.*understudy-gateway\[privacy\]"):
        parse_config(data | {"memory": {}, "private": {"tenants": ["acme"]}})
    assert parse_config(data | {"memory": {}}).private.tenants == ()


@pytest.mark.slow
def test_without_a_private_tenant_nothing_of_it_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from understudy.memory import Memory; import understudy.build;"
        "from understudy.settings.memory import MemorySettings; from understudy.settings.private import PrivateSettings;"
        "from understudy.settings.retention import RetentionSettings;"
        f"Memory.open(MemorySettings(data_dir=Path({str(tmp_path)!r}), examples={{'enabled': False}}),"
        " RetentionSettings(), private=PrivateSettings()).close();"
        "assert not [name for name in sys.modules if name.startswith('learning.private')], 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])
