"""The replayer's process runs what the settings ask for: the gate, the schedule, and the warming of prefixes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from tests.learning.replay.bank import settings
from understudy.settings.file import parse_config
from understudy.setup.replayer import replayer


async def running(data: dict[str, Any]) -> list[str]:
    """The names of what would run."""
    async with replayer(parse_config(data)) as parts:
        for part in parts:
            part.close()
        return [part.__qualname__ for part in parts]


async def test_traffic_is_watched_and_what_is_due_is_taken_up(tmp_path: Path) -> None:
    data = settings(tmp_path)
    expected = ["OffPeakGate.watch", "UsualTraffic.keep_learning", "Replayer.run"]
    assert await running(data) == expected
    data["replay"]["enabled"] = True
    data["replay"].setdefault("advanced", {})["kv_plan"] = {"engines": ["small"]}
    data["models"]["m"] |= {"policy": "in_context", "advanced": {"example_order": "stable"}}
    assert await running(data) == [*expected, "PrefixWarmer.run"]


async def test_without_a_judge_it_says_so_and_goes_on_watching(tmp_path: Path) -> None:
    data = settings(tmp_path)
    data["replay"].pop("judge")
    with capture_logs() as logs:
        assert await running(data) == ["OffPeakGate.watch", "UsualTraffic.keep_learning"]
    (told,) = (log for log in logs if log["event"] == "cannot_replay")
    assert "replay.judge" in told["reason"]
