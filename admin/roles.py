"""Roles, and the one place where content is shown or withheld, for HTML and JSON alike.

A summary wraps whatever somebody wrote (prompts, answers, examples) in `Content`, which cannot be shown as it is: `revealed`
turns it into text for those who may read it and into None for others, before a page is rendered or JSON is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Role(Enum):
    """What a person may do on the admin pages; each role includes the one before."""

    VIEWER = "viewer"
    """Sees figures, but no texts."""
    VIEWER_CONTENT = "viewer-content"
    """Also sees prompts, answers and examples."""
    OPERATOR = "operator"
    """Also changes things."""

    @property
    def rank(self) -> int:
        """Place among the roles: 0, 1 or 2."""
        return list(Role).index(self)

    def covers(self, needed: Role) -> bool:
        """Whether this role may do what `needed` may."""
        return self.rank >= needed.rank

    @property
    def reads_content(self) -> bool:
        """Whether prompts, answers and examples may be shown."""
        return self.covers(Role.VIEWER_CONTENT)


@dataclass(frozen=True, slots=True, repr=False)
class Content:
    """A text that somebody wrote, or a model answered. It cannot be rendered unless it is revealed."""

    value: Any
    """A string, or JSON that holds strings, such as messages."""

    def __repr__(self) -> str:
        return "<content>"


def revealed(summary: Any, role: Role) -> Any:
    """A copy of a summary with every Content replaced: by its value for roles that may read it, by None for others."""
    if isinstance(summary, Content):
        return summary.value if role.reads_content else None
    if isinstance(summary, dict):
        return {key: revealed(value, role) for key, value in summary.items()}
    if isinstance(summary, list | tuple):
        return [revealed(value, role) for value in summary]
    return summary
