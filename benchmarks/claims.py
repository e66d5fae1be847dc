"""What is claimed to the outside, each with figure, command and origin: `make claims` writes docs/claims.md and checks it.

Rows come from docs/claims.json, and from docs/experiments: effect.json (streams), effect-offline.json, overhead.json (`make
bench`).
A figure in README.md that no row has, or a row that is older than the code it speaks of, ends the command with 1.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.effect.asking import ALONE, LARGE, NEAREST
from benchmarks.effect.offline import arm_figures
from benchmarks.effect.streams import KEYS, REAL
from benchmarks.effect.table import reached
from benchmarks.overhead.goals import FILE as OVERHEAD
from benchmarks.recorded import ROOT
from benchmarks.tables import markdown

PAGE, ROWS = ROOT / "docs" / "claims.md", ROOT / "docs" / "claims.json"
EFFECT = ROOT / "docs" / "experiments" / "effect.json"
OFFLINE = ROOT / "docs" / "experiments" / "effect-offline.json"
_FIGURE = re.compile(r"(?<![\w.])\d[\d,.]*(?:x\b| ?%| (?:ms|µs|times)\b)")
_HEAD = """# What is claimed, and how it is known

Written by `make claims` from `docs/claims.json` and, in `docs/experiments`, `effect.json`, `effect-offline.json` and
`overhead.json`; fails on a figure in the README that is not here, and on a row that is older than its code. *Real*: measured
with real models or real processes. *Recorded*: with answers that real models once gave to real requests. *Simulated*: with
engines made for the purpose.

"""


@dataclass(frozen=True, slots=True)
class Claim:
    """One row."""

    claim: str
    figures: tuple[str, ...]
    """As they are written."""
    kind: str
    """real, recorded or simulated."""
    command: str
    date: str
    commit: str
    code: tuple[str, ...]
    """Paths whose later change makes the figure old."""


def claims() -> list[Claim]:
    """All rows."""
    told = json.loads(ROWS.read_text(encoding="utf-8"))
    rows = [Claim(**{**row, "figures": tuple(row["figures"]), "code": tuple(row["code"])}) for row in told]
    for row in json.loads(EFFECT.read_text(encoding="utf-8")) if EFFECT.is_file() else ():
        found: tuple[str, ...] = (
            f"{row['offloaded']:.0%}".replace("%", " %"),
            f"quality {row['quality']:.3f}, of the large engine alone {row['quality_large']:.3f}",
            f"net saved {row['saved']:+.1%}".replace("%", " %"),
            "goal reached" if reached(row) else "goal missed",
        )
        title = f"Offloaded at the defaults: {KEYS[row['stream']]}"
        kind = "real" if row["stream"] in REAL else "recorded"
        command = f"python -m benchmarks.effect --only {row['stream']}"
        code: tuple[str, ...] = (
            "router/proving",
            "router/guarantee",
            "learning/outcomes",
            "learning/guarantee",
        )
        rows.append(Claim(title, found, kind, command, row["date"], row["commit"], code))
    for row in json.loads(OFFLINE.read_text(encoding="utf-8")) if OFFLINE.is_file() else ():
        arms = {name: arm_figures(row, name) for name in (ALONE, NEAREST.format(5), LARGE)}
        found = tuple(f"{name} {arm['score'][0]:.0%}".replace("%", " %") for name, arm in arms.items())
        title = f"Without the gateway, {arms[NEAREST.format(5)]['n']} questions of {row['title']}"
        command = f"python -m benchmarks.effect --offline --only {row['set']}"
        code = ("router/examples", "router/prompt.py")
        rows.append(Claim(title, found, "real", command, row["date"], row["commit"], code))
    if OVERHEAD.is_file():
        run = json.loads(OVERHEAD.read_text(encoding="utf-8"))
        code = ("gateway", "engines", "router")
        for row in run["rows"]:
            found = tuple(told for told in (row["now"], row["beside"], f"goal {row['goal']}") if told)
            title = f"What it costs: {row['row']}"
            rows.append(Claim(title, found, "real", run["command"], run["date"], run["commit"], code))
    return rows


def page(rows: Sequence[Claim]) -> str:
    """docs/claims.md."""
    head = ("claim", "figure", "kind", "command", "date", "commit")
    cells = [
        (row.claim, "; ".join(row.figures), row.kind, f"`{row.command}`", row.date, row.commit)
        for row in rows
    ]
    return _HEAD + markdown(head, cells) + "\n"


def without_a_row(text: str, rows: Sequence[Claim]) -> list[str]:
    """Figures (a number with x, %, ms, µs or times) of a page's prose that no row has."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    known = {found for row in rows for told in (row.claim, *row.figures) for found in _FIGURE.findall(told)}
    return sorted(set(_FIGURE.findall(prose)) - known)


def old(rows: Sequence[Claim]) -> Iterator[str]:
    """Rows whose code was committed to after the commit that they were measured on. Needs git."""
    for row in rows:
        command = ["git", "log", "--oneline", f"{row.commit}..HEAD", "--", *row.code]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            yield f"{row.claim}: commit {row.commit} is not known here"
        elif later := done.stdout.splitlines():
            yield f"{row.claim}: {len(later)} commits since {row.commit} touch {', '.join(row.code)}; run `{row.command}`"


def write_page() -> list[Claim]:
    """Write docs/claims.md; gives its rows."""
    rows = claims()
    PAGE.write_text(page(rows), encoding="utf-8")
    return rows


def main() -> None:
    """Writes the page; ends with 1 where a claim has no row or is old."""
    rows = write_page()
    missing = without_a_row(Path(ROOT / "README.md").read_text(encoding="utf-8"), rows)
    problems = [f"README.md: {figure} has no row in {ROWS.name}" for figure in missing] + list(old(rows))
    print("\n".join(problems) or f"{len(rows)} claims, all with a row and as new as their code")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
