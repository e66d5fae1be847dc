"""Settings of end users: the persons behind a client's requests."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from understudy.settings.group import Settings

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_MOST = 10
_TAKEN = frozenset(
    {"authorization", "api-key", "x-api-key", "content-type", "content-length", "transfer-encoding"}
)


class UsersSettings(Settings):
    """How requests name their end users, whose memory `memory.partition` keeps apart."""

    sources: tuple[str, ...] = Field(
        ("x-understudy-user", "safety_identifier", "user"),
        alias="from",
        description="Where a request names its end user; the first found counts: a header (has a hyphen), a field of the "
        "body, or of an object in it. `metadata.user_id` is Anthropic's, where Claude Code puts a session.",
    )
    required: bool = Field(
        False, description="Whether a request with a gateway key that names none is refused (400)."
    )

    @field_validator("sources")
    @classmethod
    def _are_names(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        if not 0 < len(sources) <= _MOST:
            raise ValueError(
                f"has {len(sources)} entries; 1 to {_MOST} are right, such as x-understudy-user, user"
            )
        if len(set(sources)) < len(sources):
            raise ValueError("names a source twice")
        for name in sources:
            if not _NAME.fullmatch(name) or name.count(".") > 1 or name.lower() in _TAKEN:
                raise ValueError(
                    f"has {name[:60]!r}: a header such as x-understudy-user, or a field such as user or metadata.user_id, is"
                    " right"
                )
        return sources
