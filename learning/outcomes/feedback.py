"""Reads a person's feedback on an answer from a request's body, and turns it into qualities. Knows no store and no HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from engines.errors import RequestError
from store.people.secret import derive

MAX_COMMENT_CHARACTERS = 4000
_MAX_ID_CHARACTERS = 200
_FIELDS = (
    "completion_id",
    "decision_id",
    "session_id",
    "score",
    "thumb",
    "preferred_over",
    "correction",
    "messages",
    "response_format",
    "comment",
)
_KINDS: tuple[Literal["completion", "decision", "session"], ...] = ("completion", "decision", "session")

BEATEN = 0.25
"""Quality of an answer that is only known to be worse than another.

Between the 0.5 of knowing nothing and the 0 of a thumb down: a comparison says which answer is worse, not that it is
worthless.
"""


@dataclass(frozen=True, slots=True)
class UserFeedback:
    """One person's feedback on an answer, checked."""

    id: str
    """The id of the answer, or the name of the conversation all of whose answers are meant."""
    by: Literal["completion", "decision", "session"]
    """Kind of `id`: the completion's own `id`, the gateway's decision id, or the client's name for its conversation."""
    score: float | None = None
    thumb: Literal["", "up", "down"] = ""
    preferred_over: str = ""
    """The id, of either kind, of an answer that was worse."""
    correction: str = ""
    """The answer as it should have been."""
    comment: str = ""

    def qualities(self) -> dict[str, float]:
        """The answer's quality, 0 to 1, by the kind of feedback it follows from; empty for a mere comment."""
        found: dict[str, float] = {}
        if self.score is not None:
            found["score"] = self.score
        if self.thumb:
            found["thumb"] = 1.0 if self.thumb == "up" else 0.0
        # A score or a thumb states the quality more exactly than what follows from a comparison.
        if self.correction and not found:
            # A person who writes a better answer found this one worse.
            found["corrected"] = BEATEN
        if self.preferred_over and not found:
            found["preferred"] = 1.0
        return found

    def says_wrong(self) -> bool:
        """Tell if the answer must not be given again."""
        return bool(self.correction) or any(quality < 0.5 for quality in self.qualities().values())

    def beaten(self) -> float:
        """The quality of the answer that was worse: never more than that of the better one."""
        return min((BEATEN, *self.qualities().values()))

    def digest(self, secret: bytes) -> str:
        """An opaque digest of the whole feedback."""
        parts = [self.id, self.by, self.score, self.thumb, self.preferred_over, self.correction, self.comment]
        return derive(secret, "content of feedback", orjson.dumps(parts).decode())[:32]


def read_feedback(fields: dict[str, Any]) -> UserFeedback:
    """Checks a request body. Raises RequestError naming the field at fault; unknown fields are faults too."""
    unknown = sorted(set(fields) - set(_FIELDS))
    if unknown:
        raise RequestError(
            f"Unknown field '{unknown[0][:60]}'. Known: {', '.join(_FIELDS)}.",
            code="unknown_parameter",
            param=unknown[0][:60],
        )
    named = {kind: id for kind in _KINDS if (id := _id(fields, f"{kind}_id"))}
    if len(named) != 1:
        raise RequestError(
            "Say which answer is meant: either completion_id (its own id) or decision_id (x-understudy-decision-id), or"
            " session_id for all answers of a conversation.",
            code="missing_required_parameter",
            param="completion_id",
        )
    ((by, id),) = named.items()
    feedback = UserFeedback(
        id,
        by,
        _score(fields.get("score")),
        _thumb(fields.get("thumb")),
        _id(fields, "preferred_over"),
        _text(fields, "correction"),
        _text(fields, "comment"),
    )
    if len(feedback.comment) > MAX_COMMENT_CHARACTERS:
        raise RequestError(
            f"'comment' has {len(feedback.comment)} characters; at most {MAX_COMMENT_CHARACTERS} are kept.",
            code="comment_too_long",
            param="comment",
        )
    if not feedback.qualities() and not feedback.comment:
        raise RequestError(
            "Nothing is said of the answer: send a score, thumb, preferred_over, correction or comment.",
            code="missing_required_parameter",
            param="score",
        )
    if by == "session" and (feedback.preferred_over or feedback.correction):
        param = "correction" if feedback.correction else "preferred_over"
        raise RequestError(
            f"'{param}' is about one answer: name it by its completion_id or decision_id, not by a session_id.",
            code="invalid_value",
            param=param,
        )
    if feedback.preferred_over == feedback.id:
        raise _wrong("preferred_over", "another answer than the one that is preferred")
    for name in ("messages", "response_format"):
        if name in fields and not feedback.correction:
            raise RequestError(
                f"'{name}' belongs to a correction, and there is none.", code="invalid_value", param=name
            )
    return feedback


def _id(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not 1 <= len(value) <= _MAX_ID_CHARACTERS:
        raise _wrong(name, f"a string of 1 to {_MAX_ID_CHARACTERS} characters")
    return _whole(value, name)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise _wrong(name, "a string with something in it")
    return _whole(value, name)


def _whole(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(name, "text: half of a surrogate pair is none") from None
    return value


def _score(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("score", "a number from 0 to 1")
    if not 0 <= value <= 1:
        raise _wrong("score", "from 0 to 1")
    return float(value)


def _thumb(value: Any) -> Literal["", "up", "down"]:
    if value is None:
        return ""
    if value == "up":
        return "up"
    if value == "down":
        return "down"
    raise _wrong("thumb", '"up" or "down"')


def _wrong(param: str, wanted: str) -> RequestError:
    return RequestError(f"'{param}' must be {wanted}.", code="invalid_value", param=param)
