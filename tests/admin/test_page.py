"""Parameters of pages: read strictly, refused by name."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from admin.page import Asked, BadParameter, Viewer
from admin.roles import Role
from tests.admin.site import site
from tests.store.rows import new_example


def asked(**query: str) -> Asked:
    return Asked(Viewer("ann", Role.VIEWER), 0.0, {}, query)


def test_parameters_have_defaults_and_bounds() -> None:
    assert asked().choice("span", ("hour", "day"), "hour") == "hour"
    assert asked(n=" 7 ").whole("n", 1) == 7
    assert asked().number("n", None, least=0, most=1) is None


@pytest.mark.parametrize("value", ["x", "nan", "inf", "-1", "1.5", "9" * 30])
def test_a_number_that_is_none_is_refused_by_name(value: str) -> None:
    with pytest.raises(BadParameter, match=r"^n is "):
        asked(n=value).whole("n", 1, most=10)


def test_a_text_has_a_longest_length() -> None:
    with pytest.raises(BadParameter, match=r"^q has 2001"):
        asked(q="x" * 2001).text("q")


@pytest.mark.parametrize(
    "value", ["x", "nan", "2026-13-01T00:00", "10:00", "0001-01-01T00:00+23:59", "\u202e"]
)
def test_what_is_no_time_is_refused_by_name(value: str) -> None:
    with pytest.raises(BadParameter) as refused:
        asked(since=value).time("since")
    assert refused.value.field == "since"


def test_a_time_is_read_in_the_pages_zone() -> None:
    there = replace(asked(since="1970-01-01T05:30", z="1970-01-01T00:00Z"), zone=ZoneInfo("Asia/Kolkata"))
    assert there.time("since") == 0 and there.time("z") == 0 and there.time("missing") is None


def test_a_parameter_may_be_there_several_times() -> None:
    several = replace(asked(id="2"), lists={"id": ("1", " 2", "1", "")})
    assert several.many("id") == ["1", "2"] and several.many("none") == []
    assert asked(id="2").many("id") == ["2"]
    with pytest.raises(BadParameter, match=r"^id has 2 values"):
        several.many("id", most=1)


@pytest.mark.parametrize("path", ["/router?model=demo", "/examples-map?colour=age", "/tasks?span=day"])
async def test_a_tab_keeps_what_else_was_chosen(tmp_path: Path, path: str) -> None:
    async with site(tmp_path) as here:
        here.sources.store.examples.add(new_example(1, "a1")).result(30)
        page = (await (await here.person("viewer")).get(path)).text
    tabs = re.findall(r'<nav class="tabs".*?</nav>', page, re.DOTALL)
    links = [html.unescape(link) for tab in tabs for link in re.findall(r'href="([^"]*)"', tab)]
    assert links and not any("&amp" in link for link in links), links
