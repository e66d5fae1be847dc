"""Configuration errors name the key, the value and what would be right; secrets are never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from understudy.commands.check import check
from understudy.commands.serve import config_of_options, serve
from understudy.settings.config import Config
from understudy.settings.engines import checked_url
from understudy.settings.file import ConfigError, load_config, parse_config, resolve

UPSTREAM = {"upstream": {"base_url": "http://127.0.0.1:1/v1"}}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, ["nowhere to send requests", "upstream.base_url"]),
        (UPSTREAM | {"listen": {"port": "abc"}}, ["listen.port is 'abc'", "integer"]),
        (UPSTREAM | {"listen": {"port": 70000}}, ["listen.port is 70000", "65535"]),
        (UPSTREAM | {"lisen": {}}, ["lisen: no such setting", "did you mean listen?"]),
        (
            {"upstream": {"base_url": "ftp://x"}},
            ["upstream.base_url is 'ftp://x'", "https://api.openai.com/v1"],
        ),
        ({"upstream": {}}, ["upstream.base_url: required"]),
        ({"engines": {"a": {"kind": "magic"}}}, ["engines.a.kind", "'magic'", "openai"]),
        (
            UPSTREAM | {"models": {"m": {"engines": ["ghost"]}}},
            ["models.m", "'ghost'", "none are configured"],
        ),
        (
            {
                "engines": {"a": {"base_url": "http://x"}},
                "models": {"m": {"engines": ["a"], "policy": "few_shot"}},
            },
            ["models.m", "two engines"],
        ),
    ],
)
def test_an_error_names_key_value_and_remedy(data: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(data)
    for part in told:
        assert part in str(error.value)


def test_every_wrong_key_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(UPSTREAM | {"listen": {"port": "x", "workers": 0}, "log": {"level": "loud"}})
    assert all(key in str(error.value) for key in ("listen.port", "listen.workers", "log.level"))


@pytest.mark.parametrize(
    "data",
    [
        {"upstream": {"base_url": "http://x", "api_key": {"nested": "sk-canary"}}},
        {"engines": {"a": {"kind": "magic", "api_key": "sk-canary"}}},
        {"engines": {"a": {"base_url": "http://x", "api_key": ["sk-canary"]}}},
    ],
)
def test_no_secret_is_shown_in_an_error(data: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(data)
    assert "canary" not in str(error.value)


def test_references_come_from_the_environment() -> None:
    data = {"a": ["${HOST}:${PORT:-80}"], "b": "${EMPTY:-}", "c": 5}
    assert resolve(data, {"HOST": "h"}) == {"a": ["h:80"], "b": "", "c": 5}


def test_an_unset_reference_names_where_it_stands_and_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"upstream\.api_key: \$\{MISSING\} is not set.*export MISSING"):
        resolve({"upstream": {"api_key": "${MISSING}"}}, {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1", "not valid YAML: line"),
        ("- a\n- b", "must be a mapping"),
        ("'just text'", "must be a mapping"),
    ],
)
def test_a_file_that_is_not_a_mapping_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match=told):
        load_config(tmp_path / "c.yaml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml"):
        load_config(tmp_path / "gone.yaml")


def test_check_prints_effective_settings_with_secrets_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "sk-canary")
    path = tmp_path / "c.yaml"
    path.write_text(
        "upstream: {base_url: 'http://h/v1/', api_key: '${KEY}', advanced: {headers: {x-token: '${KEY}'}}}\n"
    )
    result = CliRunner().invoke(check, ["--all", str(path)])
    assert (
        result.exit_code == 0
        and "base_url: http://h/v1\n" in result.output
        and "grace_s: 30" in result.output
    )
    assert "canary" not in result.output and "api_key: '**********'" in result.output


def test_a_configuration_error_exits_with_2(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("upstream: {base_url: nonsense}")
    for command in (check, serve):
        arguments = [str(path)] if command is check else ["--config", str(path)]
        result = CliRunner().invoke(command, arguments)
        assert result.exit_code == 2 and "upstream.base_url is 'nonsense'" in result.output


class TestOptionsInsteadOfAFile:
    def test_an_upstream_alone_remembers_nothing(self) -> None:
        config = config_of_options({"upstream": "http://h/v1", "port": 9})
        assert config.memory is None and config.models == {} and config.listen.port == 9

    def test_a_data_folder_switches_memory_on(self, tmp_path: Path) -> None:
        memory = config_of_options({"upstream": "http://h/v1", "data": tmp_path}).memory
        assert memory is not None and memory.exact.enabled and not memory.examples.enabled

    def test_memory_off_wins_over_a_data_folder(self, tmp_path: Path) -> None:
        assert (
            config_of_options({"upstream": "http://h/v1", "data": tmp_path, "memory": "off"}).memory is None
        )

    def test_exact_on_without_a_folder_keeps_answers_for_this_run(self) -> None:
        memory = config_of_options({"upstream": "http://h/v1", "exact": "on"}).memory
        assert memory is not None and memory.exact.enabled and memory.data_dir is None

    def test_small_and_large_give_the_whole_line(self, tmp_path: Path) -> None:
        given = {"small": "http://localhost/v1=tiny", "large": "http://l/v1=gpt-4o", "data": tmp_path}
        config = config_of_options(given)
        assert config.models["gpt-4o"].policy == "few_shot" and config.models["gpt-4o"].engines == (
            "small",
            "large",
        )
        assert config.memory is not None and config.memory.examples.enabled
        assert config.upstream is not None and config.upstream.base_url == "http://l/v1"

    def test_an_upstream_that_is_named_stays_beside_the_whole_line(self) -> None:
        given = {"small": "http://localhost/v1=m", "large": "http://u/l=x", "upstream": "http://u/v1"}
        config = config_of_options(given)
        assert config.upstream is not None and config.upstream.base_url == "http://u/v1"

    @pytest.mark.parametrize(
        "given", [{"small": "http://s/v1=m"}, {"small": "nonsense", "large": "http://l/v1=m"}]
    )
    def test_half_a_line_is_refused(self, given: dict[str, str]) -> None:
        with pytest.raises(ConfigError):
            config_of_options(given)

    def test_the_timeout_holds_for_every_phase(self) -> None:
        upstream = config_of_options({"upstream": "http://h/v1", "upstream_timeout": 2.0}).upstream
        assert upstream is not None
        timeouts = upstream.advanced
        phases = timeouts.connect_s, timeouts.first_data_s, timeouts.gap_s, timeouts.answer_s
        assert phases == (2, 2, 2, 2)

    def test_a_file_and_its_settings_as_options_exclude_each_other(self, tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_text("upstream: {base_url: 'http://h/v1'}")
        result = CliRunner().invoke(serve, ["--config", str(tmp_path / "c.yaml"), "--upstream", "http://x"])
        assert result.exit_code == 2 and "--upstream and --config exclude each other" in result.output


@pytest.mark.parametrize("url", ["http://user:pw@h/v1", "http://h/v1?x=1", "h/v1", "http://"])
def test_a_base_url_that_would_surprise_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"credentials|query|must be an http"):
        checked_url(url)


def test_settings_cannot_change_after_reading() -> None:
    config = Config.model_validate(UPSTREAM)
    with pytest.raises(ValueError, match="frozen"):
        config.listen.port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("data", "meant"),
    [
        ({"memory": {"ttl_s": 3}}, "memory.ttl_s: no such setting; did you mean memory.exact.ttl_s?"),
        ({"lisen": {"port": 1}}, "did you mean listen?"),
        ({"models": {"m": {"engines": ["a"], "few_shot": {"tehta": 1}}}}, "models.m.few_shot.theta?"),
        ({"engines": {"x": {"base_url": "http://x", "max_infligt": 3}}}, "engines.x.max_in_flight?"),
        ({"log": {"zzz": 1}}, "docs/reference/settings.md"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(data: dict[str, Any], meant: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config({"upstream": {"base_url": "http://x"}} | data)
    assert meant in str(error.value)


@pytest.mark.parametrize(("was", "now"), [("false", "off"), ("true", "all"), ("standalone", "standalone")])
def test_follow_ups_was_a_boolean_and_says_the_same_as_before(was: str, now: str) -> None:
    text = f"""
    engines: {{a: {{base_url: http://127.0.0.1:9/v1}}}}
    models: {{m: {{engines: [a]}}}}
    memory: {{examples: {{follow_ups: {was}}}}}
    """
    memory = parse_config(yaml.safe_load(text)).memory
    assert memory is not None and memory.examples.follow_ups == now


@pytest.mark.parametrize(
    ("was", "now"), [("false", "off"), ("off", "off"), ("true", "examples"), ("route", "route")]
)
def test_with_tools_was_a_boolean_and_says_the_same_as_before(was: str, now: str) -> None:
    text = f"""
    engines: {{a: {{base_url: http://127.0.0.1:9/v1}}}}
    models: {{m: {{engines: [a], advanced: {{with_tools: {was}}}}}}}
    """
    assert parse_config(yaml.safe_load(text)).models["m"].advanced.with_tools == now
