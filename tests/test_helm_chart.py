"""What the Helm chart and the kustomize folders come to, made by `helm` and `kubectl` themselves (`make helm`)."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm import tool
from understudy.settings.file import parse_config, resolve

ROOT = Path(__file__).parent.parent
CHART = ROOT / "deploy" / "helm" / "understudy"
ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-1",
    "UNDERSTUDY_KEY": "us-" + "k" * 30,
    "UNDERSTUDY_DATABASE_URL": "postgresql://g:p@db.example/understudy?sslmode=verify-full",
}
POSTGRESQL = ("postgresql.enabled=true", "autoscaling.enabled=true", "serviceMonitor.enabled=true")
SHAPES = {
    "sqlite": (),
    "postgresql": POSTGRESQL,
    "bare": ("restartOnConfigChange=false", "admin.exposed=true", "persistence.storageClassName=fast"),
    "fixed": ("postgresql.enabled=true", "nodeSelector.disk=ssd", "imagePullSecrets[0].name=registry"),
}


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tool("helm"), *words], capture_output=True, text=True, check=False, timeout=120)


def rendered(*values: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Manifests by kind and name, of a release called `gw`."""
    options = [word for value in values for word in ("--set", value)]
    made = helm("template", "gw", str(CHART), *options)
    assert made.returncode == 0, made.stderr
    found = [each for each in yaml.safe_load_all(made.stdout) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = manifest["spec"]["template"]
    return pod


def test_helm_finds_nothing_wrong_with_the_chart() -> None:
    linted = helm("lint", "--strict", str(CHART))
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize("version", ["1.30", "1.32", "1.36"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_the_chart_makes_obeys_the_schemas_of_kubernetes(shape: str, version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for (kind, _), manifest in rendered(*SHAPES[shape]).items():
        # Of the Prometheus operator, whose schema is not among those of Kubernetes.
        if kind != "ServiceMonitor":
            validator.validate(manifest, version, strict=True)


@pytest.mark.parametrize("folder", ["kubernetes", "kubernetes-postgresql"])
def test_what_kustomize_makes_obeys_the_schemas_of_kubernetes(folder: str) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    words = [tool("kubectl"), "kustomize", str(ROOT / "deploy" / folder)]
    made = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    for manifest in yaml.safe_load_all(made.stdout):
        validator.validate(manifest, "1.32", strict=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_parts_of_a_release_fit_together(shape: str) -> None:
    made = rendered(*SHAPES[shape])
    workload = made.get(("Deployment", "gw-understudy")) or made["StatefulSet", "gw-understudy"]
    pod = pod_of(workload)
    (container,) = pod["spec"]["containers"]
    labels = pod["metadata"]["labels"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    services = [each for (kind, _), each in made.items() if kind == "Service"]
    assert [each["spec"]["selector"] for each in services] == [labels, labels]
    assert workload["spec"]["selector"]["matchLabels"] == labels
    assert {port["targetPort"] for each in services for port in each["spec"]["ports"]} == set(ports)
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]} | claims
    assert ("checksum/config" in pod["metadata"]["annotations"]) == (shape != "bare")
    data = yaml.safe_load(made["ConfigMap", "gw-understudy"]["data"]["config.yaml"])
    config = parse_config(resolve(data, ENVIRONMENT))
    assert (config.listen.port, config.admin.port) == (ports["http"], ports["admin"])
    assert config.admin.host == ("0.0.0.0" if shape == "bare" else "127.0.0.1")
    assert config.memory is not None
    assert str(config.memory.data_dir) in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert (config.memory.database_url is not None) == ("postgresql.enabled=true" in SHAPES[shape])
    assert pod["spec"]["terminationGracePeriodSeconds"] > config.listen.grace_s + 30


def test_replicas_are_scaled_by_requests_under_way_and_drained_one_at_a_time() -> None:
    made = rendered(*POSTGRESQL)
    scaler = made["HorizontalPodAutoscaler", "gw-understudy"]["spec"]
    workload = made["Deployment", "gw-understudy"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == "gw-understudy" and "replicas" not in workload
    metric = scaler["metrics"][0]["pods"]["metric"]["name"]
    assert f"`{metric}`" in (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    budget = made["PodDisruptionBudget", "gw-understudy"]["spec"]
    assert budget["maxUnavailable"] == 1 and budget["selector"] == workload["selector"]
    migrating = made["Job", "gw-understudy-migrate"]
    assert migrating["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert not (
        workload["selector"]["matchLabels"].items() <= pod_of(migrating)["metadata"]["labels"].items()
    )
    secret = pod_of(migrating)["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"]
    assert secret not in json.dumps(pod_of(made["Deployment", "gw-understudy"]))


def test_prometheus_scrapes_the_gateways_service_alone() -> None:
    made = rendered(*POSTGRESQL)
    monitor = made["ServiceMonitor", "gw-understudy"]["spec"]
    services = {name: each for (kind, name), each in made.items() if kind == "Service"}
    chosen = monitor["selector"]["matchLabels"].items()
    assert all(chosen <= each["metadata"]["labels"].items() for each in services.values())
    (left_out,) = monitor["selector"]["matchExpressions"]
    found = [n for n, each in services.items() if left_out["key"] not in each["metadata"]["labels"]]
    assert left_out["operator"] == "DoesNotExist" and found == ["gw-understudy"]
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in services["gw-understudy"]["spec"]["ports"]}
    assert endpoint["path"] == "/metrics"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("replica=3", "replica"),
        ("config.listen.host=127.0.0.1", "/config/listen/host"),
        ("config.memory.data_dir=/elsewhere", "/config/memory/data_dir"),
        ("persistence.size=lots", "/persistence/size"),
        ("replicas=0", "/replicas"),
        ("autoscaling.enabled=true", "needs postgresql.enabled"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(value: str, named: str) -> None:
    refused = helm("template", "gw", str(CHART), "--set", value)
    assert refused.returncode != 0 and named in refused.stderr


def test_every_value_has_a_schema_and_a_large_number_stays_one() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert set(schema["properties"]) == set(values) | {"global"}
    made = rendered("config.memory.examples.max_stored=2000000")
    data = yaml.safe_load(made["ConfigMap", "gw-understudy"]["data"]["config.yaml"])
    assert data["memory"]["examples"]["max_stored"] == 2_000_000


def test_the_notes_say_how_to_reach_it() -> None:
    said = helm("install", "gw", str(CHART), "--dry-run=client", "--set", "postgresql.enabled=true").stdout
    notes = said.rpartition("NOTES:")[2]
    assert "port-forward service/gw-understudy-admin 8081:8081" in notes
    assert re.search(r"exec deployment/gw-understudy -- understudy admin password --data /data", notes)


def test_the_chart_is_of_the_release() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert chart["version"] == chart["appVersion"] == version
