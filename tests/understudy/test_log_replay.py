"""A log is replayed through the pipeline of a gateway of its own, whose folder is gone afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path

from learning.bank.importing.formats import Pair
from learning.logs.purse import Purse
from tests.flow.line import MODELS
from understudy.log_replay import LogReplay
from understudy.settings.file import parse_config

CONFIG = parse_config(
    {
        "engines": {
            name: {"base_url": "http://127.0.0.1:9/v1", "api_key": "none"} for name in ("small", "large")
        },
        "models": {"m": {"engines": ["small", "large"], "policy": "few_shot"}},
        "memory": {"examples": {"enabled": True}},
    }
)


def pair(question: str) -> Pair:
    fields = {"temperature": 0, "stream": True, "messages": [{"role": "user", "content": question}]}
    return Pair(fields, "Yes.", "observed", "m")


async def test_each_request_is_remembered_before_the_next_and_nothing_is_left_behind() -> None:
    before = set(Path(tempfile.gettempdir()).glob("understudy-log-*"))
    replay = LogReplay(CONFIG, Purse(0.0), MODELS)
    seen: list[int] = []
    asked = ["Is the shop open?", "Is the shop open?", "How heavy is the moon?", "Is the shop open?"]
    found = await replay.run(
        [("m", pair(each)) for each in asked], answered=lambda done, _: seen.append(done)
    )
    assert [one.way for one in found] == ["reference", "exact", "reference", "exact"]
    assert seen == [1, 2, 3, 4]
    assert set(Path(tempfile.gettempdir()).glob("understudy-log-*")) == before
    assert list(replay.labels.values()) == ["no system prompt"]
