"""What the image and compose files promise, as far as it can be checked without Docker."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from understudy.settings.file import parse_config

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.gpu.yaml").read_text(encoding="utf-8"))


def test_the_gateway_in_compose_has_a_valid_configuration_that_names_the_servers_beside_it() -> None:
    config = parse_config(yaml.safe_load(COMPOSE["configs"]["gateway"]["content"]))
    for name, engine in config.engines.items():
        assert engine.kind == "vllm" and engine.base_url == f"http://{name}:8000/v1"
        assert f"--served-model-name={engine.model}" in COMPOSE["services"][name]["command"]
        # A server without priority scheduling refuses every priority.
        assert "--scheduling-policy=priority" in COMPOSE["services"][name]["command"]


def test_every_server_is_waited_for_and_has_a_gpu_of_its_own() -> None:
    services = COMPOSE["services"]
    servers = {name: service for name, service in services.items() if "image" in service}
    assert set(services["gateway"]["depends_on"]) == set(servers)
    assert all(service["healthcheck"]["test"] for service in servers.values())
    gpus = [s["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"][0] for s in servers.values()]
    assert len(set(gpus)) == len(servers)


def test_nothing_is_exposed_beyond_this_machine() -> None:
    for service in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_image_copies_only_what_is_there_and_every_room() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    names = [re.search(r" AS (\w+)", stage.splitlines()[0]) for stage in stages]
    assert [name and name[1] for name in names] == ["wheel", "gpu", "build", "cpu"], (
        "the last one is the default"
    )
    wheel, gpu, build, cpu = stages
    copied = [_copied(stage) for stage in stages]
    assert all((ROOT / name).exists() for name in set().union(*copied))
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= copied[0]
    # What the wheel's stage makes is what both images install.
    assert "--wheel-dir /wheels ." in wheel
    for stage in (gpu, build):
        assert "COPY --from=wheel /wheels /wheels" in stage and "/wheels/*.whl" in stage
    assert all("USER understudy" in stage for stage in (gpu, cpu))


def test_the_images_start_the_projects_own_command() -> None:
    (command,) = PROJECT["project"]["scripts"]
    entries = re.findall(
        r'^ENTRYPOINT \["(?:.*/)?([^"/]+)"\]$', (ROOT / "Dockerfile").read_text(), re.MULTILINE
    )
    assert entries == [command, command]


def test_the_demos_lock_holds_what_the_gateway_runs_on_and_nothing_for_developers() -> None:
    gateway, demo, everything = (_pins(f"requirements{name}.lock") for name in ("", "-demo", "-dev"))
    assert gateway.items() <= demo.items()
    assert demo.keys() <= everything.keys()
    assert not demo.keys() & {"pytest", "mypy", "ruff", "playwright", "pip-tools"}


def test_the_demo_installs_its_own_lock_beside_the_developers() -> None:
    rules = re.findall(
        r"^(\$\(VENV\)/\S+): (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert dict(rules) == {
        "$(VENV)/installed-demo": "requirements-demo.lock",
        "$(VENV)/installed": "requirements-dev.lock",
    }


def _pins(lock: str) -> dict[str, str]:
    return dict(
        re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE)
    )


def _copied(stage: str) -> set[str]:
    """Names in the repository."""
    lines = re.findall(r"^COPY (?!--from)(.*)$", stage, re.MULTILINE)
    return {word for line in lines for word in line.split()[:-1]}


def test_image_compose_and_extra_name_one_version_of_vllm() -> None:
    found = {
        re.search(r"ARG VLLM=([\d.]+)", (ROOT / "Dockerfile").read_text())[1],  # type: ignore[index]
        COMPOSE["services"]["small"]["image"].rpartition(":v")[2],
        COMPOSE["services"]["large"]["image"].rpartition(":v")[2],
    }
    assert found == {"0.32.0"} and '"vllm>=0.32,<0.33"' in (ROOT / "pyproject.toml").read_text()
