"""A request that was read: what its body says, and what an engine gets of it."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest
from aiohttp import web
from multidict import CIMultiDict

from engines.placement import PLAIN, Placement, Rank
from gateway.endpoints.incoming import Incoming
from gateway.forms import read_form
from gateway.journey import arrival
from router.finished import Journey

FORM = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nours\r\n--b--\r\n'


def incoming(raw: bytes, **more: Any) -> Incoming:
    headers = CIMultiDict({"Content-Length": str(len(raw))})
    journey = Journey(arrival("POST", "/v1/x"))
    return Incoming(cast(web.BaseRequest, None), "/x", headers, raw, journey, model="ours", **more)


@pytest.mark.parametrize(
    ("tier", "placed"),
    [
        ("flex", Placement(Rank.THROUGHPUT)),
        ("priority", PLAIN),
        ("auto", None),
        (["flex"], None),
        (None, None),
    ],
)
def test_its_service_tier_places_it_whatever_its_api(tier: object, placed: Placement | None) -> None:
    assert incoming(b"", fields={"service_tier": tier}).placement == placed


def test_an_engine_gets_its_own_name_of_the_model_and_headers_that_fit() -> None:
    json = incoming(b'{"model": "ours", "input": 1}', fields={"model": "ours", "input": 1})
    assert json.outgoing("ours").body is json.raw and json.outgoing().headers is json.headers
    sent = json.outgoing("theirs", plain=True)
    assert isinstance(sent.body, bytes) and orjson.loads(sent.body) == {"model": "theirs", "input": 1}
    assert (sent.model, sent.plain, "Content-Length" in sent.headers) == ("theirs", True, False)
    form = incoming(FORM, form=read_form(FORM, "multipart/form-data; boundary=b"))
    assert form.outgoing("theirs").body == FORM.replace(b"ours", b"theirs") and form.streams
