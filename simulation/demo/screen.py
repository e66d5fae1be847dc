"""What the demo prints: progress, a live table on a terminal or plain lines elsewhere, the results, and what to try next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from simulation.demo.admin_access import AdminAccess
from simulation.demo.document_question import DOCUMENTS, QUESTION, WORKFLOW, DocumentAnswer
from simulation.demo.results import Answers, Results, Summary, summary
from simulation.demo.settings import MAX_EXAMPLES, MAX_LOSS, THETA, DemoSettings, M

_PLAIN_EVERY_S = 5.0
_SIMULATED = "Everything here is simulated: questions, engines, prices and times. See docs/experiments/simulated-world.md."
_REAL = (
    "The models and their times are real, the questions invented, the prices assumed. So few requests tell little:"
    " docs/experiments/effect.md has what was measured."
)
_ADMIN_PAGES = """
{admin.url}
      the admin pages: what happened and why, what it saved, which examples were
      sent with a request, what other settings of the router would have brought
      name {admin.user}, password {admin.password}
"""
_NEXT_STEPS = """
The gateway is still running at {url} (Ctrl-C stops it).
In another terminal, in this folder:

{shell}
      once, and again for a cache hit: watch `cache-status`,
      `x-understudy-engine` and `x-understudy-examples`
{shell} small
      the small engine by itself
{python}
      the same in Python, by the OpenAI SDK
