"""What the image and compose files promise, as far as it can be checked without Docker."""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from urllib.request import urlopen

import pytest
import yaml
from click import Context

from tests.flow.process import serving
from understudy.__main__ import main
from understudy.settings.file import parse_config, resolve

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
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


def test_commands_of_the_documentation_are_found_inside_the_image() -> None:
    """`docker compose exec gateway understudy keys create` looks along PATH, not where ENTRYPOINT points."""
    cpu = (ROOT / "Dockerfile").read_text(encoding="utf-8").rpartition("FROM ")[2]
    (copied,) = re.findall(r"^COPY --from=build (\S+) \S+$", cpu, re.MULTILINE)
    (entry,) = re.findall(r'^ENTRYPOINT \["(\S+)/understudy"\]$', cpu, re.MULTILINE)
    (path,) = re.findall(r"^ENV PATH=(\S+):\$PATH$", cpu, re.MULTILINE)
    assert path == entry == f"{copied}/bin"


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


def test_the_cpu_image_starts_as_its_own_file_says() -> None:
    cpu = (ROOT / "Dockerfile").read_text(encoding="utf-8").rpartition("FROM ")[2]
    (source, target) = re.findall(r"^COPY (deploy/\S+) (\S+)$", cpu, re.MULTILINE)[0]
    words = json.loads(re.findall(r"^CMD (.*)$", cpu, re.MULTILINE)[0])
    assert words == ["serve", "--config", target, "--host", "0.0.0.0", "--port", "8080"]
    assert "VOLUME /data" in cpu and "data_dir: ${UNDERSTUDY_DATA:-/data}" in (ROOT / source).read_text()


def test_the_compose_file_runs_that_image_on_this_machine_only() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    (gateway,) = compose["services"].values()
    assert gateway["build"] == {"context": ".", "dockerfile": "Dockerfile", "target": "cpu"}
    assert all(port.startswith("127.0.0.1:") for port in gateway["ports"])
    assert set(compose["volumes"]) == {volume.partition(":")[0] for volume in gateway["volumes"]}
    data = yaml.safe_load((DEPLOY / "image-config.yaml").read_text(encoding="utf-8"))
    listens = {"UNDERSTUDY_ADMIN_HOST": gateway["environment"]["UNDERSTUDY_ADMIN_HOST"]}
    config = parse_config(resolve(data, listens))
    assert config.admin.host == "0.0.0.0"
    published = {port.rpartition(":")[2] for port in gateway["ports"]}
    assert published == {str(config.listen.port), str(config.admin.port)}
    assert parse_config(resolve(data, {})).admin.host == "127.0.0.1"


def test_compose_files_have_projects_of_their_own_and_no_port_twice() -> None:
    files = [ROOT / "compose.yaml", ROOT / "compose.gpu.yaml", DEPLOY / "compose.postgresql.yaml"]
    read = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    assert len({compose["name"] for compose in read}) == len(files)
    for compose in read:
        ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
        hosts = [port.rpartition(":")[0] for port in ports]
        assert len(hosts) == len(set(hosts))
        # The admin pages can be reached from outside the container.
        assert any(port.endswith(":8081") for port in ports)


def test_what_the_image_copies_reaches_the_builder_and_no_data_does() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    stages = re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert "*" in lines and let_in == set().union(*map(_copied, stages))


IN_CONTAINERS = re.compile(
    r"(?:docker compose (?:-f \S+ )?exec \S+|kubectl (?:-n \S+ )?exec (?:\{\{.*?\}\}|\S+) --) (understudy [^#`)\n]+)"
)


