from __future__ import annotations

import math
import random

import pytest

from learning.reuse.decision import Explore, Observation, Reuse, SemanticReuse
from learning.reuse.ledger import ReuseSettings


class Traffic:
    """Requests for entries of one tenant, answered and compared as the gateway would."""

    def __init__(self, settings: ReuseSettings, seed: int = 1) -> None:
        self.policy = SemanticReuse(settings)
        self.rng = random.Random(seed)
        self.entries: dict[int, list[Observation]] = {}
        self.reused = self.wrong = 0
        self.reasons: list[str] = []

    def ask(self, entry: int, similarity: float, right: bool) -> str:
        seen = self.entries.setdefault(entry, [])
        decision = self.policy.decide(seen, similarity, self.rng)
        if isinstance(decision, Reuse):
            self.policy.reused()
            self.reused += 1
            self.wrong += not right
            self.reasons.append("reuse")
        else:
            if decision.compare:
                seen.append(self.policy.observed(decision, similarity, right).observation)
            self.reasons.append(decision.reason)
        return self.reasons[-1]

    def mixed(self, requests: int, error_rate: float, entries: int = 60) -> None:
        """Near requests that are wrong this often, and far ones that are wrong half the time."""
        for _ in range(requests):
            near = self.rng.random() < 0.6
            right = self.rng.random() >= (error_rate if near else 0.5)
            self.ask(self.rng.randrange(entries), 0.97 if near else 0.8, right)


def decisions(policy: SemanticReuse, entry: list[Observation], times: int) -> list[Reuse | Explore]:
    """What would be decided so many times over, without anything coming of it."""
    rng, made = random.Random(3), []
    for _ in range(times):
        made.append(policy.decide(entry, 0.97, rng))
        if isinstance(made[-1], Explore):
            policy.abandoned(made[-1])
    return made


def settings(delta: float = 0.05, **more: float) -> ReuseSettings:
    return ReuseSettings(delta=delta, **more)  # type: ignore[arg-type]


def test_a_new_entry_never_reuses() -> None:
    traffic = Traffic(settings())
    traffic.mixed(3000, 0.002)
    assert traffic.reused > 500
    for entry in range(1000, 1200):
        assert traffic.ask(entry, 1.0, True) == "new_entry"


def test_nothing_is_reused_before_labels_prove_it() -> None:
    traffic = Traffic(settings())
    traffic.mixed(120, 0.0, entries=5)
    assert traffic.reused == 0


def test_reuse_does_come_when_it_is_earned() -> None:
    traffic = Traffic(settings(0.02))
    traffic.mixed(6000, 0.002)
    late = traffic.reasons[-1500:]
    assert late.count("reuse") > 500


@pytest.mark.parametrize("delta", [0.02, 0.05])
@pytest.mark.parametrize("times", [0.2, 1.0, 3.0])
def test_the_error_among_reused_answers_never_exceeds_delta(delta: float, times: float) -> None:
    traffic = Traffic(settings(delta), seed=int(times * 10))
    traffic.mixed(3000, delta * times)
    ledger = traffic.policy.ledger
    # Five sigma of luck above delta; the proof is about chances, not about how dice fell.
    assert traffic.wrong <= delta * traffic.reused + 5 * math.sqrt(delta * traffic.reused + 1)
    assert traffic.wrong <= delta * traffic.reused + ledger.grace()


def test_a_tenant_whose_near_matches_are_wrong_never_reuses() -> None:
    traffic = Traffic(settings())
    traffic.mixed(3000, 0.15)
    assert traffic.reused == 0


def test_an_entry_that_was_wrong_is_not_reused_because_others_were_right() -> None:
    traffic = Traffic(settings())
    traffic.mixed(3000, 0.004)
    bad = [Observation(0.97, False)] * 6
    good = [Observation(0.97, True)] * 6
    assert not any(isinstance(each, Reuse) for each in decisions(traffic.policy, bad, 200))
    assert any(isinstance(each, Reuse) for each in decisions(traffic.policy, good, 200))


def test_answers_that_go_stale_never_go_on_being_reused() -> None:
    traffic = Traffic(settings(0.02))
    traffic.mixed(6000, 0.001)
    before = traffic.wrong
    assert traffic.reused > 1000
    traffic.mixed(3000, 0.5)
    assert traffic.wrong - before < 120, "stopped within a few dozen audits"
    assert "reuse" not in traffic.reasons[-1000:]


