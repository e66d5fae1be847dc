"""The table of benchmarks.overhead: figures beside their targets, met or not."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.tables import markdown

_LABELS = {
    "direct": "straight to the mock (its own CPU)",
    "relay": "bare aiohttp relay",
    "passthrough": "gateway, passing through",
    "exact": "gateway, exact hit",
    "no_embedding": "gateway, pipeline, no embedding",
    "warm": "gateway, few_shot, embedding warm",
    "cold": "gateway, few_shot, embedding cold",
    "few_shot": "gateway, few_shot",
    "no_limits": "gateway, a key without limits",
    "limits": "gateway, a key and a tenant with limits of every kind",
    "limits_two_workers": "the same, two workers on all cores",
    "no_texts": "gateway, few_shot, no text kept",
    "all_texts": "gateway, few_shot, every text kept",
    "through": "gateway, passing through",
    "teacher": "gateway, task, the student predicts, the teacher answers",
    "student": "gateway, task, the student answers",
    "student_streams": "gateway, task, the student answers with a stream",
}
_BUSY = 0.9


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    part: str
    what: str
    figure: str
    against: str = ""
    """The same as a ratio, or what it adds."""
    target: str = ""
    met: bool | None = None
    note: str = ""


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of the rounds."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of at least one value."""
        known = sorted(values)
        return cls(statistics.median(known), known[0], known[-1])

    def text(self, unit: str, digits: int) -> str:
        """`1.23 ms (1.20-1.31)`."""
        return f"{self.middle:.{digits}f}{unit} ({self.least:.{digits}f}-{self.most:.{digits}f})"


def _column(rounds: list[dict[str, float]], name: str) -> list[float]:
    return [figures[name] for figures in rounds]


def _paired(part: dict[str, list[dict[str, float]]], name: str, key: str, base: str, how: str) -> Spread:
    pairs = zip(_column(part[key], name), _column(part[base], name), strict=True)
    return Spread.of(a / b if how == "ratio" else a - b for a, b in pairs)


def rows(figures: dict[str, Any]) -> list[Row]:
    """Everything that was measured, part by part."""
    makers: dict[str, Callable[[Any], list[Row]]] = {
        "requests": _requests,
        "limits": _limits,
        "texts": _texts,
        "store": _store,
        "student": _student,
        "chunks": _chunks,
        "runs": _runs,
        "crowd": _crowd,
        "overload": _overload,
    }
    makers |= {"memory": _memory, "start": _start, "stages": _stages}
    return [row for part, make in makers.items() if part in figures for row in make(figures[part])]