def container_commands() -> set[str]:
    """What documentation and deployment files tell to run inside a container."""
    files = [ROOT / "README.md", ROOT / "compose.yaml", ROOT / "compose.gpu.yaml"]
    for folder in (DEPLOY, ROOT / "docs"):
        files += [each for each in folder.rglob("*") if each.suffix in {".md", ".yaml", ".txt"}]
    found = (IN_CONTAINERS.findall(file.read_text(encoding="utf-8")) for file in files)
    return {" ".join(words.split()) for each in found for words in each}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder laid out as the CPU image: the wheel in /opt/understudy, the configuration in /etc/understudy, and /data."""
    root = tmp_path_factory.mktemp("image")
    made, wheels = root / "opt" / "understudy", root / "wheels"
    venv.create(made, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run([*pip, *build], check=True, capture_output=True)
    (wheel,) = wheels.glob("*.whl")
    python = str(made / "bin" / "python")
    install = ["--python", python, "install", "--no-deps", "--no-compile", "--no-index", str(wheel)]
    subprocess.run([*pip, *install], check=True, capture_output=True)
    # What the lock installs is taken from where the tests run; our own packages come from the wheel.
    (packages,) = made.glob("lib/python*/site-packages")
    (packages / "locked.pth").write_text(sysconfig.get_path("purelib"))
    (root / "etc" / "understudy").mkdir(parents=True)
    shutil.copy(DEPLOY / "image-config.yaml", root / "etc" / "understudy" / "config.yaml")
    (root / "data").mkdir()
    return root


def inside(image: Path) -> dict[str, str]:
    """The container's environment: nothing of this machine's but what a shell has."""
    cpu = (ROOT / "Dockerfile").read_text(encoding="utf-8").rpartition("FROM ")[2]
    (path,) = re.findall(r"^ENV PATH=(\S+):\$PATH$", cpu, re.MULTILINE)
    here = {"PATH": f"{image}{path}:/usr/bin:/bin", "HOME": str(image / "data"), "LANG": "C.UTF-8"}
    return {**here, "UNDERSTUDY_DATA": str(image / "data")}


def placed(words: str, image: Path) -> list[str]:
    """The command with the image's folders in place of the root's."""
    return [re.sub(r"^/(data|etc)\b", rf"{image}/\1", word) for word in shlex.split(words)]


def test_every_command_documented_for_containers_runs_inside_the_image(image: Path) -> None:
    commands = container_commands()
    assert {words.split()[1] for words in commands} >= {"admin", "check", "keys", "reload"}
    environment = inside(image)
    words = placed("understudy serve --config /etc/understudy/config.yaml --host 0.0.0.0 --port 0", image)
    program = shutil.which(words[0], path=environment["PATH"])
    assert program == str(image / "opt" / "understudy" / "bin" / "understudy")
    with serving([program, *words[1:], "--admin", "off"], environment, cwd=image) as gateway:
        with urlopen(f"{gateway.origin}/readyz", timeout=60) as answer:
            assert answer.status == 200
        # Making a key comes last: where there is one, every client needs one.
        for command in sorted(commands, key=lambda words: "keys" in words):
            done = subprocess.run(
                placed(command, image),
                env=environment,
                cwd=image,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert (image / "data" / "understudy.db").exists()


def test_the_image_runs_what_is_in_the_wheel(image: Path) -> None:
    code = "import understudy, store, admin; print(understudy.__file__, store.__file__, admin.__file__)"
    done = subprocess.run(
        ["python", "-c", code], env=inside(image), cwd=image, capture_output=True, text=True, check=True
    )
    packages = str(image / "opt" / "understudy" / "lib")
    assert all(file.startswith(packages) for file in done.stdout.split()), done.stdout


@pytest.mark.parametrize("command", sorted(main.list_commands(Context(main))))
def test_every_command_is_in_the_image(image: Path, command: str) -> None:
    words = ["understudy", command, "--help"]
    done = subprocess.run(words, env=inside(image), cwd=image, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Usage:" in done.stdout, done.stderr


def test_the_image_with_vllm_adds_to_the_systems_python_and_spawns() -> None:
    (gpu,) = [
        stage
        for stage in re.split(
            r"^FROM ", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE
        )
        if re.match(r"\S+ AS gpu\n", stage)
    ]
    assert gpu.index("ENV PIP_BREAK_SYSTEM_PACKAGES=1") < gpu.index("pip install")
    # Beside python3, on the PATH, not in an environment of its own.
    assert 'ENTRYPOINT ["understudy"]' in gpu and "VLLM_WORKER_MULTIPROC_METHOD=spawn" in gpu


def test_the_systemd_unit_is_one_that_systemd_reads_and_starts_a_command_of_ours(tmp_path: Path) -> None:
    text = (DEPLOY / "understudy.service").read_text(encoding="utf-8")
    (started,) = re.findall(r"^ExecStart=\S+/understudy (.*)$", text, re.MULTILINE)
    command, *options = started.split()
    known = {name for each in main.get_command(Context(main), command).params for name in each.opts}  # type: ignore[union-attr]
    assert {word for word in options if word.startswith("-")} <= known
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # The command is not installed where tests run.
    unit = tmp_path / "understudy.service"
    unit.write_text(re.sub(r"=\S+/understudy ", "=/bin/true ", text))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")


def manifests(name: str = "kubernetes") -> list[dict[str, Any]]:
    """What `kubectl kustomize` makes of the folder, as far as this project's files use it."""
    folder = DEPLOY / name
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    found = [
        yaml.safe_load((folder / name).read_text(encoding="utf-8")) for name in kustomization["resources"]
    ]
    for made in kustomization["configMapGenerator"]:
        data = {name: (folder / name).read_text(encoding="utf-8") for name in made["files"]}
        metadata = {"name": made["name"]}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return found


