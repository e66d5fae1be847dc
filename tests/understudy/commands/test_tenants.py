"""`understudy tenants`: what is laid down holds for the keys of a tenant, and its changes are in the audit log."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from tests.understudy.commands.stores import opened
from understudy.commands.tenants import tenants


def run(*arguments: str, data: Path) -> Result:
    command, *rest = arguments
    return CliRunner().invoke(tenants, [command, "--data", str(data), *rest])


def test_a_tenant_is_made_changed_closed_and_listed_beside_those_that_only_keys_name(tmp_path: Path) -> None:
    options = ("--budget", "100/month", "--region", "eu", "--keep-texts-days", "7", "--json")
    made = json.loads(run("create", "acme", *options, data=tmp_path).stdout)
    assert made["limits"] == {"budgets": [{"usd": 100.0, "per": "month"}]}
    assert (made["region"], made["retention"], made["closed"]) == ("eu", {"texts_days": 7.0}, False)
    edited = json.loads(
        run(
            "edit",
            "acme",
            "--closed",
            "--region",
            "none",
            "--keep-texts-days",
            "none",
            "--json",
            data=tmp_path,
        ).stdout
    )
    assert (edited["region"], edited["retention"], edited["closed"]) == ("", {}, True)
    assert edited["limits"] == made["limits"]
    with opened(tmp_path) as store:
        store.keys.create("umbrella", "app")
        actions = [(record.action, record.target) for record in store.audit.page()]
    assert actions == [("tenants/edit", made["id"]), ("tenants/create", made["id"])]
    listed = run("list", data=tmp_path).stdout.splitlines()[1:]
    assert [line.split()[-1] for line in listed] == ["acme", "umbrella"]
    assert listed[0].split()[1:4] == ["yes", "0", "yes"] and listed[1].split()[1:4] == ["no", "1", "no"]
    assert [one["name"] for one in json.loads(run("list", "--json", data=tmp_path).stdout)] == [
        "acme",
        "umbrella",
    ]
    assert "limits.budgets: usd $100.000000 per month" in run("show", "acme", data=tmp_path).stdout


def test_what_cannot_be_right_is_refused(tmp_path: Path) -> None:
    run("create", "acme", data=tmp_path)
    for command, told in (
        (("create", "acme"), "already"),
        (("edit", "nobody", "--concurrency", "1"), "tenants list"),
        (("show", "nobody"), "tenants list"),
        (("edit", "acme", "--keep-rows-days", "-1"), "retention.rows_days"),
        (("edit", "acme", "--keep-rows-days", "many"), "--keep-rows-days"),
        (("create", "x" * 100_000), "1 to 200"),
    ):
        result = run(*command, data=tmp_path)
        status = 1 if told == "already" else 2
        assert result.exit_code == status and told in result.stderr and len(result.stderr) < 1000
