"""`understudy learn explain`: per task scope of the request log, why nothing or little is offloaded, and what it would take.

With `--cache`: which headers keep repeats from being answered from the cache, as the running gateway counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.reports import write_report
from understudy.commands.tenant_option import tenant_named, tenant_option

if TYPE_CHECKING:
    from store import Store

_SHOWN = 20
_LIMIT_S = 10.0


@click.command()
@data_option(required=False)
@tenant_option("Whose requests; without it everybody's.")
@click.option(
    "--limit", type=click.IntRange(1), default=20_000, show_default=True, help="The latest so many requests."
)
@click.option(
    "--max-loss",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="As models.NAME.max_loss: how much worse a smaller engine's answers may be.",
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Also write every figure to this file."
)
@click.option(
    "--cache",
    "gateway",
    metavar="[URL]",
    is_flag=False,
    flag_value="http://127.0.0.1:8080",
    help="Say instead for which request headers alone the gateway at this URL missed repeats in its cache.",
)
def explain(
    data: Path | None,
    tenant: str | None,
    limit: int,
    max_loss: float,
    json_file: Path | None,
    gateway: str | None,
) -> None:
    """Say per task scope, the dearest first, why requests went to the reference engine. Reads the log only."""
    if gateway is not None:
        click.echo(_missed(gateway))
        return
    if data is None:
        raise click.UsageError("Give --data, or --cache for the cache.")
    from learning.logs.explain import explained

    with store_in(data) as store:
        whose = tenant_named(store.keys, tenant) if tenant else None
        result = explained(store, tenant=whose, limit=limit, max_loss=max_loss)
        if not result["requests"]:
            give_up("no answered request is in the log")
        click.echo(_text(store, result))
    write_report(result, json_file)


def _missed(gateway: str) -> str:
    """What the gateway counted since it started."""
    from urllib.error import URLError
    from urllib.request import urlopen

    from prometheus_client.parser import text_string_to_metric_families

    try:
        with urlopen(gateway.rstrip("/").removesuffix("/v1") + "/metrics", timeout=_LIMIT_S) as page:
            families = text_string_to_metric_families(page.read().decode())
            samples = [sample for family in families for sample in family.samples]
    except (URLError, ValueError, OSError) as error:
        give_up(f"{gateway} does not tell its metrics: {error}")
    missed = {s.labels["header"]: int(s.value) for s in samples if s.name == "understudy_exact_missed_total"}
    dropped = sorted(s.labels["header"] for s in samples if s.name == "understudy_exact_dropped_total")
    lines = [
        f"{count:>8} repeats were asked anew for the header {name} alone"
        for name, count in sorted(missed.items(), key=lambda item: -item[1])
    ]
    lines = lines or ["No repeat was missed for one header alone."]
    return "\n".join([*lines, *(f"New with every request, and left out since: {name}" for name in dropped)])


def _text(store: Store, result: dict[str, Any]) -> str:
    count = result["requests"]
    lines = [
        f"{count} requests: {_percent(result['hits'], count)} cache hits, "
        f"{_percent(result['offloaded'], count)} offloaded; all by the reference would have cost "
        f"${result['cost_usd']:.4f}"
    ]
    for row in result["scopes"][:_SHOWN]:
        lines += ["", *_scope(store, row)]
    if len(result["scopes"]) > _SHOWN:
        lines += ["", f"{len(result['scopes']) - _SHOWN} cheaper scopes are in the JSON (--json FILE)"]
    return "\n".join(lines)


def _scope(store: Store, row: dict[str, Any]) -> list[str]:
    from learning.logs.explain import label

    named = label(store, row["tenant"], row["scope"]) or (
        f"{row['scopes']} scopes of {row['requests']} requests"
        if row["scopes"] > 1
        else row["scope"] or "requests whose instructions were not recorded: a student's answers, for one"
    )
    cost = "" if row["cost_share"] is None else f", {100 * row['cost_share']:.0f} % of the cost"
    lines = [
        f"{row['model']}: {named}",
        f"  {row['requests']} requests ({100 * row['request_share']:.0f} %{cost}), "
        f"{row['hits']} cache hits, {row['offloaded']} offloaded",
    ]
    for each in row["reasons"]:
        lines.append(f"  {each['requests']:>6} ({100 * each['share']:.0f} %): {each['says']}")
        if each["takes"]:
            lines.append(f"         it would take: {each['takes']}")
    if row["expected_more"]:
        lines.append(
            f"  about {row['expected_more']} more comparisons are expected before a smaller engine may answer"
        )
    lines += [
        f"  {each['engine']}, {'few-shot' if each['few_shot'] else 'direct'}, region {each['region']}: quality "
        f"{each['low']:.3f} to {each['high']:.3f} after {each['compared']} comparisons"
        f": {'it may answer' if each['open'] and not each['in_doubt'] else each['state']}{_took(each)}"
        for each in row["standings"]
    ]
    return lines


def _took(each: dict[str, Any]) -> str:
    if each["seconds"] is None or each["reference_seconds"] is None:
        return ""
    return f"; takes {each['seconds']:.1f} s, the reference {each['reference_seconds']:.1f} s"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"
