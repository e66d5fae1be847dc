"""The table of the streams, with what should be reached and whether it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.effect.streams import KEYS
from benchmarks.tables import markdown

Row = Mapping[str, Any]
_HEAD = (
    "stream", "requests", "offloaded", "by hundreds", "last third", "first at", "quality (always large)",
    "lost at most", "violations", "net saved", "learning (allowed)", "verdicts paid", "goal", "reached",
)  # fmt: skip


def _opens(row: Row) -> bool:
    return bool(row["first"])


def says_what_is_missing(row: Row) -> bool:
    """Whether a shut model's page names the loss that would open it."""
    return re.search(r"max_loss\D{0,40}\d", row["said"]) is not None


_GOALS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "i": (
        "opens within 350, at least 55 % of all, quality above always-large, no violation",
        lambda row: (
            _opens(row)
            and row["first"] <= 350
            and row["offloaded"] >= 0.55
            and row["quality"] > row["quality_large"]
            and not row["violations"]
        ),
    ),
    "ii": ("opens, or it says which figure is missing", lambda row: _opens(row) or says_what_is_missing(row)),
    "iii": (
        "opens within 600, F1 at least always-large's, at least 30 % in the last third",
        lambda row: _opens(row) and row["quality"] >= row["quality_large"] and row["last_third"] >= 0.3,
    ),
    "iv": (
        "small stays shut and it says what would open it; the student takes at least 40 %, lost at most 5 %",
        lambda row: (
            not row["by_engine"].get("small")
            and says_what_is_missing(row)
            and row["by_engine"].get("student", 0) >= 0.4 * row["requests"]
            and not row["violations"]
        ),
    ),
    "v": (
        "refused before the third verdict",
        # Where no judge was examined nothing was refused, either.
        lambda row: (
            sum(e["verdicts"] for e in row["asked"].values()) < 3 and row.get("judges_refused", 0) > 0
        ),
    ),
}


def table(found: Sequence[Row]) -> str:
    """Markdown: a row per stream, in the order given; what was said by the streams that stayed shut below it."""
    lines = [markdown(_HEAD, map(_cells, found))]
    for row in found:
        where = f"{row['date']}, commit {row['commit']}, {row['machine']}, {row['wall_s']:.0f} s"
        lines.append(
            f"\n**{row['stream']}** ({where}), by engine {dict(row['by_engine'])}. `understudy learn explain` says:\n"
        )
        lines.append("    " + row["said"].replace("\n", "\n    "))
    return "\n".join(lines)


def reached(row: Row) -> bool:
    """Whether a stream's goal is reached, and no more than allowed was spent on learning."""
    return _GOALS[row["stream"]][1](row) and row["learning"] <= row["learning_allowed"]


def _cells(row: Row) -> list[str]:
    verdicts = sum(each["verdicts"] for each in row["asked"].values())
    return [
        f"{row['stream']} {KEYS[row['stream']]}",
        str(row["requests"]),
        f"{row['offloaded']:.1%}",
        " ".join(map(str, row["by_hundreds"])),
        f"{row['last_third']:.0%}",
        str(row["first"] or "never"),
        f"{row['quality']:.3f} ({row['quality_large']:.3f})",
        f"{row['most_lost']:.2%}",
        str(row["violations"]),
        f"{row['saved']:+.1%}",
        f"{row['learning']:.1%} ({row['learning_allowed']:.1%})",
        str(verdicts),
        _GOALS[row["stream"]][0],
        "yes" if reached(row) else "**no**",
    ]
