from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.people.limits import PERIODS, UNLIMITED, Budget, Limits
from store.validating import read, what_differs

GLOBS = st.lists(st.text("abc-*/0123", min_size=1, max_size=20), max_size=5).map(tuple)
COUNTS = st.none() | st.integers(1, 10**12)
BUDGETS = st.lists(
    st.builds(Budget, st.floats(0, 1e9), st.sampled_from(PERIODS)), max_size=4, unique_by=lambda b: b.per
)
LIMITS = st.builds(
    Limits,
    models=GLOBS,
    endpoints=GLOBS.map(lambda globs: tuple("/" + glob for glob in globs)),
    requests_per_minute=COUNTS,
    tokens_per_minute=COUNTS,
    concurrency=COUNTS,
    max_output_tokens=COUNTS,
    budgets=BUDGETS.map(tuple),
    time_zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    allow_unpriced=st.booleans(),
    components=GLOBS,
)


@settings(max_examples=30)
@given(LIMITS)
def test_what_is_written_is_read_again(limits: Limits) -> None:
    assert read(Limits, json.loads(json.dumps(what_differs(limits)))) == limits


def test_nothing_said_is_no_limit() -> None:
    assert read(Limits, {}) == UNLIMITED and what_differs(UNLIMITED) == {}


LONG = "x" * 2**20


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"budgets": [{"usd": -1, "per": "day"}]}, "budgets[0].usd is -1"),
        ({"budgets": [{"usd": float("nan"), "per": "day"}]}, "budgets[0].usd is nan"),
        ({"budgets": [{"usd": 1e309, "per": "day"}]}, "budgets[0].usd is inf"),
        ({"budgets": [{"usd": 10**400, "per": "day"}]}, "budgets[0].usd is a number of more than 20 digits"),
        ({"budgets": [{"usd": "5", "per": "day"}]}, "budgets[0].usd is '5'"),
        ({"budgets": [{"usd": True, "per": "day"}]}, "budgets[0].usd is True"),
        ({"budgets": [{"usd": 1, "per": "year"}]}, "budgets[0].per is 'year'"),
        ({"budgets": [{"usd": 1, "per": ["day"]}]}, "budgets[0].per is ['day']"),
        ({"budgets": [{"usd": 1}]}, "budgets[0] has no per"),
        ({"budgets": [{"usd": 1, "per": "day"}] * 2}, "budgets has two of the same period"),
        ({"budgets": {"usd": 1}}, "budgets is {'usd': 1}; a list"),
        ({"models": [""]}, "models[0] is ''"),
        ({"models": [LONG]}, "models[0] is 'xxx"),
        ({"models": [7]}, "models[0] is 7"),
        ({"models": "gpt-4"}, "models is 'gpt-4'; a list"),
        ({"models": ["a"] * 1000}, "models has 1000 entries"),
        ({"endpoints": ["chat"]}, "endpoints[0] is 'chat'"),
        ({"requests_per_minute": 0}, "requests_per_minute is 0"),
        ({"tokens_per_minute": 1.5}, "tokens_per_minute is 1.5"),
        ({"concurrency": True}, "concurrency is True"),
        ({"max_output_tokens": 10**400}, "max_output_tokens is a number of more"),
        ({"time_zone": "Mars/Olympus"}, "time_zone is 'Mars"),
        ({"time_zone": "../../etc/passwd"}, "time_zone is '../"),
        ({"time_zone": LONG}, "time_zone is 'xxx"),
        ({"allow_unpriced": 1}, "allow_unpriced is 1"),
        ({LONG: 1}, "there is 'xxx"),
        ([], "this is []"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_right_is_refused_by_name_and_shortly(wrong: Any, told: str) -> None:
    with pytest.raises(ValueError) as refused:
        read(Limits, wrong)
    assert told in str(refused.value) and len(str(refused.value)) < 500
