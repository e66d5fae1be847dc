"""The learner trains what is due, tenant by tenant; no failure, and no other tenant's outcomes, spoil anybody's version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from learning.learned.learner import Incumbent, Trained
from learning.training.learner import Pace, RouterLearner
from store import Store
from store.decisions.outcomes import Experience
from store.records import ArtifactRecord
from tests.store.rows import choice_record, outcome_record

MODEL = "gpt-4o"


@dataclass
class Trainer:
    """Its artifact names what it was trained on; that shows whose it was."""

    kind: str = "bandit"
    needed: int = 4
    accepted: bool = True
    failing: Callable[[Sequence[Experience]], Exception | None] = lambda _: None
    nothing: bool = False
    trained: list[tuple[list[str], Incumbent | None]] = field(default_factory=list)

    def train(self, experiences: Sequence[Experience], incumbent: Incumbent | None) -> Trained | None:
        error = self.failing(experiences)
        if error is not None:
            raise error
        whose = [f"{e.choice.tenant}/{e.choice.request_id}" for e in experiences]
        self.trained.append((whose, incumbent))
        if self.nothing:
            return None
        return Trained(" ".join(whose).encode(), {"rows": len(whose)}, self.accepted, "because")


@dataclass
class Bench:
    """A store with outcomes, and a learner over it."""

    store: Store
    trainers: list[Trainer]
    settings: dict[str, Any] = field(default_factory=dict)
    number: int = 0
    made: RouterLearner | None = None

    @property
    def learner(self) -> RouterLearner:
        if self.made is None:
            more = {"pace": Pace(min_new_outcomes=3, max_outcomes=20_000)} | self.settings
            self.made = RouterLearner(
                self.store.outcomes,
                self.store.artifacts,
                lambda model: self.trainers if model == MODEL else (),
                **more,
            )
        return self.made

    def happens(self, count: int, tenant: str = "a", model: str = MODEL, **choice: Any) -> None:
        """So many requests, each with an outcome."""
        for _ in range(count):
            self.number += 1
            self.store.decisions.choices.record(
                choice_record(self.number, tenant=tenant, model=model, **choice)
            )
            self.store.outcomes.note(outcome_record(self.number, tenant=tenant)).result(30)

    def step(self) -> list[tuple[str, str, str]]:
        """What was published: (kind, tenant, state)."""
        return [(r.kind, r.tenant, r.state) for r in self.learner.step()]

    def active(self, tenant: str = "a", kind: str = "bandit") -> ArtifactRecord | None:
        return self.store.artifacts.active(kind, tenant, MODEL)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    store = Store.open(tmp_path)
    yield Bench(store, [Trainer()])
    store.close()


PUBLISHED = [("bandit", "a", "active")]


def test_nothing_is_trained_on_too_few_outcomes(bench: Bench) -> None:
    assert bench.step() == []
    bench.happens(3)
    assert bench.step() == [] and not bench.trainers[0].trained
    bench.happens(1)
    assert bench.step() == PUBLISHED


def test_it_waits_for_enough_that_is_new(bench: Bench) -> None:
    bench.happens(4)
    assert bench.step() == PUBLISHED
    assert bench.step() == [], "nothing is new"
    bench.happens(2)
    assert bench.step() == [], "two are too few"
    bench.happens(1)
    assert bench.step() == PUBLISHED


def test_with_many_outcomes_a_tenth_must_be_new(bench: Bench) -> None:
    bench.happens(50)
    assert bench.step() == PUBLISHED
    bench.happens(4)
    assert bench.step() == []
    bench.happens(1)
    assert bench.step() == PUBLISHED


def test_the_version_in_use_is_what_is_trained_from_and_named_as_parent(bench: Bench) -> None:
    bench.happens(4)
    bench.step()
    first = bench.active()
    assert first is not None and first.parent is None
    bench.happens(3)
    bench.step()
    second = bench.active()
    assert second is not None and second.parent == first.id
    incumbent = bench.trainers[0].trained[1][1]
    assert incumbent is not None and incumbent.data == b"a/req-1 a/req-2 a/req-3 a/req-4"
    assert second.metrics["outcomes"] == 7 and second.note == "because"


def test_a_damaged_version_in_use_is_trained_anew_without_it(bench: Bench) -> None:
    bench.happens(4)
    bench.step()
    first = bench.active()
    assert first is not None
    bench.store.artifacts.path(first).unlink()
    bench.happens(3)
    assert bench.step() == PUBLISHED
    assert bench.trainers[0].trained[1][1] is None


def test_what_is_not_better_is_published_as_rejected_and_not_tried_again_at_once(bench: Bench) -> None:
    bench.happens(4)
    bench.step()
    first, bench.trainers[0].accepted = bench.active(), False
    bench.happens(3)
    assert bench.step() == [("bandit", "a", "rejected")]
    assert bench.active() == first
    bench.happens(1)
    assert bench.step() == []


def test_a_new_learner_knows_what_the_last_one_had_learnt_from(bench: Bench) -> None:
    bench.happens(4)
    bench.step()
    bench.made = None
    assert bench.step() == [], "restarted, it trains nothing twice"
    bench.happens(3)
    assert bench.step() == PUBLISHED


def test_one_tenants_failure_does_not_stop_the_others(bench: Bench) -> None:
    def odd(experiences: Sequence[Experience]) -> Exception | None:
        return ArithmeticError() if experiences[0].choice.tenant == "a" else None

    bench.trainers = [Trainer(failing=odd), Trainer("counts")]
    for tenant in "ab":
        bench.happens(4, tenant)
    assert bench.step() == [("counts", "a", "active"), ("bandit", "b", "active"), ("counts", "b", "active")]
    assert bench.active("a") is None


def test_what_cannot_be_published_does_not_stop_the_others(bench: Bench) -> None:
    class Unspeakable(Trainer):
        def train(self, experiences: Sequence[Experience], incumbent: Incumbent | None) -> Trained | None:
            return Trained(b"", {"a set": {1}}, True, "")

    bench.trainers = [Unspeakable(), Trainer("counts")]
    bench.happens(4)
    assert bench.step() == [("counts", "a", "active")]


def test_experiences_that_hold_nothing_publish_nothing(bench: Bench) -> None:
    bench.trainers = [Trainer(nothing=True)]
    bench.happens(4)
    assert bench.step() == [] and bench.active() is None


def test_tenants_and_models_are_learnt_apart(bench: Bench) -> None:
    bench.happens(4, "a")
    bench.happens(4, "b")
    bench.happens(4, "a", model="another")
    assert sorted(bench.step()) == [("bandit", "a", "active"), ("bandit", "b", "active")]
    for tenant in "ab":
        record = bench.active(tenant)
        assert record is not None
        whose = bench.store.artifacts.read(record).decode().split()
        assert len(whose) == 4 and {each[0] for each in whose} == {tenant}


def test_outcomes_of_another_tenant_are_learnt_from_only_where_granted(bench: Bench) -> None:
    bench.settings = {"lenders": lambda tenant: ("b",) if tenant == "a" else ()}
    bench.happens(1, "a")
    bench.happens(3, "b")
    assert bench.step() == PUBLISHED, "what was lent counts"
    assert {each[0] for each in bench.trainers[0].trained[0][0]} == {"a", "b"}
    bench.happens(1, "b")
    published = bench.step()
    assert ("bandit", "b", "active") in published
    lent_nothing = next(
        whose for whose, _ in bench.trainers[0].trained if len(whose) == 4 and "a/" not in str(whose)
    )
    assert {each[0] for each in lent_nothing} == {"b"}


def test_what_is_forgotten_is_learnt_anew_without(bench: Bench) -> None:
    bench.happens(4, contributor="key_1/ann")
    bench.happens(4, contributor="key_1/bob")
    bench.step()
    bench.store.forget_contributors("a", ["key_1/ann"])
    bench.happens(1, contributor="key_1/bob")
    assert bench.step() == PUBLISHED
    record = bench.active()
    assert record is not None
    assert bench.store.artifacts.read(record) == b"a/req-5 a/req-6 a/req-7 a/req-8 a/req-9"


def test_a_version_that_was_deleted_is_made_anew_from_what_is_left(bench: Bench) -> None:
    bench.happens(8)
    bench.step()
    bench.store.artifacts.forget_tenant("a")
    bench.happens(1)
    assert bench.step() == PUBLISHED


def test_a_version_that_a_person_took_out_of_use_is_not_made_anew_at_once(bench: Bench) -> None:
    bench.happens(8)
    bench.step()
    bench.store.artifacts.retire("bandit", "a", MODEL)
    bench.happens(1)
    assert bench.step() == [] and bench.active() is None
    bench.happens(2)
    assert bench.step() == PUBLISHED, "three more outcomes are news"


def test_a_forgotten_tenant_is_not_learnt_of_again(bench: Bench) -> None:
    bench.happens(4)
    bench.step()
    bench.store.forget_tenant("a")
    bench.happens(4, "b")
    assert bench.step() == [("bandit", "b", "active")]
    assert bench.store.artifacts.versions(tenant="a") == []


def test_a_frozen_slot_keeps_what_it_uses(bench: Bench) -> None:
    bench.happens(4)
    bench.step()
    first = bench.active()
    bench.store.artifacts.freeze("bandit", "a", MODEL)
    bench.happens(3)
    assert bench.step() == [("bandit", "a", "retired")]
    assert bench.active() == first


def test_the_latest_outcomes_are_the_ones_learnt_from(bench: Bench) -> None:
    bench.settings = {"pace": Pace(min_new_outcomes=1, max_outcomes=2)}
    bench.happens(5)
    bench.step()
    assert bench.trainers[0].trained[0][0] == ["a/req-4", "a/req-5"]


def test_it_stops_between_two_trainings(bench: Bench) -> None:
    bench.trainers = [Trainer(), Trainer("counts")]
    bench.settings = {"stopping": lambda: bool(bench.trainers[0].trained)}
    bench.happens(4)
    assert bench.step() == PUBLISHED
    assert not bench.trainers[1].trained


def test_looking_when_nothing_is_new_reads_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.happens(4)
    bench.step()

    def read(*_: Any, **__: Any) -> Any:
        raise AssertionError("read although nothing is new")

    for name in ("counts", "experiences"):
        monkeypatch.setattr(type(bench.store.outcomes), name, read)
    assert bench.step() == []
