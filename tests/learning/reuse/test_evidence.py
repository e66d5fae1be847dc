from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learning.reuse.evidence import certified, hidden_wrong_bound, log_evidence


@pytest.mark.parametrize("delta", [0.01, 0.05])
def test_what_is_wrong_too_often_is_hardly_ever_proven_however_often_one_looks(delta: float) -> None:
    alpha, runs, mistaken = 0.1, 150, 0
    for seed in range(runs):
        rng = random.Random(seed)
        wrong = 0
        for labelled in range(1, 1000):
            # Drifts around delta from above, and is worse after a run of luck.
            wrong += rng.random() < delta * (1.02 if labelled % 200 < 100 else 1.3)
            if certified(labelled, wrong, delta, alpha):
                mistaken += 1
                break
    assert mistaken / runs <= alpha + 3 * math.sqrt(alpha / runs)


def test_what_is_seldom_wrong_does_get_proven() -> None:
    assert certified(2_000, 4, 0.01, 0.01)
    assert certified(500, 5, 0.05, 0.01)


def test_few_labels_prove_nothing_however_good_they_look() -> None:
    assert not certified(0, 0, 0.01, 0.05)
    assert not certified(290, 0, 0.01, 0.05)


@given(st.integers(0, 3000), st.integers(0, 3000), st.sampled_from([0.01, 0.02, 0.05]))
def test_one_more_error_never_strengthens_a_proof(labelled: int, wrong: int, delta: float) -> None:
    wrong = min(wrong, labelled)
    if wrong < labelled:
        assert log_evidence(labelled, wrong + 1, delta) < log_evidence(labelled, wrong, delta)
    assert log_evidence(labelled + 1, wrong, delta) > log_evidence(labelled, wrong, delta)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_hidden_errors_hardly_ever_exceed_their_bound_whatever_the_traffic_does(share: float) -> None:
    alpha, runs, broken = 0.1, 200, 0
    for seed in range(runs):
        rng = random.Random(seed)
        caught = out = 0
        for _ in range(400):
            # An adversary that sends wrong ones while few were caught, and rests otherwise.
            if caught * (1 - share) / share <= out + 3:
                if rng.random() < share:
                    caught += 1
                else:
                    out += 1
                if out > hidden_wrong_bound(caught, share, alpha):
                    broken += 1
                    break
    assert broken / runs <= alpha + 3 * math.sqrt(alpha / runs)


def test_a_bound_on_hidden_errors_is_never_below_what_the_audits_suggest() -> None:
    previous = 0.0
    for caught in range(0, 200, 5):
        bound = hidden_wrong_bound(caught, 0.1, 0.05)
        assert bound > max(previous, caught * 9)
        previous = bound


@pytest.mark.parametrize(
    ("labelled", "wrong", "delta"), [(3, 4, 0.1), (3, -1, 0.1), (3, 1, 0.0), (3, 1, 1.0)]
)
def test_impossible_counts_are_refused_by_name(labelled: int, wrong: int, delta: float) -> None:
    with pytest.raises(ValueError, match=r"delta is|impossible"):
        log_evidence(labelled, wrong, delta)


def test_an_audit_share_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"audit_share 0\.0"):
        hidden_wrong_bound(0, 0.0, 0.05)
