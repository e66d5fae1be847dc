"""`understudy learn evaluate`: what other policies, at any preference, would have brought, from the log."""

from __future__ import annotations

import collections
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.reports import write_report
from understudy.commands.since import moment
from understudy.commands.tenant_option import tenant_named, tenant_option

if TYPE_CHECKING:
    from learning.evaluation.logged import Logged
    from learning.evaluation.target_policies import TargetPolicy
    from store import Store
    from store.decisions.outcomes import Experience

_BATCH = 5_000


@click.command()
@data_option()
@tenant_option("Whose requests; needed where more than one tenant has any.")
@click.option("--model", help="The served model; needed where more than one was decided about.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="logged, random, expected, always:ENGINE, few_shot:THETA,M, bandit:ACTIVE or bandit:ID; repeat for several."
    " All that apply if this is not given.",
)
@click.option(
    "--preferences", default="0,0.25,0.5,0.75,1", show_default=True, help="0 is cheapest, 1 is best."
)
@click.option("--since", help="Only requests since then: 7d, 24h, or a date such as 2025-01-31.")
@click.option(
    "--method",
    type=click.Choice(["dr", "snips", "ips"]),
    default="dr",
    show_default=True,
    help="For the table.",
)
@click.option(
    "--clip",
    type=click.FloatRange(min=0, min_open=True),
    help="Cut weights above this: steadier, biased low.",
)
@click.option(
    "--level", type=click.FloatRange(0.5, 0.999), default=0.95, show_default=True, help="Of the intervals."
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20_000,
    show_default=True,
    help="At most so many requests, the latest.",
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Also write every figure to this file."
)
def evaluate(
    data: Path,
    tenant: str | None,
    model: str | None,
    policies: tuple[str, ...],
    preferences: str,
    since: str | None,
    method: Any,
    clip: float | None,
    level: float,
    limit: int,
    json_file: Path | None,
) -> None:
    """Estimate what other policies would have brought. Reads the log only; nothing is asked and nothing is changed."""
    from learning.evaluation.frontier import frontier, table
    from learning.evaluation.logged import NothingLogged, logged
    from learning.evaluation.target_policies import NoSuchPolicy
    from router.choosing.bandit import BanditError

    chosen_preferences, since_s = _preferences(preferences), moment("--since", since, time.time()) or 0.0
    with store_in(data) as store:
        whose, which = _slot(store, tenant, model)
        try:
            found = logged(_latest(store, whose, which, since_s, limit))
            click.echo(f"estimating from {len(found.reference)} requests of {which}", err=True)
            wanted = (
                [_policy(store, text, whose, which) for text in policies]
                if policies
                else _all(store, whose, which, found)
            )
            result = frontier(found, wanted, chosen_preferences, level=level, clip=clip)
        except (NothingLogged, NoSuchPolicy, BanditError) as error:
            give_up(str(error))
    result = {"tenant": whose, "model": which, "since_s": since_s, **result}
    click.echo(table(result, method))
    write_report(result, json_file)


def _slot(store: Store, tenant: str | None, model: str | None) -> tuple[str, str]:
    """The one (tenant, model) that is meant."""
    slots = store.decisions.choices.slots()
    if tenant is not None:
        whose = tenant_named(store.keys, tenant)
        slots = [slot for slot in slots if slot[0] == whose]
    if model is not None:
        slots = [slot for slot in slots if slot[1] == model]
    if not slots:
        give_up(
            "no decision of that tenant and model is in the log: only policies that weigh engines write them"
        )
    if len(slots) > 1:
        several = "; ".join(f"--tenant id:{whose} --model {which}" for whose, which in slots[:8])
        give_up(f"which one is meant? {several}")
    return slots[0]


def _latest(store: Store, tenant: str, model: str, since_s: float, limit: int) -> list[Experience]:
    kept: collections.deque[Experience] = collections.deque(maxlen=limit)
    after_id = 0
    while True:
        batch = store.outcomes.experiences(
            tenant, model, since_s=since_s, limit=_BATCH, after_id=after_id, judged_only=False
        )
        kept.extend(batch)
        if len(batch) < _BATCH:
            return list(kept)
        after_id = batch[-1].row_id


def _all(store: Store, tenant: str, model: str, found: Logged) -> list[TargetPolicy]:
    """Every policy that can be evaluated on this log; says on standard error if the bandit in use cannot."""
    from learning.evaluation.target_policies import NoSuchPolicy
    from router.choosing.bandit import BanditError

    engines = dict.fromkeys(action.engine for action in found.actions)
    names = ["logged", "random", *(f"always:{engine}" for engine in engines), "expected"]
    if any(action.with_examples for action in found.actions):
        names.append("few_shot:0.8,3")
    wanted = [_policy(store, name, tenant, model) for name in names]
    if store.artifacts.best("bandit", tenant, model) is not None:
        try:
            bandit = _policy(store, "bandit:ACTIVE", tenant, model)
            bandit.decide(found, 0.5)
            wanted.append(bandit)
        except (NoSuchPolicy, BanditError) as error:
            click.echo(f"understudy: the bandit in use is left out: {error}", err=True)
    return wanted


def _policy(store: Store, text: str, tenant: str, model: str) -> TargetPolicy:
    from learning.evaluation.target_policies import NoSuchPolicy, learnt, parsed

    kind, _, which = text.partition(":")
    if kind != "bandit":
        return parsed(text)
    from router.choosing.bandit import BanditError
    from router.choosing.bandit_vw import VowpalBandit
    from store.learned.artifacts import ArtifactBroken

    if which in ("", "ACTIVE"):
        record = store.artifacts.best("bandit", tenant, model)
    else:
        record = store.artifacts.get(int(which)) if which.isascii() and which.isdigit() else None
        # What was learnt from one tenant is no other's, not even to be evaluated.
        if record is not None and (record.kind != "bandit" or record.tenant not in ("", tenant)):
            record = None
    if record is None:
        raise NoSuchPolicy(
            f"{text}: no such version of the bandit for this tenant; `understudy learn models list` shows them"
        )
    try:
        return learnt(f"bandit:{record.id}", VowpalBandit.load(store.artifacts.read(record)))
    except (BanditError, ArtifactBroken) as error:
        raise NoSuchPolicy(f"{text} cannot be used: {error}") from error


def _preferences(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0.0 <= preference <= 1.0 for preference in found):
        raise click.BadParameter(
            f"{text!r}: numbers from 0 to 1, separated by commas", param_hint="--preferences"
        )
    return found
