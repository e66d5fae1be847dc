"""What is cut is said, and what is left can be kept."""

from __future__ import annotations

import orjson
import pytest

from gateway.keepers.clipping import Clip


def test_what_fits_stays_as_it_is() -> None:
    value = {"a": [1, 2.5, None, True, "x"], "b": {"c": "y"}}
    clip = Clip(100)
    assert clip.of(value) == value and clip.left_out == 0 and clip.left == 98


def test_what_does_not_fit_is_cut_between_words_and_counted() -> None:
    clip = Clip(12)
    assert clip.of({"a": "one two three four", "b": "five"}) == {"a": "one two", "b": "five"}
    assert clip.left_out == len("one two three four") - len("one two")
    assert Clip(0).text("abc") == ""


@pytest.mark.parametrize("picture", ["data:image/png;base64," + "A" * 5000, "QUJD" * 2000])
def test_of_a_picture_only_the_beginning_is_kept(picture: str) -> None:
    clip = Clip(10_000)
    assert len(clip.text(picture)) == 60 and clip.left_out == len(picture) - 60


def test_what_no_json_holds_is_a_text_and_depth_has_an_end() -> None:
    deep: list[object] = ["deepest"]
    for _ in range(200):
        deep = [deep]
    clip = Clip(1000)
    kept = clip.of({"big": 2**70, "half": "\ud83d", "nul": "a\0b", "deep": deep, "\ud83d": 1})
    assert kept["big"] == str(2**70) and kept["half"] == "?" and kept["nul"] == "a\ufffdb"
    assert clip.left_out == len("deepest")
    assert orjson.dumps(kept)


def test_of_very_many_values_only_some_are_looked_at() -> None:
    clip = Clip(10**6)
    kept = clip.of({f"k{n}": [1, 2, 3] for n in range(20_000)})
    assert len(kept) < 5_000 and clip.left_out >= 15_000
