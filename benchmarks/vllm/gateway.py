"""Makes vLLM's environment fit to run the gateway in, for engines of kind vllm-local: `python -m benchmarks.vllm.gateway`.

What the gateway depends on is added beside vLLM; what is there and fits stays as vLLM wants it. The code itself is not
installed: PYTHONPATH names it. Needs nothing but the standard library.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

from benchmarks.vllm.environment import ROOT, folder, install, is_installed

_STAMP = "gateway-installed"


def dependencies() -> list[str]:
    """What the gateway's base installation asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["dependencies"])


def is_fit(environment: Path) -> bool:
    """Whether vLLM is there, and everything the gateway needs now."""
    stamp = environment / _STAMP
    return is_installed(environment) and stamp.is_file() and stamp.read_text().split("\n") == dependencies()


def python(environment: Path) -> Path:
    """Its interpreter."""
    return environment / "bin" / "python"


def add_gateway(environment: Path) -> None:
    """Installs what is missing; returns at once where nothing is. Raises subprocess.CalledProcessError if pip fails."""
    if is_fit(environment):
        return
    install(environment)
    pip = [str(python(environment)), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *dependencies()], check=True)
    (environment / _STAMP).write_text("\n".join(dependencies()))


if __name__ == "__main__":
    add_gateway(Path(sys.argv[1]) if len(sys.argv) > 1 else folder())
