"""Engines that would be asked in an API that they do not speak, and how kinds of engines are configured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from understudy.commands.check import check
from understudy.settings.file import ConfigError, parse_config

CLAUDE = {"kind": "anthropic", "base_url": "https://api.anthropic.com", "api_key": "k"}
WORDS = {"base_url": "https://api.openai.com/v1", "api_key": "k"}
VECTORS = WORDS | {"apis": ["embeddings"]}


def parsed(**more: Any) -> Any:
    return parse_config(
        {
            "engines": {"claude": CLAUDE, "words": WORDS, "vectors": VECTORS},
            "models": {"m": {"engines": ["words"]}},
        }
        | more
    )


@pytest.mark.parametrize(
    ("more", "setting"),
    [
        ({"judging": {"engine": "vectors"}}, "judging.engine"),
        ({"replay": {"judge": "vectors"}}, "replay.judge"),
        ({"replay": {"advanced": {"generator": "vectors"}}}, "replay.advanced.generator"),
        ({"engines": {"words": WORDS | {"apis": []}}}, "apis"),
        ({"engines": {"words": WORDS | {"apis": ["speech"]}}}, "apis"),
        ({"engines": {"words": CLAUDE | {"base_url": "https://api.anthropic.com/v1/messages"}}}, "endpoint"),
        ({"engines": {"words": WORDS | {"kind": "azure", "api_version": "../x"}}}, "api_version"),
        ({"engines": {"words": WORDS | {"api_version": "2024-10-21"}}}, "api_version"),
        ({"upstream": WORDS | {"api_version": "2024-10-21"}}, "api_version"),
    ],
)
def test_what_could_never_work_is_refused(more: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        parsed(**more)


@pytest.mark.parametrize(
    ("kind", "url", "asked_at"),
    [
        ("anthropic", "https://api.anthropic.com", "https://api.anthropic.com/v1"),
        ("anthropic", "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1"),
        ("anthropic", "https://x.example/anthropic", "https://x.example/anthropic"),
        ("azure", "https://n.openai.azure.com/", "https://n.openai.azure.com"),
        ("azure", "https://n.openai.azure.com/openai", "https://n.openai.azure.com"),
        ("azure", "https://n.openai.azure.com/openai/v1", "https://n.openai.azure.com"),
        ("azure", "https://gate.example/azure", "https://gate.example/azure"),
        ("openai", "https://x.example/v1", "https://x.example/v1"),
    ],
)
def test_a_base_url_is_taken_as_its_own_clients_write_it(kind: str, url: str, asked_at: str) -> None:
    given = {"kind": kind, "base_url": url, "api_key": "k"}
    config = parsed(engines={"words": given}, upstream=given)
    assert config.engines["words"].url == config.upstream.url == asked_at


def test_engines_of_one_model_that_share_no_api_are_told(tmp_path: Path) -> None:
    assert parsed().unspoken() == []
    mixed = {"m": {"engines": ["claude", "words"]}}
    assert parsed(models=mixed, judging={"engine": "claude"}).unspoken() == [], "requests are translated"
    spoken = {"claude": CLAUDE, "words": WORDS | {"apis": ["completions"]}}
    (told,) = parsed(engines=spoken, models=mixed).unspoken()
    assert told.startswith("models.m.engines speak no API in common") and "words (completions)" in told
    larger = {"m": {"engines": ["claude"], "larger_context": "words"}}
    (told,) = parsed(engines=spoken, models=larger).unspoken()
    assert "models.m.larger_context names 'words', which speaks completions only" in told
    file = tmp_path / "c.yaml"
    file.write_text(
        "engines:\n  a: {kind: anthropic, base_url: 'https://a.example', api_key: k}\n"
        "  b: {base_url: 'https://b.example/v1', api_key: k, apis: [completions]}\nmodels: {m: {engines: [a, b]}}\n"
    )
    done = CliRunner().invoke(check, [str(file)])
    assert done.exit_code == 0 and "understudy: warning: models.m.engines speak no API" in done.stderr


def test_a_salted_engine_is_told_of_where_its_salt_is_not_taken() -> None:
    vllm = {"kind": "vllm", "base_url": "http://127.0.0.1:8000/v1"}
    keys = {name: {"secret": f"{name}-0123456789abcdef", "tenant": name} for name in ("a", "b")}
    more = {"memory": {"data_dir": None}, "keys": keys}
    (told,) = parsed(engines={"words": vllm}, **more).unspoken()
    assert told.startswith("engines.words.salted") and "no cache_salt with messages" in told
    assert parsed(engines={"words": vllm}).unspoken() == []
    for other in ({"salted": False}, {"apis": ["chat"]}):
        assert parsed(engines={"words": vllm | other}, **more).unspoken() == []
