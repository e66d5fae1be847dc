"""What nobody sees is told from what scripts and emoji need."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.admission.hidden_text import ciphers, hides, readings


@pytest.mark.parametrize(
    "text",
    [
        "pass\u200bword",
        "a\u2060b",
        "\u200b" * 4,
        "x\u202ey",
        "hi\U000e0041\U000e0042",
        "\U0001f3f4" + "\U000e0061" * 30,
        "a\ufe0f\ufe0e\ufe0f",
    ],
)
def test_invisible_text_never_passes(text: str) -> None:
    assert hides(text)


@pytest.mark.parametrize(
    "text",
    ["plain", "naïve", "می‌خواهم", "👨‍👩‍👧‍👦", "❤️ ✈️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "שלום\u200f", "ไทย\u200bภาษา", "soft\u00adhyphen"],
)
def test_what_scripts_and_emoji_need_passes(text: str) -> None:
    assert not hides(text)


@given(st.text(max_size=400))
def test_any_text_can_be_read(text: str) -> None:
    if any("\ud800" <= c <= "\udfff" for c in text):
        return
    assert isinstance(hides(text), bool)
    assert all(isinstance(reading, str) for reading in [*readings(text), *ciphers(text)])
