"""The tables of benchmarks.overhead: what was measured, part by part. What is wanted of it is in goals.py."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.overhead.goals import Spread, column, paired
from benchmarks.overhead.paced import HIT_PER_S, WARM_PER_S
from benchmarks.tables import markdown

_LABELS = {
    "direct": "straight to the mock (its own CPU)",
    "relay": "bare aiohttp relay",
    "passthrough": "gateway, passing through",
    "exact": "gateway, exact hit",
    "no_embedding": "gateway, pipeline, no embedding",
    "warm": "gateway, few_shot, embedding warm",
    "cold": "gateway, few_shot, embedding cold",
    "embedding": "the embedding alone",
    "few_shot": "gateway, few_shot",
    "key": "gateway, passing through, a key without limits",
    "governed": "gateway, passing through, a key with a budget",
    "governed_model": "gateway, a served model, a key with a budget",
    "limits": "gateway, passing through, a key and a tenant with limits of every kind",
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
    """One line of a table."""

    part: str
    what: str
    figure: str
    against: str = ""
    """The same as a ratio, or what it adds."""
    note: str = ""


def rows(figures: dict[str, Any]) -> list[Row]:
    """Everything that was measured, part by part."""
    makers: dict[str, Callable[[Any], list[Row]]] = {
        "requests": _requests,
        "paced": _paced,
        "governed": _governed,
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
        cpu, against, note = Spread.of(column(rounds, "cpu_ms")), "", ""
        if key not in ("direct", "relay", "embedding"):
            against = f"{paired(part, 'cpu_ms', key, 'relay').text('x', 2)} the relay"
        if key in ("no_embedding", "warm"):
            added = paired(part, "cpu_ms", key, "passthrough", "difference")
            against += f", adds {added.text(' ms', 2)} to passing through"
        if key in ("exact", "no_embedding", "warm", "cold"):
            hits, small = (statistics.mean(column(rounds, c)) for c in ("hit_share", "offloaded_share"))
            note = f"{hits:.0%} hits, {small:.0%} offloaded"
        if key not in ("direct", "embedding"):
            note += _busy(rounds)
        found.append(Row("CPU per request", _LABELS[key], cpu.text(" ms", 3), against, note))
    return found


def _busy(rounds: list[dict[str, float]]) -> str:
    busy = statistics.median(column(rounds, "load_busy"))
    return f" LOAD {busy:.0%} BUSY: it, not the gateway, set the pace" if busy > _BUSY else ""


def _paced(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    found = []
    for key, rounds in part.items():
        p50, p99 = (Spread.of(column(rounds, name)).text(" ms", 2) for name in ("p50_ms", "p99_ms"))
        per_s = WARM_PER_S if key == "warm" else HIT_PER_S
        small = statistics.mean(column(rounds, "offloaded_share"))
        note = f"median {p50}; {small:.0%} offloaded" + _busy(rounds)
        found.append(Row("p99 at a given rate", f"{_LABELS[key]}, {per_s:,.0f} a second", p99, note=note))
    return found


def _governed(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    found = []
    for key, rounds in part.items():
        against = "" if key == "through" else f"{paired(part, 'cpu_ms', key, 'through').text('x', 2)}"
        note = _busy(rounds)
        if key == "limits_two_workers":
            note = f"{paired(part, 'per_s', key, 'limits').text('x', 2)} as many requests a second"
        cpu = Spread.of(column(rounds, "cpu_ms")).text(" ms", 3)
        found.append(Row("CPU per request, governed", _LABELS[key], cpu, against, note))
    return found


def _texts(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    found = []
    for key, rounds in part.items():
        added = (
            ""
            if key == "no_texts"
            else f"adds {paired(part, 'cpu_ms', key, 'no_texts', 'difference').text(' ms', 2)}"
        )
        small = statistics.mean(column(rounds, "offloaded_share"))
        cpu = Spread.of(column(rounds, "cpu_ms")).text(" ms", 3)
        found.append(Row("CPU per request, texts", _LABELS[key], cpu, added, note=f"{small:.0%} offloaded"))
    return found


def _store(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    """Each way with PostgreSQL beside the same with SQLite."""
    found = []
    for key, rounds in part.items():
        name, _, way = key.partition("_")
        against, note = "", ""
        if name != "sqlite" and (base := f"sqlite_{way}") in part:
            ratio = paired(part, "cpu_ms", key, base)
            added = paired(part, "cpu_ms", key, base, "difference")
            speed = paired(part, "per_s", key, base)
            against = f"{ratio.text('x', 2)}, adds {added.text(' ms', 3)}"
            note = f"{speed.text('x', 2)} as many a second; "
        hits, small = (statistics.mean(column(rounds, c)) for c in ("hit_share", "offloaded_share"))
        note += f"{hits:.0%} hits, {small:.0%} offloaded"
        note += _busy(rounds)
        cpu = Spread.of(column(rounds, "cpu_ms")).text(" ms", 3)
        what = f"gateway, {way.replace('_', ' ') if way != 'few_shot' else way}, {name}"
        found.append(Row("CPU per request, database", what, cpu, against, note))
    return found


def _student(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    """What an answer adds is compared with passing through; a core's answers in a second follow from the CPU of one."""
    found = []
    for key, rounds in part.items():
        cpu = Spread.of(column(rounds, "cpu_ms"))
        added = paired(part, "cpu_ms", key, "through", "difference")
        per_s = Spread.of(1000 / each for each in column(rounds, "cpu_ms"))
        against = "" if key == "through" else f"adds {added.text(' ms', 2)}"
        share = statistics.mean(column(rounds, "student_share"))
        note = f"{per_s.text('', 0)} a second of a core; {share:.0%} by the student"
        found.append(Row("CPU per request of a task", _LABELS[key], cpu.text(" ms", 3), against, note))
    return found


