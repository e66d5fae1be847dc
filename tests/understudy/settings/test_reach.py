"""An engine inside the serving worker is out of reach of other processes: that is told, by key, before anything begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from admin.actions import NotDone
from store import Store
from understudy.__main__ import main
from understudy.operator_actions import AdminActions
from understudy.settings.file import ConfigError, parse_config
from understudy.settings.reach import out_of_reach

LOCAL = {"kind": "vllm-local", "model_dir": "org/model"}
FAR = {"kind": "simulated", "role": "lead"}
JUDGED = {"enabled": True, "judge": "far"}
IN_ORDER = {
    "engines": ["here", "far"],
    "policy": "in_context",
    "advanced": {"example_order": "stable"},
}
PRICED = {"price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 1}}


def configured(asked: list[str], replay: dict[str, Any], folder: str = "data", **more: Any) -> dict[str, Any]:
    return {
        "engines": {"here": LOCAL, "far": FAR},
        "models": {"guide": {"engines": asked}},
        "memory": {"data_dir": folder},
        "replay": replay,
    } | more


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("replay.judge", configured(["far"], {"enabled": True, "judge": "here"})),
        (
            "judging.engine",
            configured(["far"], {"enabled": True}, judging={"engine": "here", "share_offloaded": 0.1}),
        ),
        ("replay.advanced.engine", configured(["far"], JUDGED | {"advanced": {"engine": "here"}})),
        ("replay.advanced.generator", configured(["far"], JUDGED | {"advanced": {"generator": "here"}})),
        ("models.guide.engines", configured(["far", "here"], JUDGED)),
        ("models.guide.engines", configured(["here", "far"], JUDGED | {"advanced": {"expand": True}})),
        (
            "replay.advanced.kv_plan.engines",
            configured(
                ["far"],
                JUDGED | {"advanced": {"kv_plan": {"engines": ["here"]}}},
                engines={"here": LOCAL | PRICED, "far": FAR | PRICED},
                models={"guide": IN_ORDER},
            ),
        ),
    ],
)
def test_replay_by_itself_with_an_engine_it_cannot_ask_is_refused_by_key_and_value(
    key: str, data: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as failed:
        parse_config(data)
    told = str(failed.value)
    assert f"{key} has replay ask 'here'" in told
    assert "engines.here is of kind vllm-local" in told and "use kind vllm" in told


def test_what_replay_does_not_ask_may_live_in_the_worker() -> None:
    small = configured(["here", "far"], JUDGED)
    elsewhere = configured(["far", "here"], JUDGED | {"advanced": {"engine": "far"}})
    off = configured(["here"], {})
    for data in (small, elsewhere, off):
        parse_config(data)
    engines = parse_config(off).engines
    assert out_of_reach(engines, "here") and out_of_reach(engines, "far") is None


def test_commands_that_would_ask_it_say_so_and_begin_nothing(tmp_path: Path) -> None:
    data = configured(["here"], {"judge": "far"}, str(tmp_path / "data"), private={"tenants": ["acme"]})
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(data))
    for words in (["learn", "replay"], ["learn", "private", "build", "--tenant", "acme"]):
        ended = CliRunner().invoke(main, [*words, "--config", str(file)])
        assert ended.exit_code != 0
        assert "engines.here is of kind vllm-local" in ended.output, ended.output
    assert not (tmp_path / "data").exists()


async def test_the_admin_pages_say_so_too(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    try:
        ask = AdminActions(parse_config(configured(["here"], {}, str(tmp_path))), store).actions().ask
        assert ask is not None
        with pytest.raises(NotDone, match="only the serving worker can ask"):
            await ask("here", [{"role": "user", "content": "Q?"}], "demo")
    finally:
        store.close()
