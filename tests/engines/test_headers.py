"""What travels end to end, and what stops here."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from engines.headers import (
    HOP_BY_HOP,
    ForbiddenCharacter,
    named_by_connection,
    request_headers,
    response_headers,
    without_credentials,
    without_key_parameters,
)


def pairs(*items: tuple[str, str]) -> CIMultiDict[str]:
    return CIMultiDict(list(items))


def test_repeated_headers_keep_their_order_and_their_case() -> None:
    sent = pairs(("X-One", "1"), ("x-TWO", "2"), ("X-One", "3"), ("X-Empty", ""))
    assert list(request_headers(sent).items()) == list(sent.items())
    assert list(response_headers(sent).items()) == list(sent.items())


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP))
def test_hop_by_hop_headers_stop_here(name: str) -> None:
    assert not request_headers(pairs((name.title(), "x")))
    assert not response_headers(pairs((name.upper(), "x")))


def test_host_and_expect_stop_only_on_the_way_there() -> None:
    headers = pairs(("Host", "a"), ("Expect", "100-continue"))
    assert not request_headers(headers)
    assert len(response_headers(headers)) == 2


def test_ours_never_leave_nor_come_back() -> None:
    headers = pairs(("X-Understudy-Engine", "big"), ("x-understudy-", "y"), ("x-understudies", "z"))
    assert list(request_headers(headers)) == ["x-understudies"]
    assert list(response_headers(headers)) == ["x-understudies"]


def test_whatever_connection_names_stops_here_in_every_spelling() -> None:
    headers = pairs(
        ("Connection", "close, X-Hop ,x-other"), ("Connection", "X-Third"),
        ("X-HOP", "1"), ("x-Other", "2"), ("x-third", "3"), ("X-End", "4"),
    )  # fmt: skip
    assert list(request_headers(headers)) == ["X-End"]
    assert list(response_headers(headers)) == ["X-End"]
    assert named_by_connection(["a, B", "c"]) == {"a", "b", "c"}


def test_a_request_value_is_sent_on_as_it_came() -> None:
    for raw in (b"caf\xe9", "café".encode()):
        value = raw.decode("utf-8", "surrogateescape")
        assert request_headers(pairs(("X-Name", value)))["X-Name"] == value


def test_a_response_value_that_is_not_utf8_is_read_as_latin_1() -> None:
    headers = pairs(("X-Name", b"caf\xe9".decode("utf-8", "surrogateescape")), ("X-Utf8", "café"))
    assert dict(response_headers(headers)) == {"X-Name": "café", "X-Utf8": "café"}


@pytest.mark.parametrize("character", ["\r", "\n", "\0", "\x01", "\x1f", "\x7f", "\x0b"])
@pytest.mark.parametrize("around", ["a{}b", "é{}"])
def test_a_response_value_with_a_control_character_is_refused(character: str, around: str) -> None:
    with pytest.raises(ForbiddenCharacter):
        response_headers(pairs(("X-One", around.format(character))))


def test_a_tab_is_no_control_character_here() -> None:
    assert response_headers(pairs(("X-One", "a\tb")))["X-One"] == "a\tb"
    assert request_headers(pairs(("X-One", "a\tb")))["X-One"] == "a\tb"


def test_credentials_are_left_out_and_all_else_stays() -> None:
    sent = pairs(("AUTHORIZATION", "x"), ("X-Api-Key", "x"), ("cookie", "a"), ("Cookie", "b"), ("X-One", "1"))
    assert list(without_credentials(sent).items()) == [("X-One", "1")]
    assert len(sent) == 5, "what was given is left as it was"


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("/chat/completions", "/chat/completions"),
        ("/chat/completions?", "/chat/completions?"),
        ("/chat/completions?key=x", "/chat/completions"),
        (
            "/chat/completions?a=%20&%6bey=x&API_KEY=x&api-version=1&b",
            "/chat/completions?a=%20&api-version=1&b",
        ),
        ("/chat/completions?keys=x&monkey=y", "/chat/completions?keys=x&monkey=y"),
    ],
)
def test_key_parameters_are_left_out_of_a_query(target: str, kept: str) -> None:
    assert without_key_parameters(target) == kept
