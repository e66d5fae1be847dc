"""What counts as feedback, what is refused and with which name, and what it says of quality."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.errors import RequestError
from learning.outcomes.feedback import BEATEN, MAX_COMMENT_CHARACTERS, UserFeedback, read_feedback

SECRET = b"s" * 32


@pytest.mark.parametrize(
    ("body", "qualities"),
    [
        ({"score": 0.3}, {"score": 0.3}),
        ({"score": 1}, {"score": 1.0}),
        ({"thumb": "up"}, {"thumb": 1.0}),
        ({"thumb": "down"}, {"thumb": 0.0}),
        ({"preferred_over": "chatcmpl-2"}, {"preferred": 1.0}),
        ({"preferred_over": "chatcmpl-2", "thumb": "down"}, {"thumb": 0.0}),
        ({"preferred_over": "chatcmpl-2", "correction": "Better."}, {"corrected": BEATEN}),
        ({"correction": "Better."}, {"corrected": BEATEN}),
        ({"correction": "Better.", "messages": [], "score": 0.5}, {"score": 0.5}),
        ({"comment": "Hm."}, {}),
        ({"score": None, "thumb": "up", "comment": None}, {"thumb": 1.0}),
        ({"score": 0, "thumb": "up"}, {"score": 0.0, "thumb": 1.0}),
    ],
)
def test_what_is_said_says_this_of_quality(body: dict[str, Any], qualities: dict[str, float]) -> None:
    assert read_feedback({"completion_id": "chatcmpl-1"} | body).qualities() == qualities


@given(st.none() | st.floats(0, 1), st.sampled_from(["", "up", "down"]), st.sampled_from(["", "Better."]))
def test_the_worse_of_two_answers_is_never_called_the_better_one(
    score: float | None, thumb: Any, correction: str
) -> None:
    said = UserFeedback("a", "decision", score, thumb, preferred_over="b", correction=correction)
    assert said.beaten() <= min(said.qualities().values())


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "completion_id"),
        ({"score": 1}, "completion_id"),
        ({"completion_id": "a", "decision_id": "b", "score": 1}, "completion_id"),
        ({"completion_id": "", "score": 1}, "completion_id"),
        ({"completion_id": "a" * 201, "score": 1}, "completion_id"),
        ({"completion_id": 5, "score": 1}, "completion_id"),
        ({"completion_id": "\ud800", "score": 1}, "completion_id"),
        ({"decision_id": "a"}, "score"),
        ({"decision_id": "a", "score": 1.01}, "score"),
        ({"decision_id": "a", "score": -1}, "score"),
        ({"decision_id": "a", "score": 10**400}, "score"),
        ({"decision_id": "a", "score": float("nan")}, "score"),
        ({"decision_id": "a", "score": True}, "score"),
        ({"decision_id": "a", "score": "1"}, "score"),
        ({"decision_id": "a", "thumb": "sideways"}, "thumb"),
        ({"decision_id": "a", "thumb": ["up"]}, "thumb"),
        ({"decision_id": "a", "preferred_over": "a"}, "preferred_over"),
        ({"decision_id": "a", "preferred_over": {}}, "preferred_over"),
        ({"decision_id": "a", "correction": "  "}, "correction"),
        ({"decision_id": "a", "correction": 5}, "correction"),
        ({"decision_id": "a", "comment": "x" * (MAX_COMMENT_CHARACTERS + 1)}, "comment"),
        ({"decision_id": "a", "comment": "\udc00"}, "comment"),
        ({"decision_id": "a", "score": 1, "messages": []}, "messages"),
        ({"decision_id": "a", "score": 1, "response_format": {}}, "response_format"),
        ({"decision_id": "a", "score": 1, "rating": 5}, "rating"),
    ],
)
def test_what_is_no_feedback_is_refused_by_the_name_of_its_field(body: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        read_feedback(body)
    assert (refused.value.status, refused.value.param) == (400, param)


@given(
    st.dictionaries(
        st.sampled_from(["completion_id", "decision_id", "score", "thumb", "preferred_over", "comment", "x"]),
        st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.lists(st.none(), max_size=1),
    )
)
def test_no_body_is_ever_more_than_feedback_or_a_refusal(body: dict[str, Any]) -> None:
    try:
        said = read_feedback(body)
    except RequestError as refused:
        assert refused.status == 400
    else:
        assert said.qualities() or said.comment
        assert all(0 <= quality <= 1 for quality in said.qualities().values())


def test_a_digest_tells_feedback_apart_and_tells_nothing_of_it() -> None:
    said = [
        UserFeedback("a", "decision", comment="b"),
        UserFeedback("a", "completion", comment="b"),
        UserFeedback("ab", "decision"),
        UserFeedback("a", "decision", correction="b"),
        UserFeedback("a", "decision", score=0.0),
        UserFeedback("a", "decision"),
    ]
    digests = [each.digest(SECRET) for each in said]
    assert len(set(digests)) == len(said)
    assert digests[0] == UserFeedback("a", "decision", comment="b").digest(SECRET)
    assert digests[0] != said[0].digest(b"t" * 32)
