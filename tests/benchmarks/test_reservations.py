"""The benchmark of reservations runs."""

from __future__ import annotations

import pytest

import benchmarks.reservations as benchmark


def test_it_tells_what_each_way_costs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "_REQUESTS", 128)
    benchmark.main()
    ways = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert ways == ["an update, 1 at once", "an update, 16 at once", "an update, 64 at once", "a lease"]
