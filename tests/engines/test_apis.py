"""Which path belongs to which API, and what an engine of a kind speaks."""

from __future__ import annotations

import pytest

from engines.apis import ALL, BY_KIND, Api, api_of
from engines.engine import EngineInfo


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/chat/completions", "chat"),
        ("/completions", "completions"),
        ("/messages/count_tokens", "messages"),
        ("/images/generations", "images"),
        ("/audio/speech", "audio"),
        ("/rerank", "other"),
        ("/messages/batches", "other"),
    ],
)
def test_a_path_belongs_to_an_api(path: str, api: Api) -> None:
    assert api_of(path) == api


def test_an_engine_is_asked_what_it_speaks() -> None:
    assert all(apis <= ALL for apis in BY_KIND.values())
    assert EngineInfo("e").speaks("messages"), "nobody said"
    only = EngineInfo("e", apis=BY_KIND["anthropic"])
    assert only.speaks("messages") and not only.speaks("chat")
    assert {"chat", "messages", "responses"} <= BY_KIND["vllm"]
