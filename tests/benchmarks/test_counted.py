"""What a request costs in calls is counted the same each time, and a rise of more than 2 % is told."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from benchmarks.counted.__main__ import FIGURES, Client, Counting, Upstream, gateway, risen, ways


def test_a_rise_above_two_percent_is_told() -> None:
    before = {"a": 100.0, "b": 100.0, "c": 17.0}
    assert risen({"a": 102.0, "b": 103.0, "c": 17.02, "new": 1.0}, before) == ["b", "new"]


def test_a_request_is_counted_the_same_each_time(tmp_path: Path) -> None:
    counting = Counting(names=True)
    with closing(Upstream()) as upstream:
        name, config = next(ways(upstream, tmp_path))
        with (
            gateway(config, counting) as (port, loop),
            closing(Client(port, upstream, loop, counting)) as client,
        ):
            for _ in range(3):
                client.chat("Warm?")
            counted = sorted(client.chat("Warm?") for _ in range(9))
            assert counted[2] == counted[4] and name in json.loads(FIGURES.read_text())
            assert client.stream(20) > client.stream(5)
    assert counting.names is not None and counting.names["connection.py:Connection.on_body"]
