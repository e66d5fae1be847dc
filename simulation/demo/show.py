"""The demo on a screen: a live table on a terminal, plain lines anywhere else, and what to try next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from simulation.demo.pages import Pages
from simulation.demo.stage import MAX_EXAMPLES, MODEL, SMALL, THETA, M, Stage
from simulation.demo.tally import Results, Summary, Tally, summary

_PLAIN_EVERY_S = 5.0
_LOOK = """
  {pages.url}   the admin pages (name {pages.user}, password {pages.password}): what happened and why, what it saved,
      which examples were sent with a request, what other dials would have brought
"""


class Screen:
    """Shows a tally as it fills. On a terminal the table stays in place; otherwise a line every five seconds."""

    def __init__(self, console: Console, stage: Stage) -> None:
        self._console = console
        self._stage = stage
        self._live: Live | None = None
        self._last_line_at = 0.0

    def say(self, text: str = "") -> None:
        """A line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=not self._console.is_terminal)

    @contextmanager
    def showing(self, tally: Tally) -> Iterator[None]:
        """While inside, `refresh` updates the picture of `tally`."""
        if not self._console.is_terminal:
            yield
            return
        with Live(_live_table(tally, self._stage), console=self._console, refresh_per_second=4) as self._live:
            try:
                yield
            finally:
                self._live.update(_live_table(tally, self._stage))
                self._live = None

    def refresh(self, tally: Tally) -> None:
        """Show the tally as it is now."""
        if self._live is not None:
            self._live.update(_live_table(tally, self._stage))
        elif not self._console.is_terminal and time.monotonic() - self._last_line_at >= _PLAIN_EVERY_S:
            self._last_line_at = time.monotonic()
            whole = summary(tally.played)
            self.say(
                f"{whole.requests:5d} requests  {tally.share('hit'):5.1%} exact hits  "
                f"{tally.share('offloaded'):5.1%} offloaded with examples  {tally.share('large'):5.1%} large  "
                f"quality {whole.quality:.3f}  ${whole.usd_per_1000:.3f}/1000  {whole.total_ms_mean:.0f} ms"
            )

    def results(self, results: Results) -> None:
        """The table the demo ends with."""
        self._console.print(_final_table(results))
        r = results
        self.say(
            f"Offloaded: {r.offloaded_share:.1%} of all requests, {r.offloaded_share_of_asked:.1%} of those for which an "
            f"engine was asked (exact repeats apart). Quality: {100 * r.quality_gap:.1f} points behind always-large. "
            f"Cost: {r.cost_ratio:.0%} of always-large. Mean latency: {r.latency_ratio:.0%} of always-large."
        )
        self.say(
            "Everything here is simulated: questions, engines, prices and times. See docs/explanation/simulated-world.md."
        )
        if r.bypassed:
            self.say(f"This machine was busy: {r.bypassed} times a stage was late and gone without.")
        if r.failed:
            self.say(f"{r.failed} requests failed.")

    def pages(self, pages: Pages) -> None:
        """Where the admin pages are, and who may sign in."""
        self.say(f"Watch it in a browser: {pages.url}  name {pages.user}  password {pages.password}")

    def next_steps(self, url: str, question: str, pages: Pages | None = None) -> None:
        """What to try while the gateway runs."""
        body = f'{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "{question}"}}]}}'
        look = "" if pages is None else _LOOK.format(pages=pages)
        self.say(
            f"""
The gateway is still running at {url} (Ctrl-C stops it). Try:

  curl -i {url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'
      once, and again for an exact hit: watch `cache-status`, `x-understudy-engine` and `x-understudy-examples`
  curl -i ... -H 'x-understudy-engine: {SMALL}' -H 'x-understudy-examples: 0'     the small engine by itself
  curl {url}/metrics                                                       what Prometheus sees
{look}
  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="any")
  print(client.chat.completions.create(model="{MODEL}", messages=[{{"role": "user", "content": "{question}"}}]))

Next: README.md for your own engines, docs/explanation/simulated-world.md for what was simulated here.""".rstrip()
        )


def _live_table(tally: Tally, stage: Stage) -> Table:
    whole, large = summary(tally.played), summary(tally.of("large"))
    table = _table(f"Understudy demo: {len(tally.played)} of {stage.requests} requests")
    _add_columns(table)
    rows = (
        ("memory (exact hits)", summary(tally.of("hit"))),
        ("small, with examples", summary(tally.of("offloaded"))),
        ("small, without", summary(tally.of("small"))),
        ("large", large),
    )
    for name, part in rows:
        if part.requests or name != "small, without":
            table.add_row(*_cells(name, part, len(tally.played)))
    table.add_section()
    table.add_row(*_cells("all", whole, len(tally.played)), style="bold")
    if large.requests:
        # Until the baselines are measured, what the large one answered stands for what it would have cost.
        table.caption = (
            f"against always-large (estimated): cost {whole.usd_per_1000 / large.usd_per_1000:.0%}, "
            f"latency {whole.total_ms_mean / large.total_ms_mean:.0%}\n"
            + (
                f"learning from the {stage.feedback_share:.0%} of answers that are scored"
                if stage.learns
                else f"theta {THETA}, m {M}, same names, at most {MAX_EXAMPLES} examples"
            )
        )
    return table


def _final_table(results: Results) -> Table:
    table = _table("What came of it")
    _add_columns(table, "p95")
    total = results.whole.requests
    parts = (
        ("All, as answered", results.whole, total),
        ("  exact hits", results.hits, total),
        ("  small with examples", results.offloaded, total),
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
        ("The offloaded, bare*", results.offloaded_without_examples),
    ):
        table.add_row(*_cells(name, part, 0), f"{part.total_ms_p95:.0f}")
    table.caption = "* a sample of the same requests, asked again of one engine, no examples"
    return table


def _table(title: str) -> Table:
    # Fits 80 columns.
    return Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )


def _add_columns(table: Table, *more: str) -> None:
    table.add_column("answered by", no_wrap=True)
    for name in ("number", "share", "quality", "$/1000", "1st ms", "mean ms", *more):
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
