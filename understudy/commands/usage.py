"""`understudy usage`: what was used and paid, by model, key, tenant, end user, engine, API or day."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.since import moment
from understudy.commands.tables import table
from understudy.commands.tenant_option import tenant_named, tenant_option

if TYPE_CHECKING:
    from learning.evaluation.mean_quality import MeanQuality
    from store import Store
    from store.decisions.usage import Dimension, UsageSum

_DIGEST = 12
"""Characters of a digest that are shown in a table."""
_FIGURES = (
    *("requests", "hits", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd", "saved_usd"),
    *("failed", "unpriced", "estimated"),
)
_HOURS_KEPT_S = 39 * 86_400
"""Sums of quality by the hour: before that by the day."""


def _when(_: click.Context, option: click.Parameter, text: str | None) -> float | None:
    return moment(f"--{option.name}", text, time.time())


def _dimensions(_: click.Context, __: click.Parameter, text: str) -> tuple[Dimension, ...]:
    """Dimensions with commas between."""
    from store.decisions.usage import DIMENSIONS

    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if unknown := [name for name in found if name not in DIMENSIONS]:
        raise click.BadParameter(f"{unknown[0][:40]!r} is none of {', '.join(DIMENSIONS)}")
    return cast("tuple[Dimension, ...]", found)


@click.command()
@data_option()
@click.option(
    "--by",
    callback=_dimensions,
    default="model",
    show_default=True,
    help="Any of day, tenant, key, user, model, engine and api, with commas between.",
)
@click.option("--since", callback=_when, default="30d", show_default=True, help="7d, 24h, or a date (UTC).")
@click.option("--until", callback=_when, help="The same; without it up to now.")
@tenant_option("Whose requests; without it everybody's.")
@click.option("--key", "key_id", metavar="KEY_ID", help="Of this key only.")
@click.option("--user", metavar="USER", help="Of this end user only, as clients name them. Needs --tenant.")
@click.option(
    "--users",
    "users_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file with the names of end users, one per line: kept are their digests only, and these are shown by name.",
)
@click.option("--csv", "form", flag_value="csv", help="Comma-separated values, on standard output.")
@click.option("--json", "form", flag_value="json", help="JSON, on standard output.")
def usage(
    data: Path,
    by: tuple[Dimension, ...],
    since: float,
    until: float | None,
    tenant: str | None,
    key_id: str | None,
    user: str | None,
    users_file: Path | None,
    form: str | None,
) -> None:
    """What was used and paid, and what was saved when everything is counted that the gateway asks of its own accord.

    Times are rounded down to whole hours; to whole days (UTC) by end user. Sums are kept for 400 days.
    """
    from admin.as_csv import csv_text
    from admin.usage_report import FIGURES, usage_rows, usage_total
    from store.people.limits import told

    if user and not tenant:
        give_up("--user needs --tenant: the same name is somebody else in another tenant")
    # An hour that has begun counts.
    until_s = until if until is not None else time.time() + 86_400
    with store_in(data) as store:
        whose = tenant_named(store.keys, tenant) if tenant else None
        found = store.decisions.usage.sums(
            by,
            since_s=since,
            until_s=until_s,
            tenant=whose,
            key_id=key_id,
            end_user=_digest(store, whose, user) if user and whose else None,
        )
        rows = usage_rows(found, _names(store, found, [*_lines(users_file), *([user] if user else [])]))
        judged = None if user else _judged(store, since, until_s, whose, key_id)
    total = usage_total(found)
    if form == "csv":
        click.echo(csv_text(rows, ("line", *by, *FIGURES)), nl=False)
    elif form == "json":
        shown = [{name: row[name] for name in row if name not in _without(by)} for row in rows]
        click.echo(
            json.dumps(
                {
                    "by": list(by),
                    "since": told(since),
                    "until": told(until),
                    "rows": shown,
                    "total": total,
                    "judged": None if judged is None else asdict(judged),
                }
            )
        )
    else:
        click.echo(_table(rows, by, total))
        if not user:
            click.echo(_quality(judged))


def _judged(
    store: Store, since_s: float, until_s: float, tenant: str | None, key_id: str | None
) -> MeanQuality | None:
    """How the judge found what was offloaded: it is shown nothing else. None where nothing was judged."""
    from learning.evaluation.mean_quality import mean_quality
    from store.sums import DAY_S, HOUR_S

    if key_id is not None and tenant is None:
        tenant = next((key.tenant for key in store.keys.list() if key.id == key_id), None)
    span_s = HOUR_S if since_s > time.time() - _HOURS_KEPT_S else DAY_S
    sums = store.decisions.quality.sums(
        span_s, since_s // span_s * span_s, until_s, tenant=tenant, key_id=key_id
    )
    return mean_quality(one for one in sums if one.source == "judge" and not one.failed_over)


def _quality(judged: MeanQuality | None) -> str:
    if judged is None:
        return "quality of offloaded answers: not measured"
    return (
        f"quality of offloaded answers by the judge: {judged.mean:.3f} ({judged.low:.3f} to {judged.high:.3f};"
        f" {judged.count} judged)"
    )


def _lines(file: Path | None) -> list[str]:
    return [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()] if file else []


def _digest(store: Store, tenant: str, user: str) -> str:
    from learning.bank.contributor import user_digest

    return user_digest(store.secret, tenant, user)


def _names(store: Store, found: Sequence[UsageSum], users: Sequence[str]) -> dict[str, dict[str, str]]:
    """What to show for ids: keys and tenants as the operator calls them, end users as far as they are named."""
    keys = store.keys.list()
    tenants = {key.tenant: key.tenant_name for key in keys if key.tenant_name}
    of = {*(one.tenant for one in found if one.tenant), *tenants, "default"} if users else set()
    return {
        "tenant": tenants,
        "key": {key.id: f"{key.name} ({key.id})" for key in keys},
        "user": {_digest(store, tenant, user): user for tenant in of for user in users},
    }


def _without(by: Sequence[str]) -> set[str]:
    from store.decisions.usage import Dimension

    return set(get_args(Dimension)) - set(by)


def _table(rows: Sequence[dict[str, Any]], by: Sequence[str], total: dict[str, Any]) -> str:
    columns = ("line", *by, *_FIGURES)
    shown = [row | ({"user": row["user"][:_DIGEST]} if "user" in by else {}) for row in rows]
    parts = ", ".join(
        f"{name} {_usd(total[f'{name}_usd'])}"
        for name in ("judge", "shadow", "replay", "manual_queries", "warm")
        if total[f"{name}_usd"]
    )
    return "\n".join(
        [
            *table(shown, columns),
            "",
            f"answers {_usd(total['answer_usd'])}, of which examples {_usd(total['examples_usd'])}"
            f" ({total['example_tokens']} tokens)",
            *([f"components {_usd(total['component_usd'])}"] if total["component_usd"] else []),
            f"of the gateway's own accord {_usd(total['overheads_usd'])}{f' ({parts})' if parts else ''}",
            f"paid {_usd(total['cost_usd'])}; the reference engines alone {_usd(total['reference_usd'])}; saved "
            f"{_usd(total['saved_usd'])}, all of that counted",
            *(
                [f"{total['unpriced']} requests have no price, and are in none of these dollars"]
                if total["unpriced"]
                else []
            ),
        ]
    )


def _usd(dollars: float) -> str:
    return f"{'-' if dollars < 0 else ''}${abs(dollars):.6f}"
