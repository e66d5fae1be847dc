"""What a request costs in calls is counted the same each time, and a rise of more than 2 % is told."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from benchmarks.counted.__main__ import FIGURES, Client, Upstream, gateway, ways


def test_a_request_is_counted_the_same_each_time(tmp_path: Path) -> None:
    with closing(Upstream()) as upstream:
        way = next(ways(upstream, tmp_path))
        with gateway(way.config, names=True) as serving, closing(Client(serving, upstream)) as client:
            for content in way.warm_up[:3]:
                client.chat(content)
            on_loop, on_all = zip(*sorted(client.chat("Warm?") for _ in range(9)), strict=True)
            assert on_loop[2] == on_loop[4] <= on_all[4] and way.name in json.loads(FIGURES.read_text())
            assert client.stream(20) > client.stream(5)
    assert serving.on_loop.names is not None and serving.on_loop.names["connection.py:Connection.on_body"]