def test_the_kubernetes_manifests_fit_together() -> None:
    by_kind = {each["kind"]: each for each in manifests()}
    workload, service = by_kind["StatefulSet"], by_kind["Service"]
    pod = workload["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    labels = pod["metadata"]["labels"]
    assert workload["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    assert workload["spec"]["serviceName"] == service["metadata"]["name"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= set(ports)
    probes = [container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("startup", "liveness", "readiness")]
    assert set(probes) <= set(ports)
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in workload["spec"]["volumeClaimTemplates"]}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]} | claims
    data = yaml.safe_load(by_kind["ConfigMap"]["data"]["config.yaml"])
    config = parse_config(resolve(data, {"OPENAI_API_KEY": "sk-1", "UNDERSTUDY_KEY": "us-" + "k" * 30}))
    assert config.listen.port == ports["http"] and config.memory is not None
    assert str(config.memory.data_dir) in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert pod["spec"]["terminationGracePeriodSeconds"] > config.listen.grace_s + 30
    assert pod["spec"]["securityContext"]["runAsUser"] == 10001, "the image's user"


@pytest.mark.parametrize("version", ["1.30", "1.32", "1.36"])
@pytest.mark.parametrize("folder", ["kubernetes", "kubernetes-postgresql"])
def test_the_kubernetes_manifests_obey_the_schemas_of_kubernetes(folder: str, version: str) -> None:
    """The schemas come with the package; nothing is asked over the network."""
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for manifest in manifests(folder) + (secrets() if folder == "kubernetes-postgresql" else []):
        validator.validate(manifest, version, strict=True)


# ---- replicas on PostgreSQL


DATABASE_SECRETS = {"OPENAI_API_KEY": "sk-1", "UNDERSTUDY_KEY": "us-" + "k" * 30}


