"""The Grafana dashboard and the alerts against the code: each query's series and labels are declared by it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from gateway.components.metrics import ComponentMetrics
from gateway.metrics import Metrics
from gateway.reuse.metrics import SemanticMetrics
from gateway.runs.metrics import RunMetrics
from gateway.task_metrics import TaskMetrics
from gateway.telemetry.described import Describer
from gateway.telemetry.export import Collector, Telemetry, TelemetryMetrics
from learning.bank.warm.prefixes import KvMetrics
from learning.outcomes.judging_metrics import JudgingMetrics
from learning.replay.asking import ReplayMetrics
from learning.training.metrics import LearningMetrics
from understudy.background.load_report import LoadMetrics
from understudy.background.quality_watch import QualityMetrics
from understudy.webhooks.webhooks import WebhookMetrics

ROOT = Path(__file__).parent.parent
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "understudy.json").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text(encoding="utf-8"))
ENDINGS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


def declared() -> dict[str, set[str]]:
    """Labels of every series, by its name."""
    registry = CollectorRegistry()
    Metrics(registry)
    for made in (
        ComponentMetrics,
        SemanticMetrics,
        RunMetrics,
        TaskMetrics,
        KvMetrics,
        JudgingMetrics,
        ReplayMetrics,
        LearningMetrics,
        QualityMetrics,
        LoadMetrics,
        WebhookMetrics,
    ):
        made(registry)
    nowhere = Collector("http://127.0.0.1:9", {}, "understudy", timeout_s=1, metrics_every_s=1)
    Telemetry(nowhere, Describer(lambda engine, host: "openai"), TelemetryMetrics(registry))
    return {
        metric._name + ending: {*metric._labelnames, *(("le",) if metric._type == "histogram" else ())}
        for metric in set(registry._collector_to_names)
        for ending in ENDINGS[metric._type]
    }


def queries() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    variables: list[dict[str, Any]] = DASHBOARD["templating"]["list"]
    return [*panels, *(each["query"]["query"] for each in variables if each["type"] == "query")]


def used(query: str) -> dict[str, set[str]]:
    """Labels that a query's selectors name, by series."""
    found: dict[str, set[str]] = {}
    for name, selector in re.findall(r"(understudy_[a-z_]+)(\{[^}]*\})?", query):
        found.setdefault(name, set()).update(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", selector))
    return found


@pytest.fixture(scope="module")
def series() -> dict[str, set[str]]:
    return declared()


def rules() -> list[dict[str, Any]]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


def grouped(query: str) -> set[str]:
    """Labels that a query groups or matches by."""
    lists = re.findall(r"\b(?:by|without|ignoring|on) ?\(([^)]*)\)", query)
    return {label.strip() for labels in lists for label in labels.split(",")}


def wrong_names(query: str, series: dict[str, set[str]]) -> set[str]:
    """Series and labels of a query that nothing declares."""
    assert query.count("(") == query.count(")") and query.count("{") == query.count("}"), query
    found = used(query)
    assert found, f"a query without a series of ours: {query}"
    known = set.union(*(series.get(name, set()) for name in found))
    variable = re.fullmatch(r"label_values\(.*, ([a-z_]+)\)", query)
    named = set.union(*found.values()) | grouped(query) | ({variable[1]} if variable else set())
    return {f"{name}: no such series" for name in found if name not in series} | {
        f"{label} is no label in {query}" for label in named - known
    }


def test_every_query_names_series_and_labels_that_exist(series: dict[str, set[str]]) -> None:
    assert len(queries()) > 30
    assert not set().union(*(wrong_names(query, series) for query in queries()))


def test_every_alert_names_series_and_labels_that_exist(series: dict[str, set[str]]) -> None:
    assert len(rules()) > 10
    assert not set().union(*(wrong_names(rule["expr"], series) for rule in rules()))


def test_an_alert_has_what_prometheus_wants_and_says_only_labels_that_its_query_leaves() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m")), rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        said = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert said <= grouped(rule["expr"]), rule["alert"]


def test_every_variable_that_a_query_uses_is_declared() -> None:
    declared = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"])))
    assert used - {"__rate_interval"} <= declared


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
