"""Without `listen.cors` requests are as aiohttp has them. What browsers see is in tests/flow/test_cors.py."""

from __future__ import annotations

import pytest
from aiohttp import web
from multidict import CIMultiDict

from gateway.cors import tell_browsers
from tests.gateway.serving import exchange, get, served
from understudy.settings.listen import Listen


async def test_without_origins_an_answer_says_nothing_of_them() -> None:
    async def own(request: web.BaseRequest) -> web.StreamResponse:
        headers = CIMultiDict({"Access-Control-Allow-Origin": "the upstream's"})
        tell_browsers(request, headers)
        return web.Response(headers=headers)

    async with served(own) as port:
        assert b"Access-Control-Allow-Origin: the upstream's" in await exchange(port, get())
    async with served(own, cors=("*",)) as port:
        assert b"Access-Control-Allow-Origin: *\r\n" in await exchange(port, get())


@pytest.mark.parametrize(
    "origin", ["app.example", "https://app.example/", "https://app.example/x", "null", ""]
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="an origin such as"):
        Listen(cors=(origin,))


def test_an_origin_is_kept_in_small_letters() -> None:
    assert Listen(cors=("https://App.example:8443", "*")).cors == ("https://app.example:8443", "*")
