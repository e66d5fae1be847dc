"""`understudy learn models`: what a person sees of what was learnt, and takes out of use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from store.records import ArtifactRecord
from tests.understudy.commands.stores import opened
from understudy.commands.models import models

SLOT = ("bandit", "--tenant", "acme", "--model", "gpt-4o")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A tenant with two versions in a row, a rejected one, and one of the operator's."""
    with opened(tmp_path) as store:
        key, _ = store.keys.create("acme", "laptop")
        store.keys.create("umbrella", "laptop")
        for content, metrics in ((b"one", {"apgr": 0.512345678}), (b"two", {"apgr": 0.6, "rows": 200})):
            store.artifacts.publish("bandit", key.tenant, "gpt-4o", content, metrics=metrics)
        store.artifacts.publish(
            "bandit", key.tenant, "gpt-4o", b"bad", metrics={}, state="rejected", note="worse"
        )
        store.artifacts.publish("scorer", "", "", b"labels", metrics={"auc": 0.7})
    return tmp_path


def run(data: Path, command: str, *arguments: str) -> Result:
    return CliRunner().invoke(models, [command, "--data", str(data), *arguments])


def listed(data: Path, *arguments: str) -> list[dict[str, Any]]:
    done = run(data, "list", "--json", *arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


def in_use(data: Path) -> ArtifactRecord | None:
    with opened(data) as store:
        return store.artifacts.active("bandit", store.keys.tenant_named("acme"), "gpt-4o")


def test_the_list_shows_every_version_newest_first_and_what_is_in_use(data: Path) -> None:
    rows = [row.split() for row in run(data, "list").stdout.splitlines()]
    assert rows[0][:6] == ["ID", "KIND", "TENANT", "MODEL", "STATE", "FROZEN"]
    assert [row[:5] for row in rows[1:]] == [
        ["4", "scorer", "operator", "-", "active"],
        ["3", "bandit", "acme", "gpt-4o", "rejected"],
        ["2", "bandit", "acme", "gpt-4o", "active"],
        ["1", "bandit", "acme", "gpt-4o", "retired"],
    ]
    assert rows[4][-2:] == ["apgr", "0.5123"] and rows[3][-4:] == ["apgr", "0.6", "rows", "200"]


def test_the_list_is_narrowed_and_read_by_machines(data: Path) -> None:
    assert [r["id"] for r in listed(data)] == [4, 3, 2, 1]
    assert [r["id"] for r in listed(data, "--tenant", "operator")] == [4]
    assert [r["id"] for r in listed(data, "--tenant", "acme", "--kind", "bandit", "--model", "gpt-4o")] == [
        3,
        2,
        1,
    ]
    assert listed(data, "--tenant", "umbrella") == []
    first = listed(data)[-1]
    assert first["metrics"] == {"apgr": 0.512345678} and first["frozen"] is False
    unknown = run(data, "list", "--tenant", "amce")
    assert unknown.exit_code == 2 and "acme" in unknown.stderr


def test_a_version_is_shown_with_its_metrics_and_whether_it_is_whole(data: Path) -> None:
    shown = run(data, "show", "2")
    assert shown.exit_code == 0 and "metrics.apgr: 0.6" in shown.stdout and "whole: yes" in shown.stdout
    assert "worse" in run(data, "show", "3").stdout
    with opened(data) as store:
        record = store.artifacts.get(2)
        assert record is not None
        store.artifacts.path(record).write_bytes(b"tw0")
    assert json.loads(run(data, "show", "2", "--json").stdout)["whole"] != "yes"
    assert run(data, "show", "99").exit_code == 2


def test_rolling_back_goes_to_the_one_before_and_then_to_the_built_in(data: Path) -> None:
    done = run(data, "rollback", *SLOT)
    assert done.exit_code == 0 and "version 1" in done.stdout and "freeze to keep" in done.stdout
    now = in_use(data)
    assert now is not None and now.id == 1
    assert "built-in" in run(data, "rollback", *SLOT).stdout and in_use(data) is None
    nothing = run(data, "rollback", *SLOT)
    assert nothing.exit_code == 1 and "nothing to go back from" in nothing.stderr


def test_rolling_back_to_a_version_takes_that_one_and_no_other_slots_and_no_broken_one(data: Path) -> None:
    assert "version 1" in run(data, "rollback", *SLOT, "--to", "1").stdout
    assert "version 2" in run(data, "rollback", *SLOT, "--to", "2").stdout
    assert run(data, "rollback", *SLOT, "--to", "4").exit_code == 1
    assert run(data, "rollback", *SLOT, "--to", "99").exit_code == 1
    with opened(data) as store:
        record = store.artifacts.get(1)
        assert record is not None
        store.artifacts.path(record).unlink()
    assert run(data, "rollback", *SLOT, "--to", "1").exit_code == 1
    now = in_use(data)
    assert now is not None and now.id == 2


def test_a_frozen_slot_takes_no_new_version_until_it_is_unfrozen(data: Path) -> None:
    assert "version 2" in run(data, "freeze", *SLOT).stdout
    assert {r["id"]: r["frozen"] for r in listed(data)} == {4: False, 3: True, 2: True, 1: True}
    with opened(data) as store:
        tenant = store.keys.tenant_named("acme")
        assert store.artifacts.publish("bandit", tenant, "gpt-4o", b"new", metrics={}).state == "retired"
    assert run(data, "unfreeze", *SLOT).exit_code == 0
    assert run(data, "unfreeze", *SLOT).exit_code == 1
    assert "stays frozen" in run(data, "rollback", *SLOT, "--freeze").stdout


def test_an_exported_version_is_its_bytes_and_what_is_known_of_it(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "router.bin"
    assert run(data, "export", "2", "-o", str(file)).exit_code == 0
    assert file.read_bytes() == b"two"
    assert json.loads((tmp_path / "router.bin.json").read_text())["metrics"] == {"apgr": 0.6, "rows": 200}
    assert run(data, "export", "2", "-o", str(tmp_path / "no" / "folder")).exit_code == 2
    assert run(data, "export", "99", "-o", str(file)).exit_code == 2


def test_where_nothing_was_learnt_the_list_says_what_is_in_use(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    done = run(tmp_path, "list")
    assert done.exit_code == 0 and "built-in" in done.stderr and done.stdout == ""
    assert listed(tmp_path) == []
