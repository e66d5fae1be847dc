from __future__ import annotations

from gateway.limits.feedback_rate import FeedbackRate


def test_one_giver_is_held_back_and_the_others_are_not() -> None:
    rate = FeedbackRate(1000)
    taken = [rate.take("a1/key_1") for _ in range(3000)]
    # The window may turn once on the way; then at most two windows' worth are allowed.
    assert 1000 <= sum(one.allowed for one in taken) <= 2000
    refused = next(one for one in taken if not one.allowed)
    assert 1.0 <= refused.retry_after_s <= 60.0
    assert rate.take("a1/key_2").allowed and rate.take("b2/key_1").allowed
