"""A row as a line of our export, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import orjson
import pytest

from learning.bank.importing.formats import BadLine
from learning.bank.importing.rows import line_of, row_of_export
from store.records import Account, Example
from tests.store.rows import unit_vector

EXAMPLE = Example(
    1,
    2,
    "a" * 32,
    "scope",
    "Q?",
    "A.",
    "large",
    5.0,
    7,
    8,
    "req-1",
    "v1",
    "demonstration",
    "key_1/ab",
    True,
    embedded_text="embedded",
)

ACCOUNT = asdict(Account.of(EXAMPLE))


def fields(**changes: Any) -> dict[str, Any]:
    return {**orjson.loads(line_of(EXAMPLE, "embedded", unit_vector(1))), **changes}


def test_a_row_comes_back_as_it_was() -> None:
    row = row_of_export(fields(), None).new
    for name, value in EXAMPLE._asdict().items():
        assert getattr(row, name, value) == value, name
    assert row.vector is not None and np.allclose(row.vector, unit_vector(1), atol=1e-3)
    assert row_of_export(fields(), "b" * 32).new.tenant == "b" * 32


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "../../etc"},
        {"tenant": None},
        {"kind": "odd"},
        {"vector": "AAAA"},
        {"vector": 5},
        {"vector": "not base64!"},
        {"account": {}},
        {"account": {**ACCOUNT, "quality_sum": 9.5}},
        {"account": {**ACCOUNT, "used": "much"}},
        {"created_at_s": -1},
        {"created_at_s": "now"},
        {"prompt_tokens": -1},
        {"prompt_tokens": True},
        {"contributor": None},
    ],
)
def test_a_damaged_row_is_refused_and_never_half_taken(change: dict[str, Any]) -> None:
    with pytest.raises(BadLine):
        row_of_export(fields(**change), None)
