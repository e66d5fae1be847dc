"""`understudy learn private`: what private banks have released and spent; release once more and have examples written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from learning.alone import alone
from learning.private.budget import AccountingMissing, epsilon_of
from learning.private.build import BudgetExhausted, NothingToRelease, Written, spent
from store import Store
from store.errors import StoreBusy
from store.examples.private_bank import BudgetMoved, PrivateBank, Release
from store.jobs.leases import LeaseOver, NotAlone
from understudy.commands.as_json import JSON, print_json
from understudy.commands.auditing import note
from understudy.commands.configured import config_in
from understudy.commands.giving_up import give_up
from understudy.commands.tenant_option import NoSuchTenant, tenant_named
from understudy.settings.config import Config
from understudy.setup.private import CannotBuild, builder, check_reach, reference_of, writer
from understudy.setup.store import open_store

_LEASE = "private"
_CONFIG = click.option(
    "--config",
    "config_path",
    required=True,
    type=click.Path(path_type=Path),
    help="The gateway's configuration file.",
)
_TENANT = click.option(
    "--tenant",
    required=True,
    metavar="NAME",
    help="A name as in `keys create`, or id:HEX; it must be private.",
)
_ENGINE = click.option(
    "--engine", help="Engine that answers [replay.advanced.engine, or the models' reference]."
)
_GENERATOR = click.option(
    "--generator", help="Engine that writes questions [replay.advanced.generator, or --engine]."
)
_BUDGET = click.option(
    "--budget-usd", type=click.FloatRange(min=0), help="US dollars for writing [replay.max_run_usd]."
)


@click.group()
def private() -> None:
    """Differentially private banks: see docs/explanation/admission.md."""


@private.command()
@_CONFIG
@JSON
def status(config_path: Path, as_json: bool) -> None:
    """Per private tenant: questions put aside, releases, and how much of the privacy budget is spent."""
    config = _config(config_path)
    store = _store(config)
    try:
        rows = [
            _row(config, store.examples.private, tenant)
            for tenant in sorted(store.examples.private.tenants())
        ]
    except AccountingMissing as error:
        give_up(str(error))
    finally:
        store.close()
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.echo(
            f"{row['tenant']}: epsilon {row['epsilon_spent']:.4f} of {row['epsilon']:g} spent at delta {row['delta']:g}, "
            f"in {row['releases']} releases; {row['questions']} questions of {row['contributors']} contributors put aside"
        )
    if not rows:
        click.echo("no tenant is private: private.tenants names those that shall be")


@private.command()
@_CONFIG
@_TENANT
@_ENGINE
@_GENERATOR
@_BUDGET
def build(
    config_path: Path, tenant: str, engine: str | None, generator: str | None, budget_usd: float | None
) -> None:
    """Release once more, which spends privacy for good, and have examples written from it, which spends money."""
    _run(config_path, tenant, engine, generator, budget_usd, tell=True)


@private.command()
@_CONFIG
@_TENANT
@_ENGINE
@_GENERATOR
@_BUDGET
def write(
    config_path: Path, tenant: str, engine: str | None, generator: str | None, budget_usd: float | None
) -> None:
    """Write examples from the latest release once more; spends no privacy."""
    _run(config_path, tenant, engine, generator, budget_usd, tell=False)


def _run(
    config_path: Path,
    name: str,
    engine: str | None,
    generator: str | None,
    budget_usd: float | None,
    *,
    tell: bool,
) -> None:
    config = _config(config_path)
    max_usd = config.replay.max_run_usd if budget_usd is None else budget_usd
    try:
        reference = engine or reference_of(config)
        writes = generator or config.replay.advanced.generator or reference
        check_reach(config, reference, writes)
        release, written = asyncio.run(_built(config, name, reference, writes, max_usd, tell=tell))
    except (
        CannotBuild,
        BudgetExhausted,
        NothingToRelease,
        AccountingMissing,
        NoSuchTenant,
        NotAlone,
        LeaseOver,
    ) as error:
        give_up(str(error))
    except (BudgetMoved, StoreBusy):
        give_up("another release was booked meanwhile; nothing was told")
    click.echo(
        f"release {release.id}: {len(release.told)} topics told; {written.examples} examples kept of {written.questions} "
        f"questions ({written.refused} refused); {written.usd:.6f} US dollars"
    )
    if not written.whole:
        click.echo(
            "understudy: the money ran out before all was written; `understudy learn private write` goes on",
            err=True,
        )


async def _built(
    config: Config, name: str, reference: str, generator: str, max_usd: float, *, tell: bool
) -> tuple[Release, Written]:
    from understudy.memory import Memory
    from understudy.setup.engines import Tenants, engines

    assert config.memory is not None
    memory = await asyncio.to_thread(Memory.open, config.memory, config.retention, private=config.private)
    made = engines(config, Tenants(memory.store.secret, memory.store.keys.tenant_named))
    try:
        async with alone(memory.store.jobs.leases, _LEASE):
            tenant = tenant_named(memory.store.keys, name)
            bank = memory.store.examples.private
            if tenant not in bank.tenants():
                raise CannotBuild(f"{name} is not private: name it in private.tenants")
            writing = writer(config, memory, made, reference, generator)
            if tell:
                release = await builder(config, memory).release(tenant)
            else:
                releases = await asyncio.to_thread(bank.releases, tenant)
                if not releases:
                    raise NothingToRelease("nothing was told yet: `understudy learn private build`")
                release = releases[-1]
            topics = f"{len(release.told)} topics of release {release.id}"
            click.echo(f"asking {generator} and {reference} about {topics}", err=True)
            written = await writing.write(release, max_usd)
            detail = {"release": release.id, "examples": written.examples, "usd": written.usd}
            note(memory.store, "private/build" if tell else "private/write", tenant, detail)
            return release, written
    finally:
        for each in made.values():
            await each.aclose()
        await asyncio.to_thread(memory.close)


def _row(config: Config, bank: PrivateBank, tenant: str) -> dict[str, Any]:
    releases = bank.releases(tenant)
    questions, contributors = bank.counts(tenant)
    return {
        "tenant": tenant,
        "releases": len(releases),
        "epsilon_spent": epsilon_of(spent(releases), config.private.advanced.delta),
        "epsilon": config.private.epsilon,
        "delta": config.private.advanced.delta,
        "rho": spent(releases).rho,
        "questions": questions,
        "contributors": contributors,
    }


def _config(path: Path) -> Config:
    config = config_in(path)
    if config.memory is None or config.memory.data_dir is None:
        give_up("there is nothing private to keep: set memory.data_dir")
    return config


def _store(config: Config) -> Store:
    assert config.memory is not None and config.memory.data_dir is not None
    try:
        return open_store(config.memory)
    except Exception as error:
        give_up(f"cannot use the data folder: {error}")