def _requests(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    found = []
    for key, rounds in part.items():
        cpu = Spread.of(_column(rounds, "cpu_ms"))
        against, target, met = "", "", None
        if key not in ("direct", "relay"):
            ratio = _paired(part, "cpu_ms", key, "relay", "ratio")
            against = ratio.text("x", 2)
            if key == "passthrough":
                target, met = "<= 1.5x the relay", ratio.middle <= 1.5
        if key == "exact":
            target, met = "< 0.3 ms", cpu.middle < 0.3
        if key in ("no_embedding", "warm"):
            added = _paired(part, "cpu_ms", key, "passthrough", "difference")
            against += f", adds {added.text(' ms', 2)}"
            target, met = "adds < 1 ms to passing through", added.middle < 1
        note = ""
        if key in ("exact", "no_embedding", "warm", "cold"):
            hits, small = (statistics.mean(_column(rounds, c)) for c in ("hit_share", "offloaded_share"))
            note = f"{hits:.0%} hits, {small:.0%} offloaded"
        if key != "direct" and (busy := statistics.median(_column(rounds, "load_busy"))) > _BUSY:
            note += f" LOAD {busy:.0%} BUSY: it, not the gateway, set the pace"
        found.append(Row("CPU per request", _LABELS[key], cpu.text(" ms", 3), against, target, met, note))
    return found


def _limits(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    found = []
    for key, rounds in part.items():
        against, target, met, note = "", "", None, ""
        if key == "limits":
            added = _paired(part, "cpu_ms", key, "no_limits", "difference")
            against, target, met = f"adds {added.text(' ms', 3)}", "adds <= 0.1 ms", added.middle <= 0.1
        if key == "limits_two_workers":
            note = f"{_paired(part, 'per_s', key, 'limits', 'ratio').text('x', 2)} as many requests a second"
        if (busy := statistics.median(_column(rounds, "load_busy"))) > _BUSY:
            note += f" LOAD {busy:.0%} BUSY: it, not the gateway, set the pace"
        cpu = Spread.of(_column(rounds, "cpu_ms")).text(" ms", 3)
        found.append(Row("CPU per request, limits", _LABELS[key], cpu, against, target, met, note))
    return found


def _texts(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    found = []
    for key, rounds in part.items():
        added = (
            ""
            if key == "no_texts"
            else f"adds {_paired(part, 'cpu_ms', key, 'no_texts', 'difference').text(' ms', 2)}"
        )
        small = statistics.mean(_column(rounds, "offloaded_share"))
        cpu = Spread.of(_column(rounds, "cpu_ms")).text(" ms", 3)
        found.append(Row("CPU per request, texts", _LABELS[key], cpu, added, note=f"{small:.0%} offloaded"))
    return found


def _store(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    """Each way with PostgreSQL beside the same with SQLite."""
    found = []
    for key, rounds in part.items():
        name, _, way = key.partition("_")
        against, target, met, note = "", "", None, ""
        if name != "sqlite" and (base := f"sqlite_{way}") in part:
            ratio = _paired(part, "cpu_ms", key, base, "ratio")
            added = _paired(part, "cpu_ms", key, base, "difference")
            speed = _paired(part, "per_s", key, base, "ratio")
            against = f"{ratio.text('x', 2)}, adds {added.text(' ms', 3)}"
            note = f"{speed.text('x', 2)} as many a second; "
            if way == "exact":
                target, met = "<= 1.05x", ratio.middle <= 1.05
            else:
                target = "adds <= 0.25 ms; 0.8x as many a second"
                met = added.middle <= 0.25 and speed.middle >= 0.8
        hits, small = (statistics.mean(_column(rounds, c)) for c in ("hit_share", "offloaded_share"))
        note += f"{hits:.0%} hits, {small:.0%} offloaded"
        if (busy := statistics.median(_column(rounds, "load_busy"))) > _BUSY:
            note += f" LOAD {busy:.0%} BUSY: it, not the gateway, set the pace"
        cpu = Spread.of(_column(rounds, "cpu_ms")).text(" ms", 3)
        what = f"gateway, {way.replace('_', ' ') if way != 'few_shot' else way}, {name}"
        found.append(Row("CPU per request, database", what, cpu, against, target, met, note))
    return found


def _student(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    """What an answer adds is compared with passing through; a core's answers in a second follow from the CPU of one."""
    found = []
    for key, rounds in part.items():
        cpu = Spread.of(_column(rounds, "cpu_ms"))
        added = _paired(part, "cpu_ms", key, "through", "difference")
        per_s = Spread.of(1000 / each for each in _column(rounds, "cpu_ms"))
        against = "" if key == "through" else f"adds {added.text(' ms', 2)}"
        target, met = ("adds < 0.6 ms; 5,000 a second", None) if key == "student" else ("", None)
        if target:
            met = added.middle < 0.6 and per_s.middle >= 5000
        share = statistics.mean(_column(rounds, "student_share"))
        note = f"{per_s.text('', 0)} a second of a core; {share:.0%} by the student"
        found.append(
            Row("CPU per request of a task", _LABELS[key], cpu.text(" ms", 3), against, target, met, note)
        )
    return found


def _chunks(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    found = []
    for key, rounds in part.items():
        against, target, met = "", "", None
        if key not in ("direct", "relay"):
            ratio = _paired(part, "cpu_us", key, "relay", "ratio")
            against = ratio.text("x", 2)
            if key == "passthrough":
                target, met = "<= 1.3x the relay", ratio.middle <= 1.3
        cpu = Spread.of(_column(rounds, "cpu_us"))
        found.append(Row("CPU per paced SSE chunk", _LABELS[key], cpu.text(" us", 0), against, target, met))
    return found


def _runs(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    plain = Spread.of(_column(part["plain"], "cpu_ms"))
    step = Spread.of(_column(part["steps"], "cpu_ms"))
    ratio = _paired(part, "cpu_ms", "steps", "plain", "ratio")
    gets = part["gets"][0]
    share = gets["core_share"]
    return [
        Row("CPU per step of a run", "plain call, same gateway", plain.text(" ms", 3)),
        Row(
            "CPU per step of a run",
            "step, in runs of 20",
            step.text(" ms", 3),
            f"{ratio.text('x', 2)} a plain call",
            "<= 1.3x a plain call",
            ratio.middle <= 1.3,
            "rows, leases and values are committed",
        ),
        Row(
            f"{gets['gets']:.0f} waiting gets",
            "of a variable that nobody writes",
            f"{share:.2%} of a core",
            "",
            "< 2 % of a core",
            share < 0.02,
        ),
    ]


def _crowd(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    found = []
    for key, rounds in part.items():
        size = Spread.of(_column(rounds, "kib_per_stream"))
        ours = key != "relay"
        found.append(
            Row(
                f"memory per stream, {rounds[0]['streams']:.0f} at once",
                _LABELS[key],
                size.text(" KiB", 1),
                "",
                "< 60 KiB; all in order, all their own" if ours else "",
                size.middle < 60 if ours else None,
                "every byte of every stream compared",
            )
        )
    return found


def _overload(part: dict[str, dict[str, float]]) -> list[Row]:
    goals = {
        "warm at 1.5x": ("small_share", ">= 90 % by the small engine", 0.90),
        "cold at 0.7x": ("embedded_share", ">= 95 % keep their embedding", 0.95),
        "cold at 0.7x, first minute": ("embedded_share", ">= 95 % keep their embedding", 0.95),
    }
    found = []
    for load, figures in part.items():
        key, target, least = goals.get(load, ("small_share", "", 0.0))
        share = figures[key]
        shed = {name.removeprefix("shed_"): int(n) for name, n in figures.items() if name.startswith("shed_")}
        note = (
            f"{figures['asked_per_s']:.0f} of {figures['capacity_per_s']:.0f}/s; p50 {figures['p50_ms']:.0f} ms,"
            f" p99 {figures['p99_ms']:.0f} ms; {figures['unproven_share']:.0%} unproven;"
            f" {figures['core_share']:.0%} of the core; load average {figures['load_average']:.1f};"
            f" shed: {shed or 'nothing'}"
        )
        met = share >= least if target else None
        found.append(Row("overload", f"few_shot, {load}", f"{share:.1%}", "", target, met, note))
    return found


def _memory(part: dict[str, float]) -> list[Row]:
    limits = {"passthrough": 100, "few_shot": 250}
    found = []
    for key in ("relay", "passthrough", "few_shot"):
        size, limit = part[f"{key}_mib"], limits.get(key)
        target, met = (f"< {limit} MiB", size < limit) if limit else ("", None)
        found.append(Row("resident memory after the load", _LABELS[key], f"{size:.0f} MiB", "", target, met))
    return found


def _start(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    labels = {
        "passthrough": "gateway, passing through",
        "few_shot_first": "gateway, few_shot, first start (prepares the model)",
        "few_shot": "gateway, few_shot, later starts",
    }
    found = []
    for key, rounds in part.items():
        ready, cpu = Spread.of(_column(rounds, "ready_s")), Spread.of(_column(rounds, "cpu_s"))
        target, met = ("< 1.5 s", ready.middle < 1.5) if key == "passthrough" else ("", None)
        note = f"CPU {cpu.middle:.2f} s; {Spread.of(_column(rounds, 'rss_mib')).middle:.0f} MiB when ready"
        found.append(Row("time to ready", labels[key], ready.text(" s", 2), "", target, met, note))
    return found


def _stages(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    labels = {
        "prior": "with the prior scorer",
        "trained": "with a scorer of the trained shape",
    }
    found = []
    for key, rounds in part.items():
        both = Spread.of(_column(rounds, "both_ms"))
        pieces = [Spread.of(_column(rounds, name)).middle for name in ("score_ms", "combine_ms")]
        note = f"scoring {pieces[0]:.3f} ms, combining {pieces[1]:.3f} ms"
        found.append(
            Row(
                "CPU to score and combine 20 candidates",
                labels[key],
                both.text(" ms", 3),
                "",
                "< 0.4 ms",
                both.middle < 0.4,
                note,
            )
        )
    return found


def as_text(rows: list[Row], figures: dict[str, Any]) -> str:
    """A table per part, as Markdown, and which targets were missed."""
    lines = [_heading(figures)]
    for part, of_part in itertools.groupby(rows, lambda row: row.part):
        head = (part, "figure", "against the relay", "target", "", "note")
        lines += ["", markdown(head, map(_cells, of_part))]
    missed = [f"{row.part}, {row.what}" for row in rows if row.met is False]
    lines += ["", f"Missed: {'; '.join(missed)}" if missed else "All targets met."]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    verdict = {None: "", True: "met", False: "MISSED"}[row.met]
    return (row.what, row.figure, row.against, row.target, verdict, row.note)


def _heading(figures: dict[str, Any]) -> str:
    machine, counts = figures["machine"], figures["counts"]
    pinned = "server and load on a core each" if machine["pinned"] else "server and load share ONE core"
    text = (
        f"{machine['cpu']}, Python {machine['python']}, {pinned}, load average {machine['load_average']} before the start; "
        f"median (least-most) of {counts['rounds']} rounds of {counts['requests']} requests."
    )
    if counts["rounds"] == 1:
        text += " ONE ROUND: this shows that it runs, and nothing else."
    if figures.get("bypassed"):
        text += f" Stages gone without while measuring: {figures['bypassed']}."
    return text