def secrets() -> list[dict[str, Any]]:
    text = (DEPLOY / "kubernetes-postgresql" / "secrets.example.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def test_replicas_on_postgresql_fit_together() -> None:
    by_kind = {each["kind"]: each for each in manifests("kubernetes-postgresql")}
    workload, service = by_kind["Deployment"], by_kind["Service"]
    pod = workload["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    labels = pod["metadata"]["labels"]
    selectors = [workload["spec"]["selector"], by_kind["PodDisruptionBudget"]["spec"]["selector"]]
    assert [labels] * 3 == [*(each["matchLabels"] for each in selectors), service["spec"]["selector"]]
    assert labels != by_kind["Job"]["spec"]["template"]["metadata"]["labels"], "the Service must not find it"
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= {
        p["name"] for p in container["ports"]
    }
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounted.values()) == {volume["name"] for volume in pod["spec"]["volumes"]}
    # An upgrade never leaves fewer that serve, and a drained node one less at most.
    assert workload["spec"]["replicas"] == 3
    assert workload["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert by_kind["PodDisruptionBudget"]["spec"]["minAvailable"] == 2
    held = {secret["metadata"]["name"]: secret.get("stringData") or secret["data"] for secret in secrets()}
    url = held["understudy"]["UNDERSTUDY_DATABASE_URL"]
    data = yaml.safe_load(by_kind["ConfigMap"]["data"]["config.yaml"])
    config = parse_config(resolve(data, {**DATABASE_SECRETS, "UNDERSTUDY_DATABASE_URL": url}))
    assert config.listen.port == container["ports"][0]["containerPort"] and config.memory is not None
    assert mounted[str(config.memory.data_dir)] == "data" and mounted["/data/secret"] == "installation"
    assert len(base64.b64decode(held["understudy-installation"]["secret"])) == 32
    assert pod["spec"]["terminationGracePeriodSeconds"] > config.listen.grace_s + 30


def test_only_the_migration_has_the_owners_password_and_both_verify_the_server() -> None:
    held = {secret["metadata"]["name"]: secret.get("stringData") or secret["data"] for secret in secrets()}
    by_kind = {each["kind"]: each for each in manifests("kubernetes-postgresql")}
    pods = {kind: by_kind[kind]["spec"]["template"]["spec"] for kind in ("Job", "Deployment")}
    users = {}
    for kind, pod in pods.items():
        (container,) = pod["containers"]
        named = {source["secretRef"]["name"] for source in container["envFrom"]}
        named |= {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
        assert named <= set(held)
        (url,) = {held[name].get("UNDERSTUDY_DATABASE_URL") for name in named} - {None}
        assert url not in str(container["args"])
        parts = urlsplit(url)
        users[kind] = parts.username
        options = dict(parse_qsl(parts.query))
        assert options["sslmode"] == "verify-full"
        folder, _, file = options["sslrootcert"].rpartition("/")
        assert folder in {mount["mountPath"] for mount in container["volumeMounts"]}
        assert file in held["understudy-database"]
    assert users == {"Job": "understudy_owner", "Deployment": "understudy_gateway"}
    (migrating,) = pods["Job"]["containers"]
    assert migrating["args"] == ["store", "migrate", "--grant", "understudy_gateway"]
    # The release is in the Job's name: a Job that is there already cannot be changed.
    version = PROJECT["project"]["version"].replace(".", "-")
    assert by_kind["Job"]["metadata"]["name"] == f"understudy-migrate-{version}"


def test_gateways_and_postgresql_in_compose_fit_together() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.postgresql.yaml").read_text(encoding="utf-8"))
    services = compose["services"]
    gateways = [service for name, service in services.items() if name.startswith("gateway")]
    assert len(gateways) == 2
    (url,) = {gateway["environment"]["UNDERSTUDY_DATABASE_URL"] for gateway in gateways}
    assert services["migrate"]["environment"]["UNDERSTUDY_DATABASE_URL"] == url
    url = url.replace("${DATABASE_PASSWORD:?}", "letters")
    parts = urlsplit(url)
    assert parts.hostname in services and dict(parse_qsl(parts.query))["sslmode"] == "verify-full"
    content = compose["configs"]["gateway"]["content"].replace("$$", "$")
    environment = {"UNDERSTUDY_UPSTREAM": "http://127.0.0.1:9/v1", "UNDERSTUDY_DATABASE_URL": url}
    config = parse_config(resolve(yaml.safe_load(content), environment))
    assert config.memory is not None
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    for gateway in gateways:
        assert any(tmpfs.split(":")[0] == str(config.memory.data_dir) for tmpfs in gateway["tmpfs"])
        assert f"./secret:{config.memory.data_dir}/secret:ro" in gateway["volumes"]
        assert gateway["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_the_image_can_reach_postgresql() -> None:
    base, image = _pins("requirements.lock"), _pins("requirements-postgres.lock")
    developers = _pins("requirements-dev.lock")
    assert dict(image.items() - base.items()) == {
        name: developers[name] for name in ("psycopg", "psycopg-binary", "psycopg-pool")
    }
    assert base.items() <= image.items()
    assert "-r requirements-postgres.lock" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


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
