"""Forgetting reaches what applications' runs hold: requests of steps, values, and what is said of failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner

from store import Store
from tests.flow.line import Line, line
from tests.flow.line import upstream as scripted
from tests.flow.test_line_runs import KEY, body, config, echo, get
from understudy.commands.forget import forget

CANARY = "quokka-4711"


async def submit(gate: Line, text: str, name: str, user: str, **more: Any) -> str:
    asked = body(text, app="shared", submit=True, output={"name": name}, **more) | {"user": user}
    got = await gate.post("/chat/completions", asked, KEY)
    assert got.status == 202, got.body
    id = got.json["understudy"]["outputs"][name]
    assert (await get(gate, f"/variables/{id}?wait_s=60", **{"x-understudy-user": user})).status == 200
    return str(got.json["understudy"]["run"])


def holding(data: Path) -> list[str]:
    files = [path for path in data.rglob("*") if path.is_file()]
    return [path.name for path in files if CANARY.encode() in path.read_bytes()]


async def test_a_user_s_runs_and_values_are_in_no_file_afterwards(tmp_path: Path) -> None:
    async with scripted() as behind:
        behind.script = echo
        async with line(config(behind, tmp_path)) as gate:
            await submit(gate, f"Write {CANARY} {{{{task}}}}", "code", "ann", inputs={"task": CANARY})
            others = await submit(gate, "Write a poem", "poem", "ben")
            alone = body("Say hello", submit=True, output={"name": "hello"}) | {"user": "ben"}
            got = await gate.post("/chat/completions", alone, KEY)
            ben = {"x-understudy-user": "ben"}
            assert (await get(gate, f"/runs/{got.json['understudy']['run']}", **ben)).status == 200
    data = tmp_path / "data"
    assert holding(data)
    ended = CliRunner().invoke(forget, ["--data", str(data), "--user", "ann", "--yes"])
    assert ended.exit_code == 0, ended.output
    assert not holding(data)
    store = Store.open(data)
    kept = {each.run.id for each in store.runs.runs()}
    store.close()
    assert got.json["understudy"]["run"] in kept, "another user's run that ann had no part in stays"
    assert kept <= {others, got.json["understudy"]["run"]}
