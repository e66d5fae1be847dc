"""Who may see and do what. The one place where content is given or withheld, for HTML and JSON alike.

A summary wraps whatever somebody wrote (prompts, answers, examples) in `Content`. It cannot be shown as it is: `revealed`
turns it into text for those who may read it and into None for others, before a page is rendered and before JSON is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Role(Enum):
    """What a person may do on the admin pages; each may do what the one before may."""

    VIEWER = "viewer"
    """Figures, without anybody's words."""
    VIEWER_CONTENT = "viewer-content"
    """Prompts, answers and examples, too."""
    OPERATOR = "operator"
    """And change things."""

    @property
    def rank(self) -> int:
        """0, 1, 2."""
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
    """What somebody wrote, or a model answered. Whoever forgets to reveal it shows nothing: it has no text of its own."""

    value: Any
    """A string, or JSON that holds strings, such as messages."""

    def __repr__(self) -> str:
        return "<content>"


def revealed(summary: Any, role: Role) -> Any:
    """A copy of a summary with every Content in it replaced: by its value for who may read it, by None for others."""
    if isinstance(summary, Content):
        return summary.value if role.reads_content else None
    if isinstance(summary, dict):
        return {key: revealed(value, role) for key, value in summary.items()}
    if isinstance(summary, list | tuple):
        return [revealed(value, role) for value in summary]
    return summary