def test_traffic_that_turns_on_the_policy_never_gets_more_than_the_grace() -> None:
    for seed in range(3):
        traffic = Traffic(settings(0.02), seed)
        traffic.mixed(4000, 0.001)
        reused, wrong, phase = traffic.reused, traffic.wrong, traffic.policy.ledger.phase
        grace = traffic.policy.ledger.grace()
        for number in range(800):
            traffic.ask(number % 60, 0.97, False)
            if traffic.policy.ledger.phase == phase:
                assert traffic.wrong <= 0.02 * traffic.reused + grace
        assert traffic.reused > reused or traffic.wrong == wrong


def test_a_share_of_what_could_be_reused_is_always_asked_anew() -> None:
    traffic = Traffic(settings(audit_share=0.2))
    traffic.mixed(4000, 0.002)
    reused, audits = traffic.reasons.count("reuse"), traffic.reasons.count("audit")
    assert reused + audits > 500
    assert abs(audits / (reused + audits) - 0.2) < 5 * math.sqrt(0.16 / (reused + audits))


def test_the_probability_of_a_decision_is_never_left_out() -> None:
    traffic = Traffic(settings())
    traffic.mixed(3000, 0.002)
    made = decisions(traffic.policy, [Observation(0.97, True)] * 5, 300)
    assert {type(each) for each in made} == {Reuse, Explore}
    for each in made:
        assert each.probability == (0.9 if isinstance(each, Reuse) else 0.1)


def test_audits_under_way_are_never_taken_for_right() -> None:
    traffic = Traffic(settings())
    traffic.mixed(3000, 0.002)
    policy, rng, entry = traffic.policy, random.Random(4), [Observation(0.97, True)] * 5
    waiting: list[Explore] = []
    for _ in range(2000):
        decision = policy.decide(entry, 0.97, rng)
        if isinstance(decision, Explore) and decision.audit:
            waiting.append(decision)
    assert isinstance(decision, Explore) and decision.reason == "stopped", (
        "so many unknown outcomes are too many"
    )
    assert policy.ledger.phase == 0, "and yet nothing is held against anyone"
    for each in waiting:
        policy.observed(each, 0.97, True)
    assert any(isinstance(each, Reuse) for each in decisions(policy, entry, 20))


@pytest.mark.parametrize("similarity", [math.nan, math.inf, -math.inf, -1.0, 0.0, 0.59])
def test_what_is_far_or_no_number_is_never_reused_nor_compared(similarity: float) -> None:
    traffic = Traffic(settings())
    traffic.mixed(1500, 0.002)
    decision = traffic.policy.decide([Observation(0.97, True)] * 5, similarity, random.Random(1))
    assert isinstance(decision, Explore) and not decision.compare
    with pytest.raises(ValueError, match="no comparison"):
        traffic.policy.observed(decision, similarity, True)


def test_a_comparison_that_cannot_tell_never_counts_as_right() -> None:
    policy = SemanticReuse(settings())
    decision = policy.decide([], 0.97, random.Random(1))
    assert isinstance(decision, Explore)
    assert policy.observed(decision, 0.97, None).observation == Observation(0.97, False)


def test_what_one_tenant_learnt_never_helps_another() -> None:
    taught, other = Traffic(settings()), Traffic(settings())
    taught.mixed(3000, 0.001)
    entry = [Observation(0.97, True)] * 5
    assert any(isinstance(each, Reuse) for each in decisions(taught.policy, entry, 50))
    assert not any(isinstance(each, Reuse) for each in decisions(other.policy, entry, 50))


def test_a_stricter_policy_never_inherits_what_was_counted_under_another() -> None:
    names = {settings(0.01).policy, settings(0.02).policy, settings(0.02, audit_share=0.2).policy}
    assert len(names) == 3


@pytest.mark.parametrize(
    ("setting", "value"),
    [("delta", 0.0), ("delta", 1.0), ("alpha", 0.0), ("audit_share", 0.0), ("audit_share", 1.0)],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused_by_name(setting: str, value: float) -> None:
    with pytest.raises(ValueError, match=setting):
        ReuseSettings(**{"delta": 0.02, setting: value})  # type: ignore[arg-type]
