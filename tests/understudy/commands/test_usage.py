"""`understudy usage`: a table for people, CSV and JSON for programs, and end users by name where somebody names them."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from learning.bank.contributor import user_digest
from store import Store
from store.decisions.usage import Amounts, Used
from store.records import OutcomeRecord
from tests.store.rows import request_record
from understudy.commands.usage import usage


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(usage, ["--data", str(data), *arguments])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    store = Store.open(tmp_path)
    key, _ = store.keys.create("acme", "web")
    ann = user_digest(store.secret, key.tenant, "ann")
    now_s, log = time.time(), store.decisions.requests
    common = {"tenant": key.tenant, "key_id": key.id, "started_at_s": now_s}
    log.record(request_record(1, **common, end_user=ann, reference_cost_usd=1.0)).result(30)
    log.record(request_record(2, **common, cost_usd=None, model="free-of-price")).result(30)
    log.record(request_record(3, **common | {"started_at_s": now_s - 40 * 86_400})).result(30)
    store.decisions.usage.book(
        Used(now_s, key.tenant, Amounts(1, cost_usd=0.05), "judge", engine="large")
    ).result(30)
    store.close()
    return tmp_path


def test_the_table_says_what_was_paid_for_what_and_what_is_not_known(data: Path) -> None:
    text = run(data, "--by", "model,tenant,key").output
    assert "acme" in text and "web (" in text and "UNPRICED" in text
    assert "saved $0.700000, all of that counted" in text and "1 requests have no price" in text
    assert "quality of offloaded answers: not measured" in text


def test_what_was_saved_is_said_with_the_quality_that_was_judged(data: Path) -> None:
    store = Store.open(data)
    (key,) = store.keys.list()
    for number in (11, 12):
        request = request_record(number, tenant=key.tenant, key_id=key.id, policy="fixed")
        store.decisions.requests.record(request).result(30)
        verdict = OutcomeRecord(
            *(f"req-{number}", key.tenant, time.time(), "judge", "k", "small", (), True, number - 11.0)
        )
        store.outcomes.note(verdict).result(30)
    while store.decisions.quality.catch_up():
        pass
    store.close()
    for arguments in ((), ("--key", key.id), ("--tenant", "acme")):
        assert "by the judge: 0.500 (0.0" in run(data, *arguments).output, arguments
    assert json.loads(run(data, "--json").output)["judged"]["count"] == 2
    alone = run(data, "--tenant", "acme", "--user", "ann").output
    assert "saved" in alone and "quality" not in alone, "it is not kept by end user"


def test_programs_get_every_figure(data: Path) -> None:
    told = json.loads(run(data, "--by", "model", "--json").output)
    assert (
        told["total"]["cost_usd"] == 0.3
        and told["total"]["judge_usd"] == 0.05
        and told["total"]["unpriced"] == 1
    )
    rows = list(csv.DictReader(io.StringIO(run(data, "--by", "model", "--csv").output)))
    assert {row["model"]: row["cost_usd"] for row in rows if row["line"] == "answer"} == {
        "gpt-4o": "0.25",
        "free-of-price": "0.0",
    }
    long_ago = json.loads(run(data, "--since", "60d", "--json").output)
    assert long_ago["total"]["requests"] == 3


def test_a_table_for_a_spreadsheet_has_no_formulas_and_always_its_names(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    key, _ = store.keys.create("acme", "@web")
    asked = request_record(1, tenant=key.tenant, key_id=key.id, model='=HYPERLINK("http://x","y")')
    store.decisions.requests.record(asked).result(30)
    store.close()
    first, row = run(tmp_path, "--since", "1970-01-01", "--by", "model,key", "--csv").output.splitlines()
    assert first.startswith("line,model,key,requests,")
    assert row.startswith("answer,\"'=HYPERLINK(") and ",'@web" in row
    assert run(tmp_path, "--by", "model,key", "--csv").output.splitlines() == [first]


def test_end_users_are_shown_by_the_names_that_are_given(data: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("bob\nann\n")
    assert "ann" not in run(data, "--by", "user").output
    assert "ann" in run(data, "--by", "user", "--users", str(names)).output
    only = json.loads(run(data, "--tenant", "acme", "--user", "ann", "--by", "user", "--json").output)
    assert [row["user"] for row in only["rows"]] == ["ann"] and only["total"]["requests"] == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--by", "planet"], "planet"),
        (["--since", "yesterday"], "2026-01-31"),
        (["--since", "9" * 30], "2026-01-31"),
        (["--user", "ann"], "--tenant"),
        (["--tenant", "nobody"], "nobody"),
    ],
)
def test_what_makes_no_sense_is_refused(data: Path, arguments: list[str], why: str) -> None:
    result = run(data, *arguments)
    assert result.exit_code == 2 and why in result.output + result.stderr
