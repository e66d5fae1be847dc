"""Cost page: who spent what on which day, beside the time before, so that what made a bill grow stands first."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import quote, urlencode

from admin.charts import stacked
from admin.page import Asked, BadParameter, Summary
from admin.sources import Sources
from admin.summaries.requests import keys_to_choose, tenants_to_choose
from admin.usage_report import usage_total
from store.decisions.usage import Amounts, Dimension, UsageSum
from store.sums import DAY_S, HOUR_S

SPANS = {
    "yesterday": DAY_S,
    "day": DAY_S,
    "week": 7 * DAY_S,
    "month": 30 * DAY_S,
    "quarter": 91 * DAY_S,
}
"""`yesterday` is a day of the calendar; the others end now."""
_LONGEST_S = 200 * DAY_S
"""The time before it, as long, is kept as well."""
SPLITS: dict[str, tuple[Dimension, ...]] = {
    "model-key": ("model", "key"),
    "model": ("model",),
    "key": ("key",),
    "tenant": ("tenant",),
    "engine": ("engine",),
    "model-engine": ("model", "engine"),
    "api": ("api",),
}
LINES = {
    "answer": "clients' requests",
    "component": "components of workflows",
    "judge": "judges' verdicts",
    "shadow": "answers to compare with",
    "replay": "replay",
    "manual_queries": "manual queries",
    "warm": "prompts computed early",
}
FACTORS = ("requests", "engine_share", "tokens", "usd_per_mtok")
"""Their product is the dollars, but for a million."""
_MOST_ROWS = 200
_MOST_SERIES = 7
_REST = "others"
Group = tuple[str, ...]
"""A line of the books, and one value for each dimension."""


def cost(sources: Sources, asked: Asked) -> Summary:
    """Of `span`, or `from` and `to`; `by` what it is split; of a `tenant` or `key` if named."""
    since_s, until_s = _range(asked)
    split = asked.choice("by", tuple(SPLITS), "model-key")
    by = SPLITS[split]
    tenant, key_id = asked.text("tenant", longest=64), asked.text("key", longest=200)
    books = sources.store.decisions.usage
    whose = {"tenant": tenant or None, "key_id": key_id or None}
    days = books.sums(("day", *by), since_s=since_s, until_s=until_s, **whose)
    length_s = until_s - since_s
    before = books.sums(by, since_s=since_s - length_s, until_s=since_s, **whose)
    names = _names(sources)
    groups = _groups(by, days, before)
    time = {"from": since_s, "to": until_s}
    times = {
        name: datetime.fromtimestamp(at_s, asked.zone).strftime("%Y-%m-%dT%H:%M")
        for name, at_s in time.items()
    }
    shown = [
        _row(by, group, now, then, names)
        | _links(by, group, sources, names)
        | _requests_links(by, group, times, now)
        for group, now, then in groups
    ]
    return {
        "span": "" if asked.text("from") or asked.text("to") else asked.choice("span", tuple(SPANS), "month"),
        "since_s": since_s,
        "until_s": until_s,
        "before_s": since_s - length_s,
        "by": split,
        "dimensions": list(by),
        "tenant": tenant,
        "key": key_id,
        "choices": {"tenants": tenants_to_choose(sources, tenant), "keys": keys_to_choose(sources, key_id)},
        "total": usage_total(days),
        "total_before": usage_total(before),
        "moved": _moved(_answers(days), _answers(before)),
        "groups": shown[:_MOST_ROWS],
        "more": max(0, len(shown) - _MOST_ROWS),
        "rows": [_day_row(by, one, names) for one in sorted(days, key=lambda one: one.day)],
        "charts": {"cost": _chart(by, days, groups, names)},
    }


def _range(asked: Asked) -> tuple[int, int]:
    """Whole hours, as the books have them; the hour that has begun is in it."""
    since, until = asked.time("from"), asked.time("to")
    if since is None and until is None:
        span = asked.choice("span", tuple(SPANS), "month")
        until = asked.now_s
        if span == "yesterday":
            today = datetime.fromtimestamp(asked.now_s, asked.zone)
            until = today.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        since = until - SPANS[span]
    else:
        until = min(asked.now_s, asked.now_s if until is None else until)
        since = until - SPANS["month"] if since is None else since
    if since >= until:
        raise BadParameter("from is not before to, or lies in the future", "from")
    if until - since > _LONGEST_S:
        raise BadParameter("from lies more than 200 days before to: the time before it is shown, too", "from")
    return int(since) // HOUR_S * HOUR_S, -(-int(until) // HOUR_S) * HOUR_S


def _names(sources: Sources) -> dict[str, Mapping[str, str]]:
    """Names of tenants and keys by dimension and id."""
    keys = {key.id: f"{key.name} ({key.tenant_name})" for key in sources.store.keys.listed()}
    return {"tenant": sources.tenant_names(), "key": keys}


def _group(by: Iterable[Dimension], one: UsageSum) -> Group:
    return (one.line, *(cast("str", getattr(one, name)) for name in by))


def _groups(
    by: tuple[Dimension, ...], days: Iterable[UsageSum], before: Iterable[UsageSum]
) -> list[tuple[Group, Amounts, Amounts]]:
    """Sums of the range and of the time before, by group: where dollars changed the most comes first."""
    now: defaultdict[Group, Amounts] = defaultdict(Amounts)
    then: defaultdict[Group, Amounts] = defaultdict(Amounts)
    for sums, found in ((days, now), (before, then)):
        for one in sums:
            found[_group(by, one)] = found[_group(by, one)].plus(one.amounts)
    groups = [(group, now[group], then[group]) for group in {**now, **then}]
    return sorted(groups, key=lambda one: (-abs(one[1].cost_usd - one[2].cost_usd), -one[1].requests, one[0]))


def _answers(sums: Iterable[UsageSum]) -> Amounts:
    """What clients' requests used: the gateway's own have lines of their own in the groups."""
    found = Amounts()
    for one in sums:
        if one.line == "answer":
            found = found.plus(one.amounts)
    return found


def _parts(amounts: Amounts) -> dict[str, float | None]:
    """What dollars are the product of, as FACTORS, and what the tokens were, each per request that an engine was asked."""
    asked, tokens = amounts.requests - amounts.hits, amounts.prompt_tokens + amounts.completion_tokens

    def share(part: float, whole: float) -> float | None:
        return part / whole if whole else None

    return {
        "requests": float(amounts.requests),
        "engine_share": share(asked, amounts.requests),
        "tokens": share(tokens, asked),
        "usd_per_mtok": share(1e6 * amounts.cost_usd, tokens),
        "prompt_tokens": share(amounts.prompt_tokens, asked),
        "completion_tokens": share(amounts.completion_tokens, asked),
        "example_tokens": share(amounts.example_tokens, asked),
        "cached_share": share(amounts.cached_tokens, amounts.prompt_tokens),
    }


def _moved(now: Amounts, then: Amounts) -> list[Summary]:
    """Each part now and before, and of a factor the dollars of the change that it explains; all factors make up the change.

    By the logarithmic mean Divisia index (Ang, Energy Policy 32, 2004), which leaves no rest. None where a time is without
    dollars.
    """
    parts, before = _parts(now), _parts(then)
    weight = None
    if now.cost_usd > 0 and then.cost_usd > 0:
        change = now.cost_usd - then.cost_usd
        weight = change / math.log(now.cost_usd / then.cost_usd) if change else now.cost_usd

    def explained(name: str) -> float | None:
        value, old = parts[name], before[name]
        return weight * math.log(value / old) if weight and name in FACTORS and value and old else None

    return [
        {"part": name, "now": parts[name], "before": before[name], "explains_usd": explained(name)}
        for name in parts
    ]


def _links(
    by: tuple[Dimension, ...], group: Group, sources: Sources, names: Mapping[str, Mapping[str, str]]
) -> Summary:
    """The page of each of a group's names, empty where there is none: a key's has its limits and budgets."""
    paths = {"tenant": "/tenants/", "key": "/keys/", "engine": "/engines#engine-", "model": "/trends?model="}
    known = {
        **names,
        "engine": {one.name for one in sources.gateway.engines},
        "model": {one.name for one in sources.gateway.models},
    }
    return {
        "links": [
            f"{paths[name]}{quote(id, safe='')}" if id in known.get(name, ()) else ""
            for name, id in zip(by, group[1:], strict=True)
        ]
    }


def _requests_links(
    by: tuple[Dimension, ...], group: Group, times: Mapping[str, str], now: Amounts
) -> Summary:
    """The requests of a group in the range, and those of them that cost the mean or more, as filters of the list.

    None where the list has no such filter.
    """
    if group[0] != "answer" or "api" in by:
        return {"requests_link": None, "dear_link": None}
    ids = {str(name): id for name, id in zip(by, group[1:], strict=True) if id}
    # A little less than the mean: where all cost the same, none of them is to be left out by rounding.
    dear = {"cost": f"{0.99 * now.cost_usd / now.requests:.3g}"} if now.requests else {}
    return {
        "requests_link": urlencode(ids | dict(times)),
        "dear_link": urlencode(ids | dict(times) | dear) if now.cost_usd > 0 else None,
    }


def _row(
    by: tuple[Dimension, ...],
    group: Group,
    now: Amounts,
    then: Amounts,
    names: Mapping[str, Mapping[str, str]],
) -> Summary:
    ids = dict(zip(by, group[1:], strict=True))
    return {
        "line": group[0],
        "says": LINES[group[0]],
        "ids": ids,
        "names": [names.get(name, {}).get(id, id) for name, id in ids.items()],
        "cost_usd": now.cost_usd,
        "before_usd": then.cost_usd,
        "change_usd": now.cost_usd - then.cost_usd,
        "requests": now.requests,
        "requests_before": then.requests,
        "hits": now.hits,
        "hits_before": then.hits,
        "usd_per_request": now.cost_usd / now.requests if now.requests else None,
        "usd_per_request_before": then.cost_usd / then.requests if then.requests else None,
        "parts": _parts(now),
        "parts_before": _parts(then),
        "unpriced": now.unpriced,
        "estimated": now.estimated,
    }


def _day_row(
    by: tuple[Dimension, ...], one: UsageSum, names: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    row: dict[str, Any] = {"day": one.day, "line": one.line}
    for name in by:
        row[name] = getattr(one, name)
        if name in names:
            row[f"{name}_name"] = names[name].get(row[name], "")
    return row | one.amounts._asdict()


def _chart(
    by: tuple[Dimension, ...],
    days: Iterable[UsageSum],
    groups: Iterable[tuple[Group, Amounts, Amounts]],
    names: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Dollars a day by the first dimension; the dearest apart, the rest together."""

    def called(group: Group) -> str:
        return names.get(by[0], {}).get(group[1], group[1]) or LINES[group[0]]

    dollars: defaultdict[str, float] = defaultdict(float)
    for group, now, _ in groups:
        dollars[called(group)] += now.cost_usd
    dearest = sorted((name for name in dollars if dollars[name]), key=lambda name: -dollars[name])[
        :_MOST_SERIES
    ]
    series: dict[str, defaultdict[str, float]] = {name: defaultdict(float) for name in [*dearest, _REST]}
    found = set()
    for one in days:
        name = called(_group(by, one))
        series[name if name in dearest else _REST][one.day] += one.amounts.cost_usd
        found.add(one.day)
    starts = sorted(found)
    at_s = [datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() for day in starts]
    drawn = [
        (name, [sums[day] for day in starts], f"series-{place + 1}")
        for place, (name, sums) in enumerate(series.items())
        if any(sums.values())
    ]
    return stacked(at_s, drawn, unit="$", times=True)
