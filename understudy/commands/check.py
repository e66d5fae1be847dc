"""`understudy check config.yaml`: validate, and print who may be asked and who may ask; or all settings, secrets masked."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml

from store.people.limits import Limits
from store.validating import what_differs
from understudy.commands.configured import config_in
from understudy.settings.config import Config, meant
from understudy.settings.core_yaml import Dumper
from understudy.settings.doubts import doubts
from understudy.settings.terms import TermsSettings
from understudy.settings.unpriced import unpriced
from understudy.setup.exposure import exposure
from understudy.setup.unknown_tenants import tenants_named


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Print every setting with its value instead.")
@click.option(
    "--live", is_flag=True, help="Ask each engine whether it is there, takes its key and has its model."
)
@click.option(
    "--ask",
    is_flag=True,
    help="With --live: ask each for an answer of one token, too, and examine judges, which may cost.",
)
def check(path: Path, everything: bool, live: bool, ask: bool) -> None:
    """Validate a configuration and print a line per model, key, tenant and budget, secrets never; then what is doubtful.

    Exit status 2: it cannot be used, its budgets refuse every request of a key or tenant, or strangers could use its keys.
    With --live or --ask: a line per engine instead; exit status 1 if one does not work.
    """
    config = config_in(path)
    errors, exposed = [*unpriced(config).everything], _exposed(config)
    told = [*doubts(config), *_unlisted_tenants(config)]
    if exposed is not None:
        why, may_have_keys = exposed
        told.append(why)
        errors += [] if may_have_keys else [why]
    failed = 0
    if live or ask:
        failed = _live(config, ask=ask)
    elif everything:
        # In JSON mode pydantic masks SecretStr by itself.
        shown = config.model_dump(mode="json", by_alias=True)
        click.echo(yaml.dump(shown, Dumper=Dumper, sort_keys=False, allow_unicode=True), nl=False)
    else:
        for line in _lines(config):
            click.echo(line)
    for one in told:
        click.echo(f"understudy: {'error' if one in errors else 'warning'}: {one}", err=True)
    sys.exit(2 if errors else failed)


def _exposed(config: Config) -> tuple[str, bool] | None:
    """Why strangers could use its keys, so that it will not start, and whether a command may have made a key against it."""
    why = exposure(config, has_keys=bool(config.keys))
    if why is None:
        return None
    may_have_keys = config.memory is not None and config.memory.data_dir is not None
    return (f"unless `understudy keys create` made a key: {why}" if may_have_keys else why), may_have_keys


def _unlisted_tenants(config: Config) -> Iterator[str]:
    """Tenants that the file names and does not list; a start knows those that commands made, too."""
    known = {"default", *config.tenants, *(key.tenant for key in config.keys.values())}
    for setting, name in tenants_named(config):
        if name not in known:
            near = meant(name, known) or ": `understudy keys create --tenant` makes one"
            yield f"{setting} names the tenant {name!r}, whom neither `tenants` nor `keys` has{near}"


def _live(config: Config, *, ask: bool) -> int:
    """Prints a line per engine. 0 where all of them work, else 1."""
    # Imported here: engines weigh more than a validation needs.
    from understudy.live_check import live_check
    from understudy.setup.engines import EngineMissing

    try:
        found = asyncio.run(live_check(config, ask_too=ask))
    except EngineMissing as error:
        click.echo(f"understudy: {error}", err=True)
        return 1
    for one in found:
        click.echo(f"{'ok    ' if one.works else 'FAILED'} {one.name}: {one.told}")
    if not found:
        click.echo("There is no engine to ask over HTTP.")
    return 0 if all(one.works for one in found) else 1


def _lines(config: Config) -> Iterator[str]:
    """What somebody set, in a line per model, key, tenant and budget."""
    yield f"listens on {config.listen.host}:{config.listen.port}, workers: {config.listen.workers}"
    for name, model in config.models.items():
        how: str = model.policy
        if how != "fixed":
            how = f"{how}, proof {model.proof}, max_loss {model.max_loss:g}"
        yield f"{name}: {' -> '.join(model.engines)} ({how})"
    if any(model.policy == "in_context" for model in config.models.values()):
        # Imported here: numpy weighs more than a validation needs.
        from router.choosing.linear import learner_told

        yield f"routers learn with {learner_told()}"
    for name, key in config.keys.items():
        yield f"key {name}: of tenant {key.tenant}; {_terms(key)}"
    for name, tenant in config.tenants.items():
        yield f"tenant {name}: {_terms(tenant)}"
    for kind, askers in (("key", config.keys), ("tenant", config.tenants)):
        for name, asker in askers.items():
            yield from _budgets(f"budget of {kind} {name}", asker.limits)
            yield from _budgets(f"budget of each user of {kind} {name}", asker.each_user)


def _budgets(whose: str, limits: Limits) -> Iterator[str]:
    for budget in limits.budgets:
        yield f"{whose}: ${budget.usd:g} {'in total' if budget.per == 'total' else f'per {budget.per}'}"


def _terms(settings: TermsSettings) -> str:
    found = what_differs(settings.terms())
    for limits in found.values():
        if isinstance(limits, dict):
            # A line of its own tells of each.
            limits.pop("budgets", None)
    found = {name: value for name, value in found.items() if value != {}}
    return ", ".join(f"{name} {_plain(value)}" for name, value in found.items()) or "no limits"


def _plain(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=Dumper, default_flow_style=True, width=10_000, sort_keys=False)
    return text.strip().removesuffix("...").strip()
