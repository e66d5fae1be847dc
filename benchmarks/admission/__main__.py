"""What admission finds, misses and wrongly finds, and what it costs: `python -m benchmarks.admission`.

Recall counts planted values of which no letter or digit is left readable. False alarms count harmless texts in which
anything was found. Libraries to compare with are used if they are installed (see libraries.py). CPU time is of this
thread; wall time is what else the machine was doing.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.admission import libraries
from benchmarks.admission.cases import Case, cases
from benchmarks.admission.words import ORDINARY
from benchmarks.options import options, write
from benchmarks.recorded import ROOT, NoData, rows
from store.admission import Admission, Pair
from store.admission.credentials import credentials
from store.admission.instructions import instructions
from store.admission.private_data import private_data
from understudy.settings.memory import MemorySettings
from understudy.setup.examples import admission as admission_of

Found = Callable[[str], list[tuple[int, int]]]
RECORDED = {
    "sim_banking77": ("text",),
    "sim_qqp_open": ("a", "b"),
    "bank_alpaca_open": ("instruction", "input", "response"),
    "bank_gsm8k_train": ("prompt", "response"),
    "bank_nl2bash_open": ("prompt", "response"),
}
RECORDED_ROWS = 4000
FRESH = """
import os, time, numpy
def resident(): return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
before, began = resident(), time.perf_counter()
from store.admission.private_data import private_data
from store.admission import Admission
private_data("Call +44 20 7946 0958 or (415) 555-2671, card 4111 1111 1111 1111, SSN 536-90-4399")
print(time.perf_counter() - began, resident() - before)
"""
DETECTORS: dict[str, Callable[[str], Any]] = {
    "private data": private_data,
    "secrets": credentials,
    "instructions": instructions,
}
ADVERSARIAL = {
    "digits": "4111 " * 20_000,
    "a@a@a@": "a@" * 50_000,
    "a.a.a.": "a." * 50_000,
    "A A A A": "A " * 50_000,
    "12 Aa Aa Aa": "12 Aa Aa Aa Aa Aa " * 5_600,
    "password= x8": "password=a1b2c3d " * 6_000,
    "BEGIN PRIVATE KEY": "-----BEGIN PRIVATE KEY-----" * 3_700,
    "ignore all all": "ignore all " * 9_000,
    "((((((": "(" * 100_000,
    "spaces": " " * 100_000,
    "letters": "a" * 100_000,
    "hex": "deadbeef" * 12_500,
    "+1 +1 +1": "+1 " * 33_000,
    "é": "é@é." * 25_000,
    "<!--": "<!--" * 25_000,
    "when you are asked": "when you are asked " * 5_200,
    "aA1": "aA1b" * 25_000,
    "base64 in %41": "%41" * 33_000,
    "eyJ": "eyJaaaaaaaaaa." * 7_000,
    "://a:": "://a:" * 20_000,
}


def main() -> None:
    """Prints the tables; with --json also writes them."""
    arguments = options(__doc__, data=True)
    arguments.add_argument("--seed", type=int, default=7)
    arguments.add_argument("--per-kind", type=int, default=200)
    arguments.add_argument(
        "--misses", action="store_true", help="also print what was missed or wrongly found"
    )
    chosen = arguments.parse_args()
    figures = measure(cases(chosen.seed, chosen.per_kind), chosen.data, show_misses=chosen.misses)
    show(figures)
    write(figures, chosen.json)


def measure(every: list[Case], data: Path, *, show_misses: bool) -> dict[str, Any]:
    """All figures, as JSON; `data`: folder of recorded files."""

    def of(*groups: str) -> list[Case]:
        return [case for case in every if case.group in groups]

    def places(find: Callable[[str], Iterable[Any]]) -> Found:
        return lambda text: [(s.start, s.end) for s in find(text)]

    ours_private, ours_secret = places(private_data), places(credentials)

    def told(text: str) -> list[tuple[int, int]]:
        return [(0, 1)] if instructions(text) else []

    return {
        "machine": platform.platform(),
        "texts": len(every),
        "private data": {
            name: _scores(find, of("private"), of("harmless"), show_misses and name == "understudy")
            for name, find in [("understudy", ours_private), *libraries.private_data_peers()]
        },
        "secrets": {
            name: _scores(find, of("secret"), of("harmless"), show_misses and name == "understudy")
            for name, find in [("understudy", ours_secret), *libraries.secret_peers()]
        },
        "instructions": {
            "understudy": _scores(told, of("injection"), of("harmless", "mention"), show_misses)
        },
        "recorded traffic": _recorded(data, show_misses),
        "cost": _cost(),
        "adversarial": {name: _cpu_ms(text, once=True) for name, text in ADVERSARIAL.items()},
        "footprint": _footprint(),
    }


def _scores(find: Found, planted: list[Case], harmless: list[Case], show_misses: bool) -> dict[str, Any]:
    recall: dict[str, list[bool]] = defaultdict(list)
    alarms: dict[str, list[bool]] = defaultdict(list)
    began = time.thread_time()
    characters = 0
    for case in planted:
        found = find(case.text)
        characters += len(case.text)
        hit = all(_covered(case.text, value, found) for value in case.values) if case.values else bool(found)
        recall[case.kind].append(hit)
        if show_misses and not hit:
            print(f"MISSED {case.kind}: {case.values or case.text!r} in {case.text[-110:]!r}")
    for case in harmless:
        found = find(case.text)
        characters += len(case.text)
        alarms[case.kind].append(bool(found))
        if show_misses and found:
            print(f"FALSE {case.kind}: {[case.text[a:b] for a, b in found]} in {case.text[-110:]!r}")
    cpu = time.thread_time() - began
    hits, false = sum(map(sum, recall.values())), sum(map(sum, alarms.values()))
    return {
        "recall": {kind: sum(hit) / len(hit) for kind, hit in recall.items()},
        "false alarms": {kind: sum(alarm) / len(alarm) for kind, alarm in alarms.items()},
        "recall of all": hits / len(planted),
        "false alarms of all": false / len(harmless),
        "precision": hits / (hits + false) if hits + false else 0.0,
        "cpu_ms_per_kilocharacter": cpu * 1e6 / characters,
    }


def _covered(text: str, value: str, found: list[tuple[int, int]]) -> bool:
    at = text.find(value)
    inside = [i for i in range(at, at + len(value)) if text[i].isalnum()]
    return all(any(start <= i < end for start, end in found) for i in inside)


def _recorded(data: Path, show_misses: bool) -> dict[str, Any]:
    """Share of recorded public prompts and answers in which each detector finds anything: nearly all should pass."""
    shares = {}
    for name, fields in RECORDED.items():
        try:
            found = rows(data / f"{name}.jsonl.gz")[:RECORDED_ROWS]
        except NoData as absent:
            print(absent)
            continue
        texts = ["\n".join(row[f] for f in fields if isinstance(row.get(f), str)) for row in found]
        shares[name] = {
            kind: sum(bool(find(text)) for text in texts) / len(texts) for kind, find in DETECTORS.items()
        }
        if show_misses:
            for kind, find in DETECTORS.items():
                hits = [(text, find(text)) for text in texts if find(text)]
                for text, what in hits[:12]:
                    shown = [text[s.start : s.end] for s in what] if isinstance(what, list) else what
                    print(f"RECORDED {name} {kind}: {shown} {text[:60] if isinstance(what, str) else ''!r}")
    return shares


def _cpu_ms(text: str, *, once: bool = False) -> float:
    defaults = admission_of(MemorySettings()).settings
    admission = Admission(replace(defaults, max_characters=10**9, secrets="redact"))
    pair = Pair(False, True, 200, True, False, True, text, "Yes, that is right.", "stop", 1, False)
    took = []
    for _ in range(1 if once else 5):
        began = time.thread_time()
        admission.judge(pair)
        took.append(time.thread_time() - began)
    return min(took) * 1000


def _cost() -> dict[str, Any]:
    """CPU of the whole chain per pair, by length of the pair, over ordinary text with one piece of private data."""
    figures: dict[str, Any] = {}
    _cpu_ms(" ".join(ORDINARY))
    for characters in (200, 1000, 4000, 16000, 100_000):
        took = []
        for n in range(200 if characters < 10_000 else 20):
            text = " ".join(ORDINARY[(n + i) % len(ORDINARY)] for i in range(characters // 80 + 1))[
                : characters - 40
            ]
            took.append(_cpu_ms(f"{text} Mail me: person{n}@mail.acme.io", once=True))
        took.sort()
        figures[str(characters)] = {"p50_ms": took[len(took) // 2], "p99_ms": took[int(len(took) * 0.99)]}
    return figures


def _footprint() -> dict[str, float]:
    """Import time and memory of store.admission in a fresh process."""
    out = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True, cwd=ROOT)
    seconds, mebibytes = map(float, out.stdout.split())
    return {"import_s": seconds, "memory_mib": mebibytes}


def show(figures: dict[str, Any]) -> None:
    """The figures as Markdown tables."""
    for subject in ("private data", "secrets", "instructions"):
        by_name = figures[subject]
        names, ours = list(by_name), by_name["understudy"]
        _head(f"{subject}: found, of what was planted", "kind", names)
        for kind in ours["recall"]:
            _row(kind, [f"{by_name[n]['recall'][kind]:.1%}" for n in names])
        for row in ("recall of all", "precision", "false alarms of all"):
            _row(f"**{row}**", [f"{by_name[n][row]:.1%}" for n in names])
        _row("CPU ms per 1000 characters", [f"{by_name[n]['cpu_ms_per_kilocharacter']:.2f}" for n in names])
        _head(f"{subject}: harmless texts in which something was found", "texts", names)
        for kind in ours["false alarms"]:
            _row(kind, [f"{by_name[n]['false alarms'][kind]:.1%}" for n in names])
    _head("recorded public prompts and answers in which something was found", "file", list(DETECTORS))
    for name, shares in figures["recorded traffic"].items():
        _row(name, [f"{share:.2%}" for share in shares.values()])
    _head("CPU of the whole chain, per pair", "characters", ["p50 ms", "p99 ms"])
    for characters, cost in figures["cost"].items():
        _row(characters, [f"{cost['p50_ms']:.2f}", f"{cost['p99_ms']:.2f}"])
    slow = figures["adversarial"]
    worst = max(slow, key=slow.__getitem__)
    print(f"\nWorst of {len(slow)} adversarial texts of 100 kB: {worst!r}, {slow[worst]:.0f} ms")
    print(
        "Footprint: {import_s:.2f} s to import and first use, {memory_mib:.0f} MiB".format(
            **figures["footprint"]
        )
    )


def _head(title: str, first: str, names: list[str]) -> None:
    print(f"\n### {title}\n\n| {first} | {' | '.join(names)} |\n|---|{'--:|' * len(names)}")


def _row(first: str, cells: list[str]) -> None:
    print(f"| {first} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
