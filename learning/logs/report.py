"""Reports a replayed log: per task scope and in all, the share of each way to answer, its quality, and the savings.

Intervals are bootstrapped over requests. They speak of this log's kind of traffic, not of another's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from learning.evaluation.intervals import Interval, Ratio, bootstrap, effective_samples, widened
from learning.logs.reasons import told

Way = Literal["exact", "semantic", "offloaded", "reference", "failed"]
LEVEL = 0.95
REPORT = "log-replay.json"
"""The report's name in a data folder, where the admin pages look for it."""
VERSION = 1
"""The version of a report's form."""
_LARGEST_BYTES = 2**20
_SCOPES = 20
_REASONS = 4
_EXPLAINED = 5


def stored(folder: Path, name: str, version: int) -> dict[str, Any] | None:
    """A report that a command left in a data folder; None if there is none, or one of another version."""
    path = folder / name
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("version") == version else None


@dataclass(frozen=True, slots=True)
class Replayed:
    """The fate of one request of the log."""

    model: str
    scope: str
    way: Way
    reason: str
    reference_usd: float
    """The cost of the recorded answer by the reference's price."""
    cost_usd: float = 0.0
    """The cost of its answer now."""
    familiar: bool = False
    """True if enough earlier requests are like it: then a smaller engine could be shown their answers."""
    small_usd: float = 0.0
    """The small engine's cost for it, with examples, at the recorded answer's length."""
    quality: float | None = None
    """The quality of an offloaded answer against the recorded one, 0 to 1; None if nothing compared them."""
    weight: float = 1.0
    """The number of offloaded answers it stands for: only a sample is judged."""
    shadow: tuple[tuple[bool, float], ...] = ()
    """The small answers that were compared in the background: if with examples, and the quality."""
    comparisons: int = 0
    comparisons_usd: float = 0.0
    expected_more: int | None = None
    """Comparisons that are still expected before a smaller engine may answer requests like it."""

    @property
    def saved_usd(self) -> float:
        """Against asking the reference; less what comparing cost."""
        from_engine = self.reference_usd - self.cost_usd if self.way != "failed" else 0.0
        return from_engine - self.comparisons_usd


def report(requests: Sequence[Replayed], *, priced: bool) -> dict[str, Any]:
    """JSON: `total`, `scopes` by cost (the dearest first), and how many `other_scopes` are summed up in `others`.

    `priced`: whether the reference has a price; without one nothing is said of money.
    """
    scopes: dict[tuple[str, str], list[Replayed]] = {}
    for one in requests:
        scopes.setdefault((one.model, one.scope), []).append(one)
    ordered = sorted(
        scopes.values(), key=lambda group: (-sum(each.reference_usd for each in group), -len(group))
    )
    rest = [one for group in ordered[_SCOPES:] for one in group]
    return {
        "version": VERSION,
        "level": LEVEL,
        "priced": priced,
        "total": _row(requests),
        "scopes": [
            {"model": group[0].model, "scope": group[0].scope} | _row(group) for group in ordered[:_SCOPES]
        ],
        "other_scopes": max(0, len(ordered) - _SCOPES),
        "others": _row(rest) if rest else None,
    }


def _row(requests: Sequence[Replayed]) -> dict[str, Any]:
    ways = Counter(one.way for one in requests)
    count = len(requests)
    known = [
        (one.quality, one.weight) for one in requests if one.way == "offloaded" and one.quality is not None
    ]
    by_reference = [one for one in requests if one.way == "reference"]
    why_not = Counter(one.reason for one in by_reference)
    familiar = [one for one in by_reference if one.familiar]
    more = [one.expected_more for one in requests if one.expected_more is not None]
    return {
        "requests": count,
        "exact": ways["exact"],
        "exact_share": ways["exact"] / count if count else None,
        "similar": ways["semantic"],
        "offloaded": ways["offloaded"],
        "offloaded_share": ways["offloaded"] / count if count else None,
        "failed": ways["failed"],
        **_mean_quality(known),
        "compared": len(known),
        "in_shadow": [_in_shadow(requests, with_examples) for with_examples in (False, True)],
        **_money(requests),
        "familiar": len(familiar),
        "familiar_would_cost_usd": sum(one.small_usd for one in familiar),
        "familiar_could_save_usd": sum(max(0.0, one.reference_usd - one.small_usd) for one in familiar),
        "expected_more": more[-1] if more else None,
        "why_not": [
            {"reason": code, "requests": n, "says": told(code).says, "takes": told(code).takes}
            for code, n in why_not.most_common(_REASONS)
        ],
    }


def _money(requests: Sequence[Replayed]) -> dict[str, Any]:
    saved, interval = _sum([one.saved_usd for one in requests])
    return {
        "reference_usd": sum(one.reference_usd for one in requests),
        "paid_usd": sum(one.cost_usd for one in requests),
        "comparisons": sum(one.comparisons for one in requests),
        "comparisons_usd": sum(one.comparisons_usd for one in requests),
        "saved_usd": saved,
        "saved_low_usd": interval.low,
        "saved_high_usd": interval.high,
    }


def _in_shadow(requests: Sequence[Replayed], with_examples: bool) -> dict[str, Any]:
    """Sum up the small engine's answers that were only compared: they tell what to expect of offloading."""
    found = [quality for one in requests for given, quality in one.shadow if given == with_examples]
    quality = _mean_quality([(each, 1.0) for each in found])
    return {"few_shot": with_examples, "compared": len(found)} | quality


