"""Grants between tenants: what was not granted is not readable, in no direction and by no detour."""

from __future__ import annotations

from learning.bank.sharing import lenders
from understudy.settings.sharing import Grant


def test_a_grant_goes_one_way_and_no_further() -> None:
    grants = [
        Grant.model_validate({"from": "a", "to": ["b"]}),
        Grant.model_validate({"from": "b", "to": ["c"]}),
    ]
    assert lenders(grants, lambda name: f"<{name}>") == {"<b>": ("<a>",), "<c>": ("<b>",)}


def test_an_id_is_taken_as_it_is_and_a_repeat_counts_once() -> None:
    grants = [Grant.model_validate({"from": f"id:{'0' * 32}", "to": ["b", "b"]})] * 2
    assert lenders(grants, str.upper) == {"B": ("0" * 32,)}
