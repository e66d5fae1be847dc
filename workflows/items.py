"""Items of a list that a model is still writing: each is told when its end is seen.

The same parser makes the final list, so what was told early is always a beginning of it.
"""

from __future__ import annotations

from workflows.definition import Splits
from workflows.transform import TransformFailed


class Items:
    """Reads an answer piece by piece. Time is linear in the text, however it is cut into pieces.

    `json`: the texts of the first JSON array, from the first `[` on; whatever stands before and after it (a fence, a
    sentence) is passed over. A text's item is the text, anything else its JSON. `lines`: lines that are not blank, without
    white space around them. `regex`: group 1 of each match of RE2, else the match; those that end before the last line break
    are told early.
    """

    def __init__(self, splits: Splits, max_items: int | None = None) -> None:
        """With more than `max_items` the list fails."""
        raise NotImplementedError

    def feed(self, text: str) -> list[str]:
        """The items whose end was seen with this piece. Nothing more is told once the list cannot be right any more."""
        raise NotImplementedError

    def close(self) -> list[str]:
        """All items, at the answer's end. Raises TransformFailed: no list, a list that breaks off, too many items."""
        raise TransformFailed("not yet")


def split(splits: Splits, text: str, max_items: int | None = None) -> list[str]:
    """The list of a whole answer. Raises TransformFailed."""
    items = Items(splits, max_items)
    items.feed(text)
    return items.close()
