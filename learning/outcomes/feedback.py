"""What a person may say of an answer: read from a request's body, and turned into qualities. Knows no store and no HTTP."""

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
    "score",
    "thumb",
    "preferred_over",
    "correction",
    "messages",
    "response_format",
    "comment",
)

BEATEN = 0.25
"""The quality of an answer of which is known only that another one was better.

Less than the 0.5 of knowing nothing, and more than the 0 of a thumb down: whoever compares two answers has said which is
worse, not that it is worthless. Halfway between the two.
"""


@dataclass(frozen=True, slots=True)
class Said:
    """One feedback, checked."""

    id: str
    """Of the answer it is about."""
    by: Literal["completion", "decision"]
    """What `id` is: the completion's own `id`, or the gateway's decision id."""
    score: float | None = None
    thumb: Literal["", "up", "down"] = ""
    preferred_over: str = ""
    """Either kind of id of the answer that was worse."""
    correction: str = ""
    """What the answer should have been."""
    comment: str = ""

    def qualities(self) -> dict[str, float]:
        """What this says of the answer's quality, 0 to 1, by how it was said; empty when it says nothing of that kind."""
        found: dict[str, float] = {}
        if self.score is not None:
            found["score"] = self.score
        if self.thumb:
            found["thumb"] = 1.0 if self.thumb == "up" else 0.0
        # A score or a thumb says more exactly how good it was than what follows from a comparison.
        if self.correction and not found:
            # Somebody took the trouble to write a better one.
            found["corrected"] = BEATEN
        if self.preferred_over and not found:
            found["preferred"] = 1.0
        return found

    def beaten(self) -> float:
        """What this says of the quality of the answer that was worse: never more than of the better one."""
        return min((BEATEN, *self.qualities().values()))

    def digest(self, secret: bytes) -> str:
        """A name for everything that is said here, telling nothing of it without the secret."""
        parts = [self.id, self.by, self.score, self.thumb, self.preferred_over, self.correction, self.comment]
        return derive(secret, "content of feedback", orjson.dumps(parts).decode())[:32]


def read_feedback(fields: dict[str, Any]) -> Said:
    """Check a body. Raises RequestError that names the field at fault; other fields than ours are faults, too."""
    unknown = sorted(set(fields) - set(_FIELDS))
    if unknown:
        raise RequestError(
            f"Unknown field '{unknown[0][:60]}'. Known: {', '.join(_FIELDS)}.",
            code="unknown_parameter",
            param=unknown[0][:60],
        )
    completion, decision = _id(fields, "completion_id"), _id(fields, "decision_id")
    if bool(completion) == bool(decision):
        raise RequestError(
            "Say which answer is meant: either completion_id (its own id) or decision_id (x-understudy-decision-id).",
            code="missing_required_parameter",
            param="completion_id",
        )
    said = Said(
        completion or decision,
        "completion" if completion else "decision",
        _score(fields.get("score")),
        _thumb(fields.get("thumb")),
        _id(fields, "preferred_over"),
        _text(fields, "correction"),
        _text(fields, "comment"),
    )
    if len(said.comment) > MAX_COMMENT_CHARACTERS:
        raise RequestError(
            f"'comment' has {len(said.comment)} characters; at most {MAX_COMMENT_CHARACTERS} are kept.",
            code="comment_too_long",
            param="comment",
        )
    if not said.qualities() and not said.comment:
        raise RequestError(
            "Nothing is said of the answer: send a score, thumb, preferred_over, correction or comment.",
            code="missing_required_parameter",
            param="score",
        )
    if said.preferred_over == said.id:
        raise _wrong("preferred_over", "another answer than the one that is preferred")
    for name in ("messages", "response_format"):
        if name in fields and not said.correction:
            raise RequestError(
                f"'{name}' belongs to a correction, and there is none.", code="invalid_value", param=name
            )
    return said


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
