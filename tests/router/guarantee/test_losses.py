"""What goes out unseen hardly ever exceeds its bound, whatever the traffic does."""

from __future__ import annotations

import math
import random

import pytest

from router.guarantee.losses import Losses, most_hidden


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
                if out > most_hidden(caught, share, alpha):
                    broken += 1
                    break
    assert broken / runs <= alpha + 3 * math.sqrt(alpha / runs)


def test_a_bound_on_hidden_errors_is_never_below_what_the_audits_suggest() -> None:
    previous = 0.0
    for caught in range(0, 200, 5):
        bound = most_hidden(caught, 0.1, 0.05)
        assert bound > max(previous, caught * 9)
        previous = bound


def test_the_bound_of_all_is_that_of_the_hidden_ones_and_those_seen_and_never_more_than_all_answers() -> None:
    losses = Losses(0.1, 0.05)
    losses.add(1.0, 0.1, 5)
    assert losses.most() == pytest.approx(most_hidden(5, 0.1, 0.05) + 5)
    assert losses.most(answers=12) == 12 and losses.most(unseen=3) > losses.most()


@pytest.mark.parametrize(("share", "alpha"), [(0.0, 0.05), (1.1, 0.05), (0.1, 0.0), (0.1, 1.0)])
def test_what_is_no_probability_is_refused(share: float, alpha: float) -> None:
    with pytest.raises(ValueError, match="must lie between"):
        Losses(share, alpha)
