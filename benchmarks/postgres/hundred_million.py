"""What very many examples would take, as arithmetic: `python -m benchmarks.postgres.hundred_million [--examples 1e8]`.

Nothing is run here. Bytes and times of one example were measured at 100,000 of them; prices are whatever is given.
docs/experiments/hundred-million-examples.md says where each figure is from, and what follows.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields

from benchmarks.tables import markdown

GB = 1e9
_DIMENSIONS = 384


@dataclass(frozen=True)
class Measured:
    """Of one example."""

    row_bytes: float = 1_720
    """Table, text index and keys, with the vector as two bytes a dimension."""
    pgvector_bytes: float = 1_170
    """HNSW of `halfvec`, at 1e5."""
    usearch_bytes: float = 1_000
    build_ms: float = 1.3
    """Processor time to insert into a graph of 1e8: 0.27 ms at 1e5, 4.8 times as much for a deeper graph out of cache."""


@dataclass(frozen=True)
class Plan:
    """What is asked for, and prices, all in dollars: yours."""

    examples: float = 1e8
    replicas: float = 3
    workers: float = 2
    """Of each replica: each has an index of its own."""
    standbys: float = 1
    nodes: float = 4
    """Over which hash partitions by tenant, or Qdrant's shards, are spread."""
    ram_usd_per_gb_month: float = 3.0
    disk_usd_per_gb_month: float = 0.12
    cpu_usd_per_hour: float = 0.04


@dataclass(frozen=True)
class Way:
    """One of the ways to hold them: bytes in memory on the largest machine and on all, bytes on all disks."""

    name: str
    largest_ram: float
    ram: float
    disk: float

    def usd_per_month(self, plan: Plan) -> float:
        """Memory and disks, at the plan's prices."""
        return (self.ram * plan.ram_usd_per_gb_month + self.disk * plan.disk_usd_per_gb_month) / GB


def ways(plan: Plan, one: Measured) -> list[Way]:
    """Rows are on the primary's disk and each standby's; only the vectors' index has to be in memory."""
    copies = 1 + plan.standbys
    rows, graph = plan.examples * one.row_bytes, plan.examples * one.pgvector_bytes
    usearch = plan.examples * one.usearch_bytes
    # Qdrant's rule: four bytes a dimension, half as much again; with int8 in memory a quarter of it, the rest on disk.
    qdrant = plan.examples * _DIMENSIONS * 4 * 1.5
    # A bit for each dimension instead of two bytes in the graph; the vectors themselves are read from rows for the best.
    bits = graph - plan.examples * _DIMENSIONS * (2 - 1 / 8)
    return [
        Way(
            "usearch, all of it in every worker",
            usearch * plan.workers,
            usearch * plan.workers * plan.replicas,
            rows * copies + usearch * plan.replicas,
        ),
        Way(
            "usearch, each tenant in one worker",
            usearch / plan.replicas,
            usearch,
            rows * copies + usearch,
        ),
        Way("pgvector on one server", graph, graph * copies, (rows + graph) * copies),
        Way("pgvector, binary, ranked again by rows", bits, bits * copies, (rows + bits) * copies),
        Way(
            "pgvector, partitions by tenant on nodes",
            graph / plan.nodes,
            graph * copies,
            (rows + graph) * copies,
        ),
        Way(
            "Qdrant, int8 in memory, beside the rows",
            qdrant / 4 / plan.nodes * copies,
            qdrant / 4 * copies,
            rows * copies + qdrant * copies,
        ),
    ]


def build_hours(plan: Plan, one: Measured) -> float:
    """Processor time to build one graph of all."""
    return plan.examples * one.build_ms / 3.6e6


def report(plan: Plan, one: Measured) -> str:
    """Tables in Markdown."""
    rows = plan.examples * one.row_bytes
    hours = build_hours(plan, one)
    sizes: list[list[object]] = [
        ["rows", f"{rows / GB:.0f} GB"],
        ["HNSW of pgvector, halfvec", f"{plan.examples * one.pgvector_bytes / GB:.0f} GB"],
        ["usearch", f"{plan.examples * one.usearch_bytes / GB:.0f} GB"],
        ["building one graph", f"{hours:.0f} CPU hours, ${hours * plan.cpu_usd_per_hour:.2f}"],
        ["reading all rows at 500 MB/s", f"{rows / 5e8 / 60:.0f} minutes"],
    ]
    held: list[list[object]] = [
        [
            way.name,
            f"{way.largest_ram / GB:.0f}",
            f"{way.ram / GB:.0f}",
            f"{way.disk / GB:.0f}",
            f"{way.usd_per_month(plan):,.0f}",
        ]
        for way in ways(plan, one)
    ]
    names = ["way", "GB in memory, largest machine", "GB in memory, all", "GB on disk, all", "$ a month"]
    return f"{markdown(['what', 'how much'], sizes)}\n\n{markdown(names, held)}"


def main(words: Sequence[str] | None = None) -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for made in (Plan, Measured):
        for field in fields(made):
            name = f"--{field.name.replace('_', '-')}"
            parser.add_argument(name, type=float, default=field.default, help="[%(default)g]")
    chosen = vars(parser.parse_args(words))
    plan = Plan(**{field.name: chosen[field.name] for field in fields(Plan)})
    print(report(plan, Measured(**{field.name: chosen[field.name] for field in fields(Measured)})))


if __name__ == "__main__":
    main()
