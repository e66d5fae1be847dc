"""Names before wildcards, the narrower wildcard before the wider, and no wildcard by its own name alone."""

from __future__ import annotations

from router.model_names import ByModelName, is_wildcard, plain_names


def test_the_nearest_that_fits_counts() -> None:
    names = ByModelName({"*": 1, "gpt-*": 2, "gpt-4*": 3, "gpt-4o": 4, "o?": 5})
    found = [names.get(name) for name in ("gpt-4o", "gpt-4o-mini", "gpt-5", "o3", "claude", "gpt-*")]
    assert found == [4, 3, 2, 5, 1, 2]
    assert "anything" in names and "x" * 300 not in names
    assert list(names) == ["*", "gpt-*", "gpt-4*", "gpt-4o", "o?"] and len(names) == 5


def test_without_wildcards_a_name_is_itself() -> None:
    names = ByModelName({"gpt-4o": 4})
    assert "gpt-4o" in names and "gpt-4" not in names and 7 not in names
    assert plain_names(["a", "b*", "c?"]) == ["a"] and is_wildcard("b*")
