"""What a worker lets go to small engines: what the account proves, and no more than x once nobody keeps the account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from learning.training.metrics import LearningMetrics
from store.learned.quality_floors import FloorRow, QualityFloors
from store.sqlite.database import Database
from understudy.setup.in_context import Caps


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[QualityFloors]:
    db = Database.open(tmp_path / "understudy.db")
    yield QualityFloors(db)
    db.close()


def keep(rows: QualityFloors, tenant: str, cap: float, at_s: float) -> None:
    assert rows.put(FloorRow(tenant, "m", at_s, cap, "holds", 1, 1, "{}")).result(30)


def test_a_tenant_without_an_account_has_what_needs_no_proof(rows: QualityFloors) -> None:
    caps = Caps(rows, "m", 0.02, LearningMetrics(CollectorRegistry()))
    keep(rows, "b", 1.0, 1000.0)
    assert caps.cap("a", "m") == 0.02


def test_an_account_that_nobody_keeps_any_more_is_not_trusted(rows: QualityFloors) -> None:
    now = [1000.0]
    caps = Caps(rows, "m", 0.02, LearningMetrics(CollectorRegistry()), clock=lambda: now[0])
    keep(rows, "a", 0.7, 1000.0)
    keep(rows, "b", 0.01, 1000.0)
    assert (caps.cap("a", "m"), caps.cap("b", "m")) == (0.7, 0.01)
    now[0] += 3600
    assert (caps.cap("a", "m"), caps.cap("b", "m")) == (0.02, 0.01), "never more than was left"


def test_the_least_of_all_tenants_is_shown(rows: QualityFloors) -> None:
    registry = CollectorRegistry()
    caps = Caps(rows, "m", 0.02, LearningMetrics(registry), clock=lambda: 1000.0)
    for tenant, cap in (("a", 0.1), ("b", 0.9)):
        keep(rows, tenant, cap, 1000.0)
        caps.cap(tenant, "m")
    assert registry.get_sample_value("understudy_offload_cap", {"model": "m"}) == 0.1
