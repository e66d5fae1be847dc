"""What was used and paid, for people: rows of a table, and their sum with the gateway's own lines and what was saved.

One for the command line, the admin API and the admin pages, so that they never differ. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from store.decisions.usage import DIMENSIONS, Amounts, UsageSum

_USD_DIGITS = 10
FIGURES = (*Amounts._fields, "saved_usd")


def usage_rows(sums: Iterable[UsageSum], names: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """One row per sum: its line, its dimensions, every figure of Amounts, and `saved_usd`.

    `names`: by dimension, what to show for an id; what is not there is shown as it is.
    """
    rows = []
    for one in sums:
        row: dict[str, Any] = {"line": one.line}
        for dimension in DIMENSIONS:
            id = getattr(one, dimension)
            row[dimension] = names.get(dimension, {}).get(id, id)
        amounts = one.amounts
        row |= {name: _rounded(value) for name, value in amounts._asdict().items()}
        # The lines of the gateway's own accord save nothing by themselves, and cost; components are asked in any case.
        of_clients = one.line in ("answer", "component")
        saved = amounts.reference_usd - amounts.reckoned_usd if of_clients else -amounts.cost_usd
        row["saved_usd"] = _rounded(saved)
        rows.append(row)
    return rows


def usage_total(sums: Iterable[UsageSum]) -> dict[str, Any]:
    """All of it: every line's dollars, and what was saved when all of them are paid.

    `answer_usd` is what answers cost, `examples_usd` the part of it that examples sent along account for; `component_usd`
    is what components of workflows cost; `overheads_usd` the other lines together. `saved_usd`: what the reference
    engines would have charged less what was paid for the same requests, less the overheads; of tenants whose requests
    nobody could reckon it is what the overheads cost.
    """
    answers, unpriced = Amounts(), 0
    components = 0.0
    lines = {"judge": 0.0, "shadow": 0.0, "replay": 0.0, "manual_queries": 0.0, "warm": 0.0}
    for one in sums:
        unpriced += one.amounts.unpriced
        if one.line == "answer":
            answers = answers.plus(one.amounts)
        elif one.line == "component":
            components += one.amounts.cost_usd
        else:
            lines[one.line] += one.amounts.cost_usd
    overheads = sum(lines.values())
    saved = answers.reference_usd - answers.reckoned_usd - overheads
    return {
        "requests": answers.requests,
        "hits": answers.hits,
        "failed": answers.failed,
        "prompt_tokens": answers.prompt_tokens,
        "cached_tokens": answers.cached_tokens,
        "completion_tokens": answers.completion_tokens,
        "images": answers.images,
        "answer_usd": _rounded(answers.cost_usd),
        "examples_usd": _rounded(answers.examples_usd),
        "example_tokens": answers.example_tokens,
        "component_usd": _rounded(components),
        **{f"{line}_usd": _rounded(usd) for line, usd in lines.items()},
        "overheads_usd": _rounded(overheads),
        "cost_usd": _rounded(answers.cost_usd + components + overheads),
        "reference_usd": _rounded(answers.reference_usd),
        "saved_usd": _rounded(saved),
        "unpriced": unpriced,
        "estimated": answers.estimated,
    }


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(value, _USD_DIGITS)
