"""Rewording without a model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadtest.paraphrase import reword


@given(st.text(max_size=60), st.integers(1, 10_000))
def test_a_rewording_is_never_the_text_itself_and_always_the_same(text: str, variant: int) -> None:
    assert reword(text, variant) != text
    assert reword(text, variant) == reword(text, variant)


def test_some_variants_exchange_words() -> None:
    assert "describe the large house" in {reword("explain the big house", v)[-24:] for v in range(1, 17)}
