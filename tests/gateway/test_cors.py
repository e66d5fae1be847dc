"""Without `listen.cors` requests are as aiohttp has them. What browsers see is in tests/flow/test_cors.py."""

from __future__ import annotations

import pytest
from aiohttp import web

from gateway.cors import requests_of
from understudy.settings.config import Listen


def test_without_origins_an_answer_costs_nothing_more() -> None:
    assert requests_of(()) is web.BaseRequest
    assert requests_of(("*",)) is not web.BaseRequest


@pytest.mark.parametrize(
    "origin", ["app.example", "https://app.example/", "https://app.example/x", "null", ""]
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="an origin such as"):
        Listen(cors=(origin,))


def test_an_origin_is_kept_in_small_letters() -> None:
    assert Listen(cors=("https://App.example:8443", "*")).cors == ("https://app.example:8443", "*")