def _chunks(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    found = []
    for key, rounds in part.items():
        known = key in ("direct", "relay")
        against = "" if known else f"{paired(part, 'cpu_us', key, 'relay').text('x', 2)} the relay"
        cpu = Spread.of(column(rounds, "cpu_us")).text(" µs", 0)
        found.append(Row("CPU per paced SSE chunk", _LABELS[key], cpu, against))
    return found


def _runs(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    plain, step = (Spread.of(column(part[key], "cpu_ms")).text(" ms", 3) for key in ("plain", "steps"))
    ratio = paired(part, "cpu_ms", "steps", "plain").text("x", 2)
    gets = part["gets"][0]
    share = f"{gets['core_share']:.2%} of a core"
    steps = "CPU per step of a run"
    return [
        Row(steps, "plain call, same gateway", plain),
        Row(steps, "step, in runs of 20", step, f"{ratio} a plain call", "all is committed"),
        Row(f"{gets['gets']:.0f} waiting gets", "of a variable that nobody writes", share),
    ]


def _crowd(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    found = []
    for key, rounds in part.items():
        size = Spread.of(column(rounds, "kib_per_stream")).text(" KiB", 1)
        heading = f"memory per stream, {rounds[0]['streams']:.0f} at once"
        found.append(Row(heading, _LABELS[key], size, note="every byte of every stream compared"))
    return found


def _overload(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    labels = {
        "half": "known texts, half of capacity",
        "over": "known texts, 1.5x of capacity",
        "busy": "new texts, 0.7x of capacity",
    }
    found = []
    for key, (figures,) in part.items():
        latency = f"p50 {figures['p50_ms']:.0f} ms, p99 {figures['p99_ms']:.0f} ms"
        shares = (
            f"{figures['small_share']:.1%} of what is proven by the small engine,"
            f" {figures['embedded_share']:.1%} embedded"
        )
        shed = {name.removeprefix("shed_"): int(n) for name, n in figures.items() if name.startswith("shed_")}
        note = (
            f"{figures['asked_per_s']:.0f} of {figures['capacity_per_s']:.0f} a second;"
            f" {figures['unproven_share']:.0%} unproven; {figures['core_share']:.0%} of the core;"
            f" load average {figures['load_average']:.1f}; shed: {shed or 'nothing'}"
        )
        found.append(Row("overload", labels[key], latency, shares, note))
    return found


def _memory(part: dict[str, float]) -> list[Row]:
    return [
        Row("resident memory after the load", _LABELS[key], f"{part[f'{key}_mib']:.0f} MiB")
        for key in ("relay", "passthrough", "few_shot")
    ]


def _start(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    labels = {
        "passthrough": "gateway, passing through",
        "few_shot_first": "gateway, few_shot, first start (prepares the model)",
        "few_shot": "gateway, few_shot, later starts",
    }
    found = []
    for key, rounds in part.items():
        ready, cpu = Spread.of(column(rounds, "ready_s")), Spread.of(column(rounds, "cpu_s"))
        note = f"CPU {cpu.middle:.2f} s; {Spread.of(column(rounds, 'rss_mib')).middle:.0f} MiB when ready"
        found.append(Row("time to ready", labels[key], ready.text(" s", 2), note=note))
    return found


def _stages(part: dict[str, list[dict[str, float]]]) -> list[Row]:
    labels = {
        "prior": "with the prior scorer",
        "trained": "with a scorer of the trained shape",
    }
    found = []
    for key, rounds in part.items():
        both = Spread.of(column(rounds, "both_ms"))
        pieces = [Spread.of(column(rounds, name)).middle for name in ("score_ms", "combine_ms")]
        note = f"scoring {pieces[0]:.3f} ms, combining {pieces[1]:.3f} ms"
        what = "CPU to score and combine 20 candidates"
        found.append(Row(what, labels[key], both.text(" ms", 3), note=note))
    return found


def as_text(rows: list[Row], figures: dict[str, Any]) -> str:
    """A table per part, as Markdown."""
    lines = [_heading(figures)]
    for part, of_part in itertools.groupby(rows, lambda row: row.part):
        head = (part, "figure", "beside", "note")
        cells = [(row.what, row.figure, row.against, row.note) for row in of_part]
        lines += ["", markdown(head, cells)]
    return "\n".join(lines) + "\n"


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
