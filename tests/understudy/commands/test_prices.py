"""`understudy prices`: the table, and another one in its place."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from understudy.__main__ import main
from understudy.settings.prices import prices_file, read_prices


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["prices", *map(str, arguments)])


def test_the_table_has_its_date_its_age_and_its_sources() -> None:
    shown = run()
    assert shown.exit_code == 0
    head, columns, *rows = shown.stdout.splitlines()
    assert "as known on 2025-11-30, " in head and head.count("days ago") == 1
    assert columns.split()[:2] == ["PROVIDER", "MODEL"]
    (row,) = (each for each in rows if " gpt-4o " in each)
    assert row.split() == ["openai", "gpt-4o", "2.5", "1.25", "-", "-", "10", "128000", "16384"]
    assert any(each.startswith("anthropic: claude.com/pricing") for each in rows)


def test_a_file_of_the_same_schema_replaces_it(tmp_path: Path) -> None:
    changed = run("--as-file").stdout.replace("as_of: 2025-11-30", "as_of: 2026-02-01")
    file, data = tmp_path / "mine.yaml", tmp_path / "data"
    file.write_text(changed)
    data.mkdir()
    done = run("--update", file, "--data", data)
    assert done.exit_code == 0 and "as known on 2026-02-01" in done.stderr
    assert read_prices(prices_file(data)) == read_prices(file)
    assert "as known on 2026-02-01" in run("--data", data).stdout
    assert [each.name for each in data.iterdir()] == ["prices.yaml"]


def test_what_is_wrong_replaces_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("as_of: 2026-02-01\nproviders: {mine: {source: s, models: {m: {input_usd: dear}}}}\n")
    wrong = run("--update", file, "--data", tmp_path)
    assert wrong.exit_code == 2 and "providers.mine.models.m.input_usd is 'dear'" in wrong.stderr
    file.write_text("as_of: 9999-01-01\nproviders: {}\n")
    to_come = run("--update", file, "--data", tmp_path)
    assert to_come.exit_code == 2 and "as_of is 9999-01-01" in to_come.stderr
    file.write_text("as_of: 2026-02-01\nproviders: {}\n")
    nowhere = run("--update", file, "--data", tmp_path / "gone")
    assert nowhere.exit_code == 2 and "is no folder" in nowhere.stderr
    assert run("--update", file).exit_code == 2, "it needs --data"
    assert not (tmp_path / "prices.yaml").exists()
