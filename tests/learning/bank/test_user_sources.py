"""Where a request names its end user, and that a hundred thousand of them are so many names."""

from __future__ import annotations

from typing import Any

import pytest

from learning.bank.contributor import EndUsers, UserSources
from router.asked import Arrival

USUAL = UserSources()
ANTHROPIC = UserSources(("x-understudy-user", "metadata.user_id", "user"))


@pytest.mark.parametrize(
    ("sources", "headers", "fields", "user"),
    [
        (USUAL, {"x-understudy-user": "h"}, {"safety_identifier": "s", "user": "u"}, "h"),
        (USUAL, {}, {"safety_identifier": "s", "user": "u"}, "s"),
        (USUAL, {}, {"safety_identifier": ["s"], "user": "u"}, "u"),
        (USUAL, {}, {"user": ["u"]}, ""),
        (USUAL, {}, {"user": {"id": "u"}}, ""),
        (USUAL, {}, {"metadata": {"user_id": "m"}}, ""),
        (ANTHROPIC, {}, {"metadata": {"user_id": "m"}, "user": "u"}, "m"),
        (ANTHROPIC, {}, {"metadata": "m", "user": "u"}, "u"),
        (ANTHROPIC, {}, {"metadata": {"user_id": 7}}, ""),
        (UserSources(("user",)), {"x-understudy-user": "h"}, {}, ""),
    ],
)
def test_the_first_source_that_names_somebody_counts(
    sources: UserSources, headers: dict[str, str], fields: dict[str, Any], user: str
) -> None:
    assert sources.user(headers, fields) == user


def test_a_key_or_tenant_says_whether_users_are_kept_apart() -> None:
    ends = EndUsers(b"s" * 32, apart=True)
    arrivals = [Arrival("1", 0.0, 0.0, partition=partition) for partition in ("", "user", "tenant")]
    assert [ends.keeps_apart(one) for one in arrivals] == [True, True, False]
    assert [bool(ends.behind(one, {}, {"user": "ann"}).end_user) for one in arrivals] == [True, True, False]
    assert len({ends.behind(one, {}, {"user": "ann"}).contributor for one in arrivals}) == 1


def test_users_are_as_many_as_they_are_and_of_one_length() -> None:
    ends = EndUsers(b"s" * 32, apart=True)
    names = {ends.digest("acme", f"user-{number}") for number in range(100_000)} | {
        ends.digest("acme", "u" * 2**20)
    }
    assert len(names) == 100_001 and {len(name) for name in names} == {24}
