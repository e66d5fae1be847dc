"""The figures of benchmarks.understudy_effect as tables in Markdown and as charts in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.tables import markdown
from benchmarks.understudy_effect.frozen import ALONE, CHOSEN, LARGE, NEAREST, RULE, RULE_TRAINED, TRAINED
from benchmarks.understudy_effect.stream import BANDIT, BIN

_COLOURS = ("#1b6ca8", "#8a8a8a", "#c9662b", "#2e8b57")


def lines(found: dict[str, Any]) -> list[str]:
    """Everything that was measured, as Markdown."""
    said = frozen_lines(found["frozen"]) if "frozen" in found else []
    if "stream" in found:
        said += ["", *_stream(found["stream"])]
    return [*said, "", *_scorer(found)]


def frozen_lines(study: dict[str, Any]) -> list[str]:
    """The still banks' tables."""
    ways = study["ways"]
    dear = ways[LARGE]["all"]["usd_per_1000"]
    held = f"Bank of {study['bank']} examples, {study['questions']} questions. Cost: of the large model's."
    more = f"The same questions, a bank of {study['dense_bank']} examples: three phrasings of each of the same facts."
    return [
        *(held, "", _ways(ways, dear), "", _pace(ways), "", _unhelped(ways), ""),
        *(more, "", _ways(study["dense_ways"], dear), "", _unhelped(study["dense_ways"])),
    ]


def _ways(ways: dict[str, Any], dear: float) -> str:
    head = [
        "",
        "right, bank can help",
        "right, it cannot",
        "right, all",
        "win rate",
        "to small",
        "examples",
        "cost",
    ]
    head += ["examples sent to the small model with", "right with them", "small alone on these"]
    rows = []
    for name, way in ways.items():
        every, sent = way["all"], way.get("where_sent")
        right = [_share(way[part]["right"]) for part in ("bank_can_help", "bank_cannot_help", "all")]
        bill = [_share(every["to_small"]), f"{every['examples']:.2f}", f"{every['usd_per_1000'] / dear:.2f}"]
        with_them = ["0 %", "", ""]
        if sent:
            share = sent["questions"] / every["questions"]
            with_them = [_share(share), _share(sent["right"]), _share(sent["right_alone"])]
        rows.append([name, *right, f"{every['win_rate']:.3f}", *bill, *with_them])
    return markdown(head, rows)


def _pace(ways: dict[str, Any]) -> str:
    rows = []
    for name, way in ways.items():
        latencies = [f"{way[key]:.0f}" for key in ("p50_ms", "p95_ms", "p50_one_at_a_time_ms")]
        rows.append([name, f"{way['requests_per_s']:.1f}", *latencies])
    return markdown(("", "requests/s", "p50 ms", "p95 ms", "p50 ms, one at a time"), rows)


def _unhelped(ways: dict[str, Any]) -> str:
    rows = []
    for name in (ALONE, NEAREST, CHOSEN, TRAINED, RULE, RULE_TRAINED):
        if name in ways:
            part = ways[name]["bank_cannot_help"]
            rows.append([name, _share(part["none_sent"]), f"{part['examples']:.2f}", _share(part["right"])])
    title = "Questions whose fact is not in the bank: every example there is would mislead.\n\n"
    return title + markdown(("", "got none", "examples sent", "right"), rows)


def _stream(study: dict[str, Any]) -> list[str]:
    policies = study["policies"]
    dear = policies["always large"]

    def shown(part: str, one: dict[str, Any]) -> list[str]:
        if part not in one:
            return ["", "", ""]
        cost = one[part]["usd_per_1000"] / dear[part]["usd_per_1000"]
        return [_share(one[part]["right"]), _share(one[part]["to_small"]), f"{cost:.2f}"]

    head = ("", "right", "to small", "cost", "right, after warm-up", "to small", "cost")
    rows = [[name, *shown("all", one), *shown("after_warm_up", one)] for name, one in policies.items()]
    return [
        f"{study['requests']} requests from an empty bank, feedback on {study['feedback_share']:.0%} of the questions."
        f" After warm-up: the last {study['requests'] - study['warm_up']}; where nothing is tried any more, the"
        f" {study['settled_requests']} requests after these.",
        "",
        markdown(head, rows),
        "",
        f"By {BIN} requests, {BANDIT}: right/to small",
        "",
        " ".join(f"{one['right']:.2f}/{one['to_small']:.2f}" for one in policies[BANDIT]["curve"]),
    ]


def _scorer(found: dict[str, Any]) -> list[str]:
    return [
        f"The scorer, trained on a log of {found['scorer']['requests']} requests:",
        "",
        *(f"    {said}" for said in found["scorer"]["said"]),
    ]


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def draw(found: dict[str, Any], folder: Path) -> None:
    """Two charts: accuracy and share of the small model over the stream, per policy."""
    folder.mkdir(parents=True, exist_ok=True)
    policies = {name: one for name, one in found["stream"]["policies"].items() if "curve" in one}
    for key, title, file in (
        ("right", "Right answers", "understudy-effect-right.svg"),
        ("to_small", "Answered by the small model", "understudy-effect-small.svg"),
    ):
        series = {name: [100 * one[key] for one in policy["curve"]] for name, policy in policies.items()}
        (folder / file).write_text(chart(f"{title}, per {BIN} requests (%)", series), encoding="utf-8")


def chart(title: str, series: dict[str, Sequence[float]], *, width: int = 720, height: int = 300) -> str:
    """A line chart as SVG; values are percentages, one point per BIN requests."""
    left, right, top, bottom = 40, 180, 34, 30
    points = max(len(values) for values in series.values())

    def x(i: int) -> float:
        return left + (width - left - right) * (i + 1) / points

    def y(value: float) -> float:
        return top + (height - top - bottom) * (1 - value / 100)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/><text x="{left}" y="18">{escape(title)}</text>',
    ]
    for value in range(0, 101, 25):
        parts.append(f'<path d="M{left} {y(value):.1f}H{width - right}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#555">{value}</text>'
        )
    for i in range(points):
        if (i + 1) % max(1, points // 6) == 0:
            at = f'x="{x(i):.1f}" y="{height - 10}" text-anchor="middle" fill="#555"'
            parts.append(f"<text {at}>{(i + 1) * BIN}</text>")
    # Names that end at the same height are moved apart, in the order of their lines.
    ends = sorted(series, key=lambda name: -series[name][-1])
    at_y = top - 4.0
    for name in ends:
        colour = _COLOURS[list(series).index(name) % len(_COLOURS)]
        drawn = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(series[name]))
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at_y = max(at_y + 15, y(series[name][-1]) + 4)
        parts.append(f'<text x="{width - right + 8}" y="{at_y:.1f}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
