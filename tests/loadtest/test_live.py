"""The live view: a table on a terminal, plain lines elsewhere, nothing when told to be quiet."""

from __future__ import annotations

import io
import re

import numpy as np
from rich.console import Console

from loadtest.live import LiveView
from loadtest.plan import LoadPlan, Target
from loadtest.records import WIDTH, Batch
from loadtest.totals import Totals


def tally() -> Totals:
    sums = Totals(0.0, 10.0, 1)
    row = np.zeros((3, WIDTH))
    row[:, 4] = 0.25
    sums.add(Batch(worker=0, rows=row.tobytes(), names=["ok", ""], launched=5, in_flight=2))
    return sums


def show(terminal: bool, quiet: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=160)
    with LiveView(LoadPlan(Target("http://x")), tally(), console, quiet) as view:
        view.update(1.5, stopping=False)
        view.update(2.0, stopping=True)
    return out.getvalue()


def test_a_terminal_gets_a_table_and_a_bar() -> None:
    text = show(terminal=True)
    assert (
        "requests/s" in text
        and "in flight" in text
        and "stopping" in text
        and re.search(r"250\.\d/250\.\d ms", text)
    )


def test_anything_else_gets_lines_and_not_too_many() -> None:
    text = show(terminal=False)
    assert text.count("sent 5") == 1 and "\x1b" not in text


def test_quiet_is_quiet() -> None:
    assert show(terminal=False, quiet=True) == ""
