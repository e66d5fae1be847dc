"""Columns of an input are the same in every process, of fixed length, and there for every text."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.tasks.features import COLUMNS, TRIGRAMS, hashed


@given(st.text(max_size=60))
def test_every_text_has_columns_in_order_and_of_bounded_length(text: str) -> None:
    found = hashed(text)
    assert len(found.columns) == len(found.values) > 0 and len(found.trigrams) > 0
    assert (np.diff(found.columns) > 0).all() and found.columns[0] >= 0 and found.columns[-1] < COLUMNS
    assert found.trigrams.min() >= 0 and found.trigrams.max() < TRIGRAMS
    assert 0.48 < float(found.values @ found.values) < 0.99


def test_another_process_hashes_the_same() -> None:
    text = "Wo ist mein Paket? 荷物はどこ"
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            f"from router.tasks.features import hashed; print(hashed({text!r}).columns.tolist())",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={
            "PYTHONHASHSEED": "7",
            "PYTHONPATH": ":".join(p for p in sys.path if p),
            "PYTHONIOENCODING": "utf-8",
        },
    )
    assert said.stdout.strip() == str(hashed(text).columns.tolist())


def test_case_and_spaces_make_no_difference_and_the_order_of_words_does() -> None:
    assert hashed("Refund  ME").columns.tolist() == hashed("refund me").columns.tolist()
    assert hashed("dog bites man").columns.tolist() != hashed("man bites dog").columns.tolist()


@pytest.mark.parametrize("text", ["x" * 100_000, "word " * 50_000])
def test_a_long_text_is_read_at_both_ends(text: str) -> None:
    assert hashed(text + " the end").columns.tolist() != hashed(text + " no more").columns.tolist()
    assert len(hashed(text).trigrams) < 2100
