"""The bandit learns who is good at what, survives being saved, and refuses what is not whole."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from router.choosing import bandit_vw, features
from router.choosing.bandit import BanditBroken, BanditInput, BanditMissing, BanditOutdated, Lesson
from router.choosing.bandit_vw import BanditSettings, Shares, VowpalBandit
from router.choosing.linear import LEARNERS, NUMPY, usual_learner
from tests.router.choosing.routing_scenes import DIMENSIONS, lessons, scene

SETTINGS = BanditSettings(dimensions=DIMENSIONS, embedding_version="test")


@pytest.fixture(scope="module", params=sorted({NUMPY, usual_learner()}))
def taught(request: pytest.FixtureRequest) -> bytes:
    bandit = VowpalBandit(replace(SETTINGS, learner=request.param))
    bandit.learn(lessons(1, 600))
    return bandit.save()


def advantage(bandit: VowpalBandit, topic: int, seed: int = 9) -> float:
    small, large = bandit.estimate(scene(np.random.default_rng(seed), topic)).qualities
    return large - small


def test_it_learns_from_single_outcomes_where_the_large_engine_is_needed(taught: bytes) -> None:
    bandit = VowpalBandit.load(taught)
    assert abs(advantage(bandit, 0)) < 0.2
    assert advantage(bandit, 1) > 0.6
    assert bandit.learned == 600


def test_untaught_it_expects_what_the_scorer_expects() -> None:
    found = VowpalBandit(SETTINGS).estimate(scene(np.random.default_rng(0), 0, ("s", "m", "l")))
    assert found.qualities == pytest.approx((0.5, 0.75, 1.0), abs=1e-6)
    assert found.deviations == (0.5, 0.5, 0.5)


def test_an_engine_nobody_knows_yet_can_be_asked_about_beside_known_ones(taught: bytes) -> None:
    found = VowpalBandit.load(taught).estimate(scene(np.random.default_rng(0), 0, ("small", "new", "large")))
    assert len(found.qualities) == 3
    assert all(0.0 <= q <= 1.0 for q in found.qualities)


def test_of_an_engine_nobody_asked_a_share_of_the_references_quality_is_expected() -> None:
    rng, bandit = np.random.default_rng(6), VowpalBandit(SETTINGS)
    bandit.learn([Lesson(scene(rng, 0), {1: 0.6}) for _ in range(400)])
    unknown, reference = bandit.estimate(scene(rng, 0)).qualities
    assert reference == pytest.approx(0.6, abs=0.02)
    assert unknown == pytest.approx(0.5 * reference, abs=0.02)


def test_of_a_request_like_none_before_nothing_is_sure(taught: bytes) -> None:
    bandit, rng = VowpalBandit.load(taught), np.random.default_rng(5)
    known, strange = bandit.estimate(scene(rng, 1)), bandit.estimate(scene(rng, 3))
    assert max(known.deviations) < 0.1 < min(strange.deviations)
    assert known.strangeness < 0.1 and strange.strangeness > 0.9
    assert strange.surely(0) < strange.qualities[0] - 0.2
    assert bandit.estimate(replace(scene(rng, 1), vector=None)).deviations == (0.5, 0.5)


def test_what_failed_everywhere_is_not_tried_again_in_every_corner() -> None:
    rng, bandit = np.random.default_rng(6), VowpalBandit(SETTINGS)
    bandit.learn([Lesson(scene(rng, 0), {0: 0.0, 1: 1.0}) for _ in range(40)])
    strange = bandit.estimate(scene(rng, 3))
    assert strange.strangeness > 0.9
    assert strange.qualities[0] + 1.5 * strange.deviations[0] < 0.5


def test_it_follows_when_the_engines_change_places(taught: bytes) -> None:
    bandit = VowpalBandit.load(taught)
    bandit.learn(lessons(2, 1500, swapped=True))
    assert advantage(bandit, 1) < 0.1


def test_what_was_saved_gives_the_same_estimates_and_learns_on(taught: bytes) -> None:
    one, two = VowpalBandit.load(taught), VowpalBandit.load(taught)
    asked = scene(np.random.default_rng(3), 1)
    assert one.estimate(asked) == two.estimate(asked)
    assert one.version == two.version
    again = VowpalBandit.load(one.save())
    assert again.estimate(asked).qualities == pytest.approx(one.estimate(asked).qualities, abs=1e-5)
    more = lessons(4, 100)
    one.learn(more)
    again.learn(more)
    assert again.estimate(asked).qualities == pytest.approx(one.estimate(asked).qualities, abs=1e-4)


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b[:-1], lambda b: b[:40], lambda b: b""]
)
def test_a_truncated_artifact_never_loads(taught: bytes, damage: object) -> None:
    with pytest.raises(BanditBroken):
        VowpalBandit.load(damage(taught))  # type: ignore[operator]


def test_one_changed_byte_is_noticed(taught: bytes) -> None:
    spoilt = bytearray(taught)
    spoilt[-100] ^= 1
    with pytest.raises(BanditBroken):
        VowpalBandit.load(bytes(spoilt))


def test_a_bandit_of_other_features_is_outdated(taught: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "VERSION", "other")
    with pytest.raises(BanditOutdated):
        VowpalBandit.load(taught)


def test_bad_lessons_teach_nothing_at_all(taught: bytes) -> None:
    bandit = VowpalBandit.load(taught)
    good = lessons(3, 3)
    with pytest.raises(BanditInput):
        bandit.learn([*good, Lesson(good[0].scene, {0: float("inf")})])
    assert bandit.learned == 600


def test_neither_the_dials_nor_the_load_change_what_quality_is_expected(taught: bytes) -> None:
    bandit = VowpalBandit.load(taught)
    asked = scene(np.random.default_rng(3), 1)
    dialled = replace(asked, context={**asked.context, "weight_quality": 0.1, "weight_cost": 0.9})
    loaded = replace(
        asked, options=[replace(o, features={**o.features, "utilisation": 1.5}) for o in asked.options]
    )
    assert bandit.estimate(dialled) == bandit.estimate(asked) == bandit.estimate(loaded)


def test_without_an_embedding_it_still_says_something(taught: bytes) -> None:
    found = VowpalBandit.load(taught).estimate(replace(scene(np.random.default_rng(0), 0), vector=None))
    assert all(0.0 <= q <= 1.0 for q in found.qualities)


@pytest.mark.parametrize("shares", [Shares(near=0.0, linear=1.0), Shares(near=1.0, linear=0.0)])
def test_both_parts_learn_where_the_large_engine_is_needed(shares: Shares, taught: bytes) -> None:
    bandit = VowpalBandit.load(taught)
    bandit.shares = {"small": shares, "large": shares}
    assert advantage(bandit, 1) > advantage(bandit, 0) + 0.3


def test_an_artifact_of_an_older_format_is_outdated(taught: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    bandit = VowpalBandit.load(taught)
    with monkeypatch.context() as patched:
        patched.setattr(bandit_vw, "FORMAT", 2)
        data = bandit.save()
    with pytest.raises(BanditOutdated, match="format 2"):
        VowpalBandit.load(data)


def test_no_learner_reads_what_another_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where the one it needs is not installed, nor one that only another version has."""
    bandit = VowpalBandit(replace(SETTINGS, learner=NUMPY))
    bandit.learn(lessons(1, 30))
    data = bandit.save()
    monkeypatch.setitem(sys.modules, "vowpal_wabbit_next", None)
    assert VowpalBandit.load(data).settings.learner == NUMPY
    other = data.replace(b'"learner": "numpy"', b'"learner": "other"')
    with pytest.raises(BanditOutdated, match="'other'"):
        VowpalBandit.load(other)
    named_none = data.replace(b', "learner": "numpy"', b" " * len(', "learner": "numpy"'))
    assert named_none != data
    with pytest.raises(BanditMissing, match="vowpal-wabbit-next"):
        VowpalBandit.load(named_none)
    monkeypatch.delitem(LEARNERS, NUMPY)
    with pytest.raises(BanditOutdated, match="'numpy'"):
        VowpalBandit.load(data)


def test_threads_that_ask_and_teach_at_once_disturb_nothing(taught: bytes) -> None:
    bandit = VowpalBandit.load(taught)
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            rng = np.random.default_rng()
            for _ in range(150):
                assert all(0.0 <= q <= 1.0 for q in bandit.estimate(scene(rng, 1)).qualities)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    bandit.learn(lessons(7, 150))
    for thread in threads:
        thread.join()
    assert not failures
