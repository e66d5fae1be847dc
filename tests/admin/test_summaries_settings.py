"""The settings page: what is in force and where it comes from; no secret, and no way to read the environment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.admin.site import ENGINES, Site, site
from understudy.settings.effective import EffectiveSettings
from understudy.settings.file import load_config

FILE = """
listen: {port: "${PORT:-8080}"}
upstream: {base_url: http://127.0.0.1:1/v1, api_key: "${UPSTREAM_KEY}", advanced: {headers: {x-team: "${TEAM}"}}}
engines: {small: {base_url: http://127.0.0.1:1/v1, api_key: sk-plain-canary}, large: {base_url: "http://127.0.0.1:2/v1"}}
models: {"gpt-4o": {engines: [small, large]}}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPSTREAM_KEY", "sk-environment-canary")
    monkeypatch.setenv("TEAM", "team-canary")
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


def test_every_setting_has_its_source_and_no_secret_is_shown(file: Path) -> None:
    rows = {row.key: row for row in EffectiveSettings(load_config(file), file).rows()}
    assert rows["upstream.api_key"].source == "environment: UPSTREAM_KEY"
    assert rows["listen.port"].source == "environment: PORT" and rows["listen.port"].value == "8080"
    assert rows["engines.small.base_url"].source == "file"
    assert rows["judging"].source == "default" and rows["models.gpt-4o.few_shot.theta"].value == "0.8"
    assert all(row.description for row in rows.values())
    assert "canary" not in str(rows)


def test_a_file_that_was_changed_since_the_start_is_noticed(file: Path) -> None:
    effective = EffectiveSettings(load_config(file), file)
    assert effective.news() == ()
    file.write_text(FILE.replace("engines: [small, large]", "engines: [small]"))
    assert effective.news() == ("models.gpt-4o.engines",)
    file.write_text("models: [")
    assert "YAML" in effective.news()[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "not valid YAML"),
        ("- 1", "mapping"),
        ("listen: {prot: 1}", "listen.prot: no such setting"),
        ("{}", "nowhere to send"),
        (FILE + "log: {level: loud}", "log.level"),
    ],
)
def test_a_pasted_file_that_cannot_be_used_is_told_why(file: Path, text: str, problem: str) -> None:
    checked = EffectiveSettings(load_config(file), file).check(text)
    assert any(problem in line for line in checked.problems) and not checked.changes


def test_a_pasted_file_never_reads_the_environment(file: Path) -> None:
    effective = EffectiveSettings(load_config(file), file)
    pasted = FILE.replace("gpt-4o", "m-${UPSTREAM_KEY}").replace("http://127.0.0.1:2/v1", "http://${TEAM}/v1")
    checked = effective.check(pasted + "log: {level: '${UPSTREAM_KEY}'}")
    assert "canary" not in str(checked) and "environment" in str(checked.problems)
    checked = effective.check(pasted.replace("http://${TEAM}/v1", "http://127.0.0.1:3/v1"))
    assert "canary" not in str(checked)
    assert ("engines.large.base_url", "http://127.0.0.1:2/v1", "http://127.0.0.1:3/v1") in checked.changes


async def test_the_page_shows_filters_and_checks(pages: Site) -> None:
    operator = await pages.person("operator")
    got = (await operator.get("/settings.json?q=breaker+failures")).json
    assert [row["key"] for row in got["settings"]] == [
        "engines.small.advanced.breaker_failures",
        "engines.large.advanced.breaker_failures",
    ]
    only = (await operator.get("/settings.json")).json["settings"]
    everything = (await operator.get("/settings.json?set=0")).json["settings"]
    assert 0 < len(only) < len(everything) == got["total"] and all(row["source"] != "default" for row in only)
    shown = await operator.post("/settings/check", {"text": "listen: {port: '<script>alert(1)</script>'}"})
    assert "cannot be used" in shown.text and "<script>alert" not in shown.text
    viewer = await pages.person("viewer")
    assert (await viewer.post("/settings/check", {"text": str(ENGINES)})).status == 403
