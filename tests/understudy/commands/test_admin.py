"""`understudy admin`: accounts by hand."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from admin.passwords import matches
from store.people.operators import AdminUsers
from store.sqlite.database import Database
from tests.understudy.commands.stores import opened
from understudy.commands.admin import admin


def run(*arguments: str, given: str = "") -> tuple[int, str, str]:
    done = CliRunner().invoke(admin, arguments, input=given)
    return done.exit_code, done.stdout, done.stderr


def test_a_password_is_printed_once_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    status, said, _ = run("password", *data)
    assert status == 0
    status, _, _ = run(
        "password", *data, "--user", "ann", "--role", "viewer", "--stdin", given="x" * 12 + "\n"
    )
    assert status == 0
    db = Database.open(tmp_path / "understudy.db")
    operator, ann = AdminUsers(db).get("operator"), AdminUsers(db).get("ann")
    db.close()
    assert (
        operator is not None and operator.role == "operator" and matches(operator.password_hash, said.strip())
    )
    assert ann is not None and ann.role == "viewer" and matches(ann.password_hash, "x" * 12)
    assert [line.split()[:2] for line in run("users", *data)[1].splitlines()[1:]] == [
        ["ann", "viewer"],
        ["operator", "operator"],
    ]
    assert run("remove", *data, "ann")[0] == 0
    assert run("remove", *data, "ann")[0] == 2


def test_a_short_password_is_refused(tmp_path: Path) -> None:
    status, _, said = run("password", "--data", str(tmp_path), "--stdin", given="short\n")
    assert status == 2 and "12 to 1024" in said


def test_a_changed_role_is_in_the_audit_log_with_the_one_before(tmp_path: Path) -> None:
    for role in ("viewer", "operator"):
        done = CliRunner().invoke(
            admin, ["password", "--data", str(tmp_path), "--user", "ann", "--role", role]
        )
        assert done.exit_code == 0
    with opened(tmp_path) as store:
        latest, first = (record.detail for record in store.audit.page())
    assert first == {"role": {"new": "viewer"}} and latest == {"role": {"old": "viewer", "new": "operator"}}


def test_a_token_is_shown_once_listed_and_revoked(tmp_path: Path) -> None:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(admin, ["token", arguments[0], "--data", str(tmp_path), *arguments[1:]])

    made = run("create", "--name", "terraform", "--role", "operator", "--expires", "90d")
    secret = made.stdout.strip()
    assert secret.startswith("us-admin-")
    listed = run("list").stdout
    assert "terraform" in listed and "operator" in listed and secret not in listed
    with opened(tmp_path) as store:
        assert store.admin_tokens.find(secret) is not None
    assert run("revoke", listed.splitlines()[1].split()[0]).exit_code == 0
    with opened(tmp_path) as store:
        assert store.admin_tokens.find(secret) is None
        assert [record.action for record in store.audit.page()] == [
            "admin/token/revoke",
            "admin/token/create",
        ]
    assert run("revoke", "token_missing").exit_code == 2
    assert run("create", "--expires", "2020-01-01").exit_code == 2