curl {url}/metrics
      what Prometheus sees
{admin_pages}
Next: README.md for your own engines, docs/experiments/simulated-world.md for
what was simulated here."""


class Screen:
    """Prints the demo's progress and results. On a terminal a table is updated in place; elsewhere a line is printed every
    five seconds."""

    def __init__(self, console: Console, settings: DemoSettings) -> None:
        self._console = console
        self._settings = settings
        self._live: Live | None = None
        self._last_line_at = 0.0
        self._began = time.monotonic()

    def say(self, text: str = "") -> None:
        """Print a line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=not self._console.is_terminal)

    def step(self, text: str) -> None:
        """Print what is being done now, after the seconds since the start."""
        self.say(f"[{time.monotonic() - self._began:3.0f} s] {text}")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """On a terminal, show that something is still being worked at."""
        if not self._console.is_terminal:
            yield
            return
        with self._console.status("working"):
            yield

    @contextmanager
    def live(self, answers: Answers) -> Iterator[None]:
        """While inside, `refresh` updates the table of `answers`."""
        if not self._console.is_terminal:
            yield
            return
        with Live(
            _live_table(answers, self._settings), console=self._console, refresh_per_second=4
        ) as self._live:
            try:
                yield
            finally:
                self._live.update(_live_table(answers, self._settings))
                self._live = None

    def refresh(self, answers: Answers) -> None:
        """Show the answers so far."""
        if self._live is not None:
            self._live.update(_live_table(answers, self._settings))
        elif not self._console.is_terminal and time.monotonic() - self._last_line_at >= _PLAIN_EVERY_S:
            self._last_line_at = time.monotonic()
            whole = summary(answers.graded)
            self.say(
                f"{whole.requests:5d} requests  {answers.share('hit'):5.1%} cache hits  "
                f"{answers.share('offloaded'):5.1%} offloaded  {answers.share('large'):5.1%} large  "
                f"quality {whole.quality:.3f}  ${whole.usd_per_1000:.3f}/1000  {whole.total_ms_mean:.0f} ms"
            )

    def results(self, results: Results) -> None:
        """Print the table of results."""
        self._console.print(_final_table(results))
        r = results
        self.say(
            f"Offloaded: {r.offloaded_share:.1%} of all requests, {r.offloaded_share_of_asked:.1%} of those that an "
            f"engine answered (cache hits excluded). Quality: {100 * r.quality_gap:.1f} points behind always-large. "
            f"Cost: {r.cost_ratio:.0%} of always-large. Mean latency: {r.latency_ratio:.0%} of always-large."
        )
        self._proof(results)
        self.say(_REAL if self._settings.real else _SIMULATED)
        if r.bypassed:
            self.say(
                f"This machine was busy: {r.bypassed} times a stage was late, and the request continued without it."
            )
        if r.failed:
            self.say(f"{r.failed} requests failed.")
        if r.feedback_refused:
            self.say(f"{r.feedback_refused} scores of answers were not taken: the store was busy.")

    def _proof(self, results: Results) -> None:
        """Say how shadow, proof and offload went on."""
        if self._settings.proof == "floor":
            self.say(
                "The small engine answered as much as the quality guarantee allowed: at most a loss of"
                f" {100 * MAX_LOSS:.0f} points."
            )
        if self._settings.proof != "on":
            return
        times = f"{results.opened} regions of requests were opened to it, {results.closed} closed again"
        self.say(f"The small engine answered only where comparing its answers had proved it: {times}.")
        if results.quarters:
            shares = ", ".join(f"{quarter.small_share:.0%}" for quarter in results.quarters)
            quality = ", ".join(f"{quarter.quality:.3f}" for quarter in results.quarters)
            turned = " It turned bad half-way." if self._settings.drift else ""
            self.say(f"By quarters it answered {shares}; quality of all answers: {quality}.{turned}")

    def document_answer(self, answer: DocumentAnswer) -> None:
        """Print the question about documents with its answer."""
        self.say(
            f"A question about {len(DOCUMENTS)} documents, asked of the model {WORKFLOW}, which is a workflow of "
            f"{answer.steps} steps ({answer.took_s:.1f} s):\n  {QUESTION}\n  {answer.text}\n"
            f"  docs/tutorial/rag.md tells how it is declared; its run is {answer.run}."
        )

    def admin_access(self, admin: AdminAccess) -> None:
        """Print where the admin pages are, and the account to sign in with."""
        self.say(f"Watch it in a browser: {admin.url}\n  name {admin.user}  password {admin.password}")

    def next_steps(self, url: str, tries: tuple[str, str], admin: AdminAccess | None = None) -> None:
        """Print what to try while the gateway runs. `tries`: the commands that ask it, of a shell and in Python."""
        shell, python = tries
        admin_pages = "" if admin is None else _ADMIN_PAGES.format(admin=admin)
        # Never broken into lines: what a line break was put into cannot be pasted.
        self._console.print(
            _NEXT_STEPS.format(url=url, shell=shell, python=python, admin_pages=admin_pages).rstrip(),
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _live_table(answers: Answers, settings: DemoSettings) -> Table:
    whole, large = summary(answers.graded), summary(answers.of("large"))
    table = _table(f"Understudy demo: {len(answers.graded)} of {settings.requests} requests")
    _add_columns(table)
    rows = (
        ("cache hits", summary(answers.of("hit"))),
        ("small, few-shot", summary(answers.of("offloaded"))),
        ("small, direct", summary(answers.of("small"))),
        ("large", large),
    )
    for name, part in rows:
        if part.requests or name != "small, direct":
            table.add_row(*_cells(name, part, len(answers.graded)))
    table.add_section()
    table.add_row(*_cells("all", whole, len(answers.graded)), style="bold")
    if large.requests:
        # Until the baselines are measured, the mean of the large engine's answers is the estimate.
        table.caption = (
            f"against always-large (estimated): cost {whole.usd_per_1000 / large.usd_per_1000:.0%}, "
            f"latency {whole.total_ms_mean / large.total_ms_mean:.0%}\n"
            + (
                f"learning from the {settings.feedback_share:.0%} of answers that are scored"
                if settings.learns
                else f"theta {THETA}, m {M}, same names, at most {MAX_EXAMPLES} examples"
            )
        )
    return table


def _final_table(results: Results) -> Table:
    table = _table("Results")
    _add_columns(table, "p95")
    total = results.whole.requests
    parts = (
        ("All, as answered", results.whole, total),
        ("  cache hits", results.hits, total),
        ("  small, few-shot", results.offloaded, total),
        ("  large", results.large, total),
    )
    for name, part, of in parts:
        table.add_row(
            *_cells(name, part, of),
            f"{part.total_ms_p95:.0f}",
            style="bold" if part is results.whole else "",
        )
    table.add_section()
    for name, part in (
        ("Always large*", results.always_large),
        ("Always small*", results.small_alone),
        ("Offloaded again*", results.offloaded_without_examples),
    ):
        table.add_row(*_cells(name, part, 0), f"{part.total_ms_p95:.0f}")
    table.caption = "* a sample of the same requests, sent again to one engine without examples"
    return table


def _table(title: str) -> Table:
    # Fits 80 columns.
    return Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )


def _add_columns(table: Table, *more: str) -> None:
    table.add_column("answered by", no_wrap=True)
    for name in ("number", "share", "quality", "$/1000", "TTFT ms", "mean ms", *more):
        table.add_column(name, justify="right", no_wrap=True)


def _cells(name: str, part: Summary, of: int) -> tuple[str, ...]:
    if not part.requests:
        return (name, "0", "", "", "", "", "")
    return (
        name,
        str(part.requests),
        f"{part.requests / of:.1%}" if of else "",
        f"{part.quality:.3f}",
        f"{part.usd_per_1000:.4f}",
        f"{part.first_token_ms:.0f}",
        f"{part.total_ms_mean:.0f}",
    )
