"""The endpoint of feedback."""

from __future__ import annotations

from gateway.endpoints.feedback import Feedback
from gateway.limits.feedback_rate import FeedbackRate
from understudy.built import Built
from understudy.setup.outcomes import feedback_intake, known_quality

_FEEDBACK_BYTES = 256 * 1024
"""Largest body of feedback: a correction that fits an example is far smaller."""


def add_to(built: Built) -> None:
    """Take feedback on what was answered."""
    memory, end_users = built.remembered, built.end_users
    assert end_users is not None
    intake = feedback_intake(
        memory,
        built.example_store(),
        apart=end_users.apart,
        known=known_quality(memory.store, built.config),
        told=built.told,
    )
    rate = FeedbackRate(built.config.feedback.advanced.per_minute)
    handler = Feedback(intake, rate, end_users, max_json_bytes=_FEEDBACK_BYTES)
    built.endpoints["POST", "/feedback"] = handler
