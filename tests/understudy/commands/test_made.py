"""Commands of operations: options of the input's fields, refusals with a status, the audit log; and tables of summaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from click.testing import CliRunner, Result
from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Outcome, Tenant, operation
from admin.page import ActionFailed, Asked, NotThere, Summary
from admin.roles import Content
from admin.sources import Sources
from store.people.audit import AuditRecord
from store.validating import CLOSED
from tests.understudy.commands.stores import opened
from understudy.commands.made import command, reading
from understudy.commands.tables import cell


@dataclass(frozen=True, slots=True, config=CLOSED)
class Painting:
    """What is to be painted."""

    name: str
    colour: Literal["red", "blue"] = Field(default="red", description="Which colour.")
    tenant: Tenant = ""
    coats: int | None = Field(default=None, ge=1)
    thick: bool = False
    seen: str = ""


@operation("walls/paint", arguments=("name",), of_pages=("seen",))
def paint(sources: Sources, by: By, given: Painting) -> Outcome:
    """Paint."""
    if given.name == "dry":
        raise ActionFailed("It is painted already.")
    if given.name == "gone":
        raise NotThere("There is nothing to paint.")
    said = f"{given.colour} {given.tenant[:4]} {given.coats} {given.thick} by {by.surface}"
    return Outcome(said, given.name, {"colour": given.colour}, secret="s3cret" if given.thick else "")


def ran(data: Path, *words: str) -> Result:
    return CliRunner().invoke(command(paint), ["--data", str(data), *words])


def audited(data: Path) -> list[AuditRecord]:
    with opened(data) as store:
        return store.audit.page()[::-1]


def test_options_are_the_fields_of_the_input_and_what_is_done_is_audited(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        tenant = store.keys.create("acme", "web")[0].tenant
    done = ran(tmp_path, "hall", "--colour", "blue", "--tenant", "acme", "--coats", "2")
    assert done.stdout == f"blue {tenant[:4]} 2 False by cli\n"
    assert json.loads(ran(tmp_path, "hall", "--json").stdout) == {
        "said": "red  None False by cli",
        "colour": "red",
    }
    secret = ran(tmp_path, "hall", "--thick")
    assert secret.stdout == "s3cret\n" and "red" in secret.stderr, "a secret is alone on standard output"
    assert "--seen" not in ran(tmp_path, "--help").stdout
    assert {(row.action, row.target, row.outcome) for row in audited(tmp_path)} == {
        ("walls/paint", "hall", "done")
    }


def test_a_refusal_has_a_sentence_and_a_status(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    for words, status, said in (
        (("dry",), 1, "It is painted already."),
        (("gone",), 2, "There is nothing to paint."),
        (("hall", "--coats", "0"), 2, "coats is 0"),
        (("hall", "--colour", "green"), 2, "green"),
        (("hall", "--tenant", "nobody"), 2, "no key belongs to a tenant 'nobody'"),
    ):
        refused = ran(tmp_path, *words)
        assert refused.exit_code == status and said in refused.stderr, words
    (row,) = audited(tmp_path)
    assert (row.outcome, row.target, row.detail) == ("failed", "dry", {"why": "It is painted already."})


def walls(sources: Sources, asked: Asked) -> Summary:
    """Two walls, or none of a name."""
    rows = [{"name": "hall", "painted_at_s": 0.0, "usd": 0.5, "note": Content("wet")}]
    return {"count": 1, "walls": rows if asked.text("name") != "none" else []}


def test_a_summary_is_a_table_or_lines_and_shows_no_texts(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    columns = {"walls": ("name", "painted_at_s", "usd", "note")}

    def told(*words: str, rows: str = "walls", texts: bool = False) -> Result:
        made = reading("list", "List.", walls, rows=rows, tables=columns, nothing="no walls", texts=texts)
        return CliRunner().invoke(made, ["--data", str(tmp_path), *words])

    lines = told().stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["NAME", "PAINTED", "USD", "NOTE"],
        ["hall", "1970-01-01", "00:00:00Z", "$0.500000", "-"],
    ]
    assert "wet" in told(texts=True).stdout
    assert json.loads(told("--json").stdout)[0]["note"] is None
    assert told(rows="").stdout.splitlines()[:3] == ["count: 1", "", "walls"]


def test_a_cell_goes_by_the_unit_in_its_name() -> None:
    assert [
        cell(name, value) for name, value in (("a", None), ("a", True), ("x_usd", -1.0), ("x", 0.12345))
    ] == [*("-", "yes", "-$1.000000", "0.1235")]
    assert cell("labels", {"a": 1, "b": [2, 3]}) == "a 1 b 2, 3"
