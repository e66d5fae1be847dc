"""The applications of benchmarks/workflows: the baselines and the gateway answer alike, and the lists are at work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.workflows.__main__ import constants, table
from benchmarks.workflows.applications import applications
from benchmarks.workflows.baselines import SCHEMES
from benchmarks.workflows.constants import SOURCES, Calibration
from benchmarks.workflows.engines import batches
from benchmarks.workflows.figures import Figure, Measured, Plan, Report
from benchmarks.workflows.gateway_side import Way
from benchmarks.workflows.measuring import Ours, alone, at_rate, capacity

SMALL = Calibration(chunks=6, hits=4, contextual_document_tokens=1_200, contextual_chunk_tokens=400)


@pytest.mark.parametrize("name", sorted(applications(SMALL)))
def test_everybody_gives_the_same_answers(name: str) -> None:
    application = applications(SMALL)[name]
    wanted = alone(SMALL, application, SCHEMES[0], seed=1, count=2).answers
    ways = (*SCHEMES, Ours(), Ours(frozenset()), Ours(way=Way(by_depth=False, batch=4)))
    for who in ways:
        took = at_rate(SMALL, application, who, 0.5, seed=1, count=2)
        assert took.answers == wanted
        assert all(seconds > 0 for seconds in took.seconds)


def test_without_passes_a_chain_takes_longer_and_answers_alike() -> None:
    application = applications(SMALL)["advanced RAG"]
    chain = alone(SMALL, application, Ours(frozenset()), seed=1, count=1)
    graph = alone(SMALL, application, Ours(), seed=1, count=1)
    assert chain.answers == graph.answers
    assert chain.mean_s > graph.mean_s


def test_what_it_is_calibrated_with_is_told_with_its_sources() -> None:
    assert batches(Calibration()) == {"embedder": 32, "reranker": 32, "web": 1}
    text = constants(Calibration())
    assert all(f"  {name}: " in text for name in ("embedder", "core_speed", "high_load", *SOURCES))


def test_rates_go_by_the_busiest_engine() -> None:
    application = applications(SMALL)["naive RAG"]
    slower = replace(SMALL, embedder=replace(SMALL.embedder, per_item_s=0.5))
    assert capacity(slower, application, count=2) < capacity(SMALL, application, count=2) / 3


def test_figures_say_whether_they_are_reached() -> None:
    figures = [
        Figure("more", "2x", 1.5, 1.6),
        Figure("less", "", 0.03, 0.04, least=False, unit=""),
        Figure("beside", "", None, 1.0),
    ]
    assert [one.reached for one in figures] == [True, False, None]
    shown = table(figures)
    assert "| 1.60x |" in shown and "| 4.00% |" in shown and "| NO " in shown


def test_a_report_divides_the_same_requests() -> None:
    report = Report(Measured(Plan(SMALL, (1,), 3)))
    application = report.applications["advanced RAG"]
    figure = report.over(application, SCHEMES[0], Ours(), "low", "advanced RAG")
    assert figure.found == pytest.approx(figure.figures["before_s"][0] / figure.figures["after_s"][0])
    assert figure.by_seed == (pytest.approx(figure.found),)
