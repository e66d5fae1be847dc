"""A sentence for the next page."""

from __future__ import annotations

from admin.flashes import Flashes


def test_a_sentence_is_said_once_and_to_nobody_else() -> None:
    said = Flashes()
    said.put("mine", "Done.")
    assert said.take("another") == ""
    assert said.take("mine") == "Done." and said.take("mine") == ""
