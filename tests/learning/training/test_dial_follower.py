"""Turned dials reach the policies, also of a process that starts later, and what is taken back is as before."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from learning.training.dial_follower import DialFollower
from router.dials import Dials
from store.learned.dials import TurnedDials, TurnedDialsLog
from store.sqlite.database import Database
from tests.patience import eventually


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "understudy.db")
    yield opened
    opened.close()


def test_a_worker_follows_what_another_process_turns(db: Database) -> None:
    told: list[tuple[str, Dials]] = []
    other = Database.open(db.path)
    log = TurnedDialsLog(other)
    log.turn(TurnedDials("gpt-4o", 1.0, "ann", theta=0.9)).result(30)
    models = {name: (lambda d, own, n=name: told.append((n, d))) for name in ("gpt-4o", "other")}
    follower = DialFollower(TurnedDialsLog(db), models, look_every_s=0.01)
    follower.start()
    assert told == [("gpt-4o", Dials(theta=0.9))], "what is in force at the start, and nothing else"
    log.turn(TurnedDials("gpt-4o", 2.0, "ann", preference=0.25, m=2, max_examples=0)).result(30)
    assert eventually(lambda: told[-1] == ("gpt-4o", Dials(preference=0.25, m=2, max_examples=0)))
    log.take_back("gpt-4o", "ann").result(30)
    assert eventually(lambda: told[-1] == ("gpt-4o", Dials(theta=0.9)))
    log.take_back("gpt-4o", "ann").result(30)
    assert eventually(lambda: told[-1] == ("gpt-4o", Dials()))
    follower.stop()
    other.close()


def test_a_tenants_own_settings_stand_on_the_models(db: Database) -> None:
    told: list[Mapping[str, Dials]] = []
    log = TurnedDialsLog(db)
    log.turn(TurnedDials("m", 1.0, "ann", theta=0.9, m=2)).result(30)
    log.turn(TurnedDials("m", 2.0, "ann", m=5, tenant="a1")).result(30)
    follower = DialFollower(log, {"m": lambda dials, own: told.append(own)}, look_every_s=0.01)
    assert told == [{"a1": Dials(theta=0.9, m=5)}]
    log.take_back("m", "ann", "a1").result(30)
    follower.start()
    assert eventually(lambda: told[-1] == {})
    follower.stop()


@pytest.mark.parametrize("broken", ["generation", "in_force"])
def test_a_store_that_fails_for_a_while_loses_no_turn(db: Database, broken: str) -> None:
    class Broken(TurnedDialsLog):
        fails = ""

        def generation(self) -> int:
            self._fail("generation")
            return super().generation()

        def in_force(self, model: str, tenant: str = "") -> TurnedDials | None:
            self._fail("in_force")
            return super().in_force(model, tenant)

        def _fail(self, where: str) -> None:
            if self.fails == where:
                tried.append(where)
                raise OSError("gone")

    told: list[Dials] = []
    tried: list[str] = []
    log = Broken(db)
    follower = DialFollower(log, {"m": lambda dials, own: told.append(dials)}, look_every_s=0.01)
    follower.start()
    log.fails = broken
    log.turn(TurnedDials("m", time.time(), "ann", m=5)).result(30)
    assert eventually(lambda: len(tried) > 1)
    assert not told
    log.fails = ""
    assert eventually(lambda: told == [Dials(m=5)])
    follower.stop()
