"""What the image and compose files promise, as far as it can be checked without Docker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from understudy.settings.file import parse_config

ROOT = Path(__file__).parent.parent
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
    assert {"gateway", "engines", "store", "router", "admin", "loadtest"} <= copied[0]
    # What the wheel's stage makes is what both images install.
    assert "--wheel-dir /wheels ." in wheel
    for stage in (gpu, build):
        assert "COPY --from=wheel /wheels /wheels" in stage and "/wheels/*.whl" in stage
    assert all("USER understudy" in stage for stage in (gpu, cpu))


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
