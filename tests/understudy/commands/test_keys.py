"""`understudy keys`: a secret is shown once, listed never, and revoking takes effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.understudy.commands.stores import opened
from understudy.commands.keys import keys


def run(*arguments: str, data: Path) -> Result:
    command, *rest = arguments
    return CliRunner().invoke(keys, [command, "--data", str(data), *rest])


def first_id(data: Path) -> str:
    return run("list", data=data).stdout.splitlines()[1].split()[0]


def test_a_created_key_is_listed_without_its_secret_and_can_be_revoked(tmp_path: Path) -> None:
    created = run("create", "--tenant", "acme", "--name", "laptop", data=tmp_path)
    secret = created.stdout.strip()
    assert created.exit_code == 0 and secret.startswith("us-")
    listed = run("list", data=tmp_path).stdout
    assert "active" in listed and listed.split()[-2:] == ["acme", "laptop"] and secret not in listed
    key_id = first_id(tmp_path)
    assert run("revoke", key_id, data=tmp_path).exit_code == 0
    assert "revoked" in run("list", data=tmp_path).stdout
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert secret.encode() not in everything


def test_revoking_an_unknown_key_says_how_to_find_the_right_one(tmp_path: Path) -> None:
    assert "no gateway's data folder" in run("list", data=tmp_path / "slip").stderr
    assert not (tmp_path / "slip").exists()
    assert "is a new data folder" in run("create", data=tmp_path).stderr
    result = run("revoke", "key_nope", data=tmp_path)
    assert result.exit_code == 2 and "key_nope" in result.stderr and "keys list" in result.stderr


def test_every_limit_is_an_option_and_comes_back_as_json(tmp_path: Path) -> None:
    limits = """
        --model gpt-4* --model o3 --endpoint /chat/completions --requests-per-minute 60 --tokens-per-minute 9000
        --concurrency 4 --max-output-tokens 1000 --budget 5/day --budget 100/month --time-zone Europe/Berlin
        --allow-unpriced --user-budget 0.2/day --user-concurrency 1 --user-model gpt-4o-mini --user-endpoint /models
        --user-requests-per-minute 6 --user-tokens-per-minute 900 --user-max-output-tokens 100 --user-time-zone UTC
        --expires 2031-01-31 --partition tenant --users-required yes --json
    """.split()  # noqa: SIM905
    made = json.loads(run("create", "--tenant", "acme", *limits, data=tmp_path).stdout)
    assert made.pop("secret").startswith("us-")
    assert made["limits"] == {
        "models": ["gpt-4*", "o3"],
        "endpoints": ["/chat/completions"],
        "requests_per_minute": 60,
        "tokens_per_minute": 9000,
        "concurrency": 4,
        "max_output_tokens": 1000,
        "budgets": [{"usd": 5.0, "per": "day"}, {"usd": 100.0, "per": "month"}],
        "time_zone": "Europe/Berlin",
        "allow_unpriced": True,
    }
    assert made["each_user"] == {
        "models": ["gpt-4o-mini"],
        "endpoints": ["/models"],
        "requests_per_minute": 6,
        "tokens_per_minute": 900,
        "concurrency": 1,
        "max_output_tokens": 100,
        "budgets": [{"usd": 0.2, "per": "day"}],
    }
    assert (made["expires_at"], made["partition"]) == ("2031-01-31T00:00:00Z", "tenant")
    assert made["users_required"] is True
    assert json.loads(run("list", "--json", data=tmp_path).stdout) == [made | {"state": "active"}]
    assert json.loads(run("show", made["id"], "--json", data=tmp_path).stdout) == made
    assert (
        "limits.budgets: usd $5.000000 per day, usd $100.000000 per month"
        in run("show", made["id"], data=tmp_path).stdout
    )


def test_what_is_not_named_stays_and_none_takes_a_limit_back(tmp_path: Path) -> None:
    new = "--concurrency 4 --budget 5/day --expires 30d --json".split()  # noqa: SIM905
    made = json.loads(run("create", *new, data=tmp_path).stdout)
    change = "--budget none --requests-per-minute 7 --expires none --name x".split()  # noqa: SIM905
    edit = ("edit", made["id"], *change)
    edited = json.loads(run(*edit, "--json", data=tmp_path).stdout)
    assert edited["limits"] == {"concurrency": 4, "requests_per_minute": 7}
    assert (edited["expires_at"], edited["name"]) == (None, "x")
    assert "was so already" in run("edit", made["id"], "--concurrency", "4", data=tmp_path).stdout
    with opened(tmp_path) as store:
        _, latest, first = store.audit.page()
    assert (latest.action, latest.target, first.action) == ("keys/edit", made["id"], "keys/create")
    assert latest.detail["limits"]["old"]["budgets"] == [{"usd": 5.0, "per": "day"}]
    assert latest.detail["limits"]["new"] == edited["limits"]


def test_clients_keep_their_secret_and_a_rotated_one_lasts_for_its_grace(tmp_path: Path) -> None:
    theirs = "sk-from-another-gateway-0123"
    command = ["create", "--data", str(tmp_path), "--secret-stdin"]
    made = CliRunner().invoke(keys, command, input=f"{theirs}\n")
    assert made.exit_code == 0 and theirs not in made.output
    key_id = first_id(tmp_path)
    rotated = run("rotate", key_id, "--grace", "24h", data=tmp_path)
    with opened(tmp_path) as store:
        found = [store.keys.lookup(secret) for secret in (theirs, rotated.stdout.strip())]
        details = str([record.detail for record in store.audit.page()])
    assert [key and key.id for key in found] == [key_id, key_id]
    assert theirs not in details and rotated.stdout.strip() not in details


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--budget -1/day", "usd is -1.0"),
        ("--budget 5/year", "5/day"),
        ("--budget five/day", "5/day"),
        ("--requests-per-minute many", "--requests-per-minute"),
        ("--expires soon", "--expires"),
        ("--expires 2020-01-01", "expires_at has passed"),
    ],
    ids=lambda text: text[:40],
)
def test_what_cannot_be_right_makes_no_key(tmp_path: Path, options: str, told: str) -> None:
    result = run("create", *options.split(), data=tmp_path)
    assert result.exit_code == 2 and told in result.stderr and len(result.stderr) < 1000
    assert run("list", data=tmp_path).stdout == ""