def _sum(values: Sequence[float]) -> tuple[float, Interval]:
    count = len(values)
    if not count:
        return 0.0, Interval(0.0, 0.0)
    each = np.array(values, dtype=np.float64)
    [(mean, interval)] = bootstrap([Ratio(each, np.ones(count))], level=LEVEL)
    low, high = min(values), max(values)
    if high > low:
        dispersion = float(each.var() / max(1e-300, (mean - low) * (high - mean)))
        interval = widened(interval, mean, count, (low, high), LEVEL, dispersion=dispersion)
    return mean * count, Interval(interval.low * count, interval.high * count)


def _mean_quality(weighed: Sequence[tuple[float, float]]) -> dict[str, float | None]:
    """Return the mean quality of (quality, weight) with its interval, as fields of a row."""
    if not weighed:
        return {"quality": None, "quality_low": None, "quality_high": None}
    quality, weight = np.array(weighed, dtype=np.float64).T
    [(mean, interval)] = bootstrap([Ratio(quality * weight, weight)], level=LEVEL)
    low, high = widened(interval, mean, effective_samples(weight), (0.0, 1.0), LEVEL)
    return {"quality": mean, "quality_low": low, "quality_high": high}


def table(result: dict[str, Any], names: dict[str, str]) -> str:
    """For a terminal. `names`: what to call a scope, such as the beginning of its system prompt."""
    priced = result["priced"]
    rows = [(_named(row, names), row) for row in result["scopes"]]
    if result["others"]:
        rows.append((f"{result['other_scopes']} other scopes", result["others"]))
    rows.append(("in all", result["total"]))
    head = ["", "requests", "repeats", "offloaded", "quality of those", "familiar", "compared"]
    cells = [head + (["saved USD"] if priced else [])]
    cells += [_cells(name, row, priced=priced) for name, row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    out = [
        "  ".join(
            _aligned(cell, width, first=not i)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    for name, row in rows[:_EXPLAINED] if len(rows) > 2 else rows[:1]:
        if row["why_not"]:
            out += ["", f"{name}: why not more", *_explained(row)]
    return "\n".join(out)


def _cells(name: str, row: dict[str, Any], *, priced: bool) -> list[str]:
    compared = f"{row['comparisons']}"
    if row["comparisons"]:
        compared += f" (${row['comparisons_usd']:.4f})"
    saved = f"{row['saved_usd']:.4f} ({row['saved_low_usd']:.4f} to {row['saved_high_usd']:.4f})"
    return [
        name,
        str(row["requests"]),
        _percent(row["exact_share"]),
        _percent(row["offloaded_share"]),
        _quality(row),
        str(row["familiar"]),
        compared,
        *([saved] if priced else []),
    ]


def _explained(row: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that say why a smaller engine answered no more, and what would change it."""
    for why in row["why_not"]:
        takes = f"; it takes: {why['takes']}" if why["takes"] else ""
        yield f"  {why['requests']:>6}  {why['says']}{takes}"
    if row["expected_more"]:
        yield f"          about {row['expected_more']} more comparisons are expected"
    for each in row["in_shadow"]:
        if each["compared"]:
            way = "few-shot" if each["few_shot"] else "direct"
            yield (
                f"          the small engine, {way}, in shadow: quality "
                f"{each['quality']:.3f} ({each['quality_low']:.3f} to {each['quality_high']:.3f}) of {each['compared']}"
            )


def _named(row: dict[str, Any], names: dict[str, str]) -> str:
    name = names.get(row["scope"]) or row["scope"][:8] or "no scope"
    return f"{row['model'][:24]}: {name[:36]}"


def _quality(row: dict[str, Any]) -> str:
    if row["quality"] is None:
        return "not measured" if row["offloaded"] else "–"
    return f"{row['quality']:.3f} ({row['quality_low']:.3f} to {row['quality_high']:.3f}, {row['compared']})"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _aligned(cell: str, width: int, *, first: bool) -> str:
    return cell.ljust(width) if first else cell.rjust(width)


def cautions(result: dict[str, Any]) -> list[str]:
    """List the limits of the figures, as lines of text."""
    total = result["total"]
    said = [""]
    if result["left_out"]:
        count = sum(result["left_out"].values())
        why = "; ".join(f"{n}: {reason}" for reason, n in list(result["left_out"].items())[:3])
        said.append(f"{count} lines of the log cannot be replayed, and count nowhere: {why}")
    if result["older"]:
        said.append(f"{result['older']} older requests were left out (--limit)")
    if not result["priced"]:
        said.append("no price of the reference is known: name prices to see money")
    if not result["budget_usd"]:
        said.append("no engine was asked (--budget-usd is 0): nothing is offloaded, and quality is not known")
    elif result["not_asked"]:
        said.append(
            f"the budget of ${result['budget_usd']:g} was spent: {result['not_asked']} times no engine was asked"
        )
    if total["familiar"]:
        said.append(
            f"{total['familiar']} requests that the reference answered are like earlier ones: asking the small engine for "
            f"them costs about ${total['familiar_would_cost_usd']:.4f}"
            + (f", and saves ${total['familiar_could_save_usd']:.4f} at most" if result["priced"] else "")
        )
    said.append(f"intervals: {100 * result['level']:.0f} %, bootstrapped over requests of this log")
    return said
