"""Where a conversation goes: the same in every worker, by weight, and only what must move moves."""

from __future__ import annotations

from collections import Counter

from engines.servers.sessions import Places, home, named_key


def test_homes_are_shares_by_weight_and_only_those_of_a_lost_replica_move() -> None:
    weights = {"a:1": 1.0, "b:1": 2.0, "c:1": 1.0}
    keys = [named_key("t", f"session {number}") for number in range(4000)]
    homes = {key: home(key, weights) for key in keys}
    shares = Counter(homes.values())
    assert 0.45 < shares["b:1"] / len(keys) < 0.55 and shares["a:1"] > 800 and shares["c:1"] > 800
    left = {name: weight for name, weight in weights.items() if name != "b:1"}
    for key, was in homes.items():
        assert home(key, left) == was or was == "b:1"


def test_names_are_each_tenants_own() -> None:
    assert named_key("a", "s") != named_key("b", "s") and named_key("a", "bs") != named_key("ab", "s")


def test_the_latest_used_are_held() -> None:
    places = Places(most=3)
    for number in range(3):
        places.put(b"%d" % number, "a:1")
    assert places.get(b"0") == "a:1"
    places.put(b"3", "b:1")
    assert [places.get(b"%d" % number) for number in range(4)] == ["a:1", None, "a:1", "b:1"] and len(
        places
    ) == 3
