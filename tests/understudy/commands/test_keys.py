"""`understudy keys`: a secret is shown once, listed never, and revoking takes effect."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from understudy.commands.keys import keys


def run(*arguments: str, data: Path) -> Result:
    command, *rest = arguments
    return CliRunner().invoke(keys, [command, "--data", str(data), *rest])


def test_a_created_key_is_listed_without_its_secret_and_can_be_revoked(tmp_path: Path) -> None:
    created = run("create", "--tenant", "acme", "--name", "laptop", data=tmp_path)
    secret = created.stdout.strip()
    assert created.exit_code == 0 and secret.startswith("us-")
    listed = run("list", data=tmp_path).stdout
    assert "active" in listed and "tenant acme  laptop" in listed and secret not in listed
    key_id = listed.split()[0]
    assert run("revoke", key_id, data=tmp_path).exit_code == 0
    assert "revoked" in run("list", data=tmp_path).stdout
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert secret.encode() not in everything


def test_revoking_an_unknown_key_says_how_to_find_the_right_one(tmp_path: Path) -> None:
    result = run("revoke", "key_nope", data=tmp_path)
    assert result.exit_code == 2 and "key_nope" in result.stderr and "keys list" in result.stderr


def test_a_key_needs_no_name(tmp_path: Path) -> None:
    assert run("create", data=tmp_path).exit_code == 0
    assert "unnamed" in run("list", data=tmp_path).stdout
