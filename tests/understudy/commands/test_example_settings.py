"""What a command takes from the configuration: the file's own values, else defaults; what is wrong ends it, named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.line import MODELS
from understudy.commands.example_settings import embedder_for, example_settings
from understudy.commands.giving_up import give_up
from understudy.settings.memory import ExampleSettings, MemoryAdvanced, MemorySettings


def test_without_a_file_the_defaults_hold() -> None:
    assert example_settings(None) == MemorySettings()


def test_the_files_own_values_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        f"upstream: {{base_url: http://127.0.0.1:9/v1}}\nmemory: {{data_dir: {tmp_path}, examples: {{max_stored: 7}}}}\n"
    )
    assert example_settings(file).examples.max_stored == 7
    file.write_text("upstream: {base_url: http://127.0.0.1:9/v1}\n")
    assert example_settings(file) == MemorySettings()


def test_a_broken_file_ends_the_command_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("memry: {}\n")
    with pytest.raises(SystemExit) as ended:
        example_settings(file)
    assert ended.value.code == 2 and "memry" in capsys.readouterr().err


def test_a_missing_model_ends_the_command_with_its_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = MemorySettings(examples=ExampleSettings(embedding_model=f"folder:{tmp_path}/nowhere"))
    with pytest.raises(SystemExit) as ended, embedder_for(tmp_path, settings):
        pass
    assert ended.value.code == 2 and "nowhere" in capsys.readouterr().err


def test_the_embedder_is_the_one_of_the_settings(tmp_path: Path) -> None:
    settings = MemorySettings(advanced=MemoryAdvanced(embedding_cache_dir=MODELS))
    with embedder_for(tmp_path, settings) as embedder:
        assert embedder.embed_blocking("How do I list files?").shape == (embedder.dimensions,)
    assert not (tmp_path / "models").exists(), "the cache that was named is used"


def test_giving_up_says_why_on_standard_error_and_sets_the_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        give_up("no bank", status=130)
    assert ended.value.code == 130
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "understudy: no bank\n")
