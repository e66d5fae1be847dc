"""The most output is written into a body in its own API's words, and nothing else of it changes."""

from __future__ import annotations

import orjson
import pytest
from multidict import CIMultiDict

from engines.codecs.table import CODECS
from gateway.limits.bounding import bounded
from gateway.limits.expected import OUTPUT_FIELDS
from router.asked import Arrival, Asked

BODIES = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "x"}], "unknown": [1]},
    "responses": {"model": "m", "input": "x", "unknown": [1]},
}


@pytest.mark.parametrize("api", sorted(BODIES))
def test_each_api_in_its_own_words(api: str) -> None:
    body = orjson.dumps(BODIES[api])
    chat = CODECS[api].read(body, dict(BODIES[api]))
    headers = CIMultiDict({"Content-Length": "9", "Content-Encoding": "gzip", "X-Other": "1"})
    asked = Asked(Arrival("r", 0.0, 0.0), "/x", headers, chat)
    made = bounded(asked, {OUTPUT_FIELDS[api][0]: 50})
    assert orjson.loads(made.chat.body) == BODIES[api] | {OUTPUT_FIELDS[api][0]: 50}
    assert made.chat.own_fields[OUTPUT_FIELDS[api][0]] == 50
    assert dict(made.headers) == {"X-Other": "1"}
    assert "Content-Length" in asked.headers


def test_every_api_that_has_a_codec_has_a_field() -> None:
    assert set(CODECS) <= set(OUTPUT_FIELDS)
