"""Directives of requests and of answers, in all lines and all spellings."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from gateway.cache_control import NOTHING_SAID, CacheControl, cache_control, pragma_no_cache


def read(*lines: str) -> CacheControl:
    return cache_control(CIMultiDict([("cache-control", line) for line in lines]))


def test_no_line_says_nothing() -> None:
    assert read() is NOTHING_SAID


@pytest.mark.parametrize(
    "lines",
    [
        ["no-store"],
        ["max-age=0", "NO-STORE"],
        ["", "no-store"],
        [" ,,\tno-store ,"],
        ["no-store=1"],
        ['no-cache="set-cookie, x", no-store'],
    ],
)
def test_all_lines_are_one_list(lines: list[str]) -> None:
    assert read(*lines).no_store


@pytest.mark.parametrize(
    "line", ["no-store;q=1", 'foo="bar', "a b", "max-age=", "max-age=soon", "é", "=1", 'a="b"c']
)
def test_what_cannot_be_read_errs_towards_not_storing(line: str) -> None:
    assert read(line).no_store
    assert read("no-cache", line).no_store


@pytest.mark.parametrize(
    "line", ["", 'foo="x, no-store"', 'foo="\\", no-store, \\""', "x-no-store", "max-age=60"]
)
def test_what_only_looks_like_it_is_no_directive(line: str) -> None:
    assert read(line) == CacheControl()


@pytest.mark.parametrize("line", ["max-age=0", 'Max-Age="0"', "max-age=60, max-age=00", "s-maxage=0"])
def test_an_age_of_nothing_is_seen(line: str) -> None:
    said = read(line)
    assert said.none_of_it_fresh and not said.no_store


@pytest.mark.parametrize(
    "line", ["no-store", "private", 'private="set-cookie"', "max-age=0", "public, s-maxage=0"]
)
def test_what_forbids_a_replay(line: str) -> None:
    assert read(line).forbids_replay


@pytest.mark.parametrize("line", ["no-cache", "public, max-age=60", "must-revalidate"])
def test_what_does_not(line: str) -> None:
    assert not read(line).forbids_replay


def test_pragma_is_a_list_too() -> None:
    assert pragma_no_cache(CIMultiDict({"pragma": "x, No-Cache"}))
    assert not pragma_no_cache(CIMultiDict({"pragma": "no-cache-please"}))


def test_a_megabyte_of_quotes_is_read_in_no_time() -> None:
    assert read('"' * 2**20).no_store
    assert read("a=" + '"' + "\\x" * 2**19).no_store
