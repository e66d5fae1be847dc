"""Invisible characters: shown where a text is read, untouched where a browser sends it back."""

from __future__ import annotations

import json

import orjson
import pytest

from admin.invisible import escaped, escaped_ascii_json, escaped_html, escaped_json
from admin.rendering import as_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u202eevil\u202c", "\\u202eevil\\u202c"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("a\x1b[31mb\x9b", "a\\x1b[31mb\\x9b"),
        ("pass\u200dword", "pass\\u200dword"),
        ("\U000e0041", "\\U000e0041"),
        ("lines\nand\ttabs\r\n", "lines\nand\ttabs\r\n"),
        ("12\u202f345 \u00e4 \u4e2d", "12\u202f345 \u00e4 \u4e2d"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
        ("\u0645\u06cc\u200c\u062e\u0648", "\u0645\u06cc\u200c\u062e\u0648"),
    ],
)
def test_what_cannot_be_seen_is_shown_and_nothing_else(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_what_a_browser_sends_back_stays_as_it_is() -> None:
    page = (
        '<p title="\u202eb">a\u202e</p><input name="x" value="\u202e" placeholder="\u202e">'
        '<a href="/x?q=\u202e">l</a><textarea name="y">kept \u202e</textarea><b>\u202e</b>'
    )
    assert escaped_html(page) == (
        '<p title="\\u202eb">a\\u202e</p><input name="x" value="\u202e" placeholder="\\u202e">'
        '<a href="/x?q=\u202e">l</a><textarea name="y">kept \u202e</textarea><b>\\u202e</b>'
    )


@pytest.mark.parametrize("text", ["\u202e", "\x9b\x7f", "\U000e0041 \U0001f600", '"\u2028\\', "plain \u00e4"])
def test_json_shows_them_and_says_the_same(text: str) -> None:
    data = as_json({text: [text]})
    assert orjson.loads(data) == {text: [text]}
    assert not set(data.decode()) & set("\u202e\x9b\u2028\U000e0041")
    assert escaped_json(b'"ascii"') == b'"ascii"'


@pytest.mark.parametrize("text", ["\u202e", "\x1b", "\U000e0041", "\\\\u202e", "\\u202e", "plain \u00e4"])
def test_a_charts_text_has_them_as_escapes(text: str) -> None:
    shown = json.loads(escaped_ascii_json(json.dumps([text])))[0]
    assert not set(shown) & set("\u202e\x1b\U000e0041")
    if not set(text) & set("\u202e\x1b\U000e0041"):
        assert shown == text
