"""What a person types is words, whatever it looks like."""

from __future__ import annotations

from store.typed import Typed, typed


def test_all_words_the_last_one_as_a_beginning_and_quoted_parts_as_they_stand() -> None:
    assert typed("list hidden fil") == Typed(("list", "hidden", "fil"), True)
    assert typed('the "hidden files" ') == Typed(("the", "hidden files"), False)
    assert typed(' "" -- * ').parts == ()
    assert len(typed("a " * 50).parts) == 12
