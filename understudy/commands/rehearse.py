"""`understudy learn rehearse`: what a small engine would be worth on past requests, before anything is switched on."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.log import configure
from understudy.commands.data_folder import store_in
from understudy.commands.giving_up import give_up
from understudy.commands.learn_logs import (
    chosen_for,
    model_of,
    models_folder,
    of_a_log,
    read_files,
    served_pairs,
)
from understudy.commands.reports import keep_report, now_and_then, write_report
from understudy.commands.tenant_option import tenant_named, tenant_option
from understudy.settings.config import Config

if TYPE_CHECKING:
    from engines.chat import ChatRequest
    from engines.engine import Engine, Price
    from learning.logs.purse import Purse
    from learning.rehearsal.arms import Answer, Past, Rehearsed
    from router.embedding.embedder import Embedder

_MOST_TOKENS = 512
"""Of an answer to a request that names no bound."""
_MOST_FAILED = 5
"""Requests in a row without an answer after which the engine is taken to be gone."""

_Read = Callable[["Price", "Embedder"], Iterator["Past"]]


@click.command()
@click.argument("files", nargs=-1, type=click.Path())
@click.option(
    "--bank",
    type=click.Path(path_type=Path),
    help="Instead of FILES: the examples of this data folder. A gateway may be running on it.",
)
@tenant_option("Whose, with --bank [the one with the most examples].")
@of_a_log
@click.option("--questions", type=click.IntRange(2), default=100, show_default=True, help="Questions asked.")
@click.option("--examples", type=click.IntRange(1, 20), default=5, show_default=True, help="Examples shown.")
@click.option(
    "--max-loss",
    type=click.FloatRange(0, 1),
    help="Loss against the recorded answers that may be promised [the model's max_loss].",
)
@click.option(
    "--budget-usd",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="What may be spent on asking.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    default="understudy-rehearsal.jsonl",
    show_default=True,
    help="A file of answers, with their texts: what is in it is not asked again, so a rehearsal can be gone on with.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The gateway's data folder, whose admin pages then show the rehearsal, and whose gateway begins with what it found"
    " [--bank, or memory.data_dir of --config].",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write every figure here.")
def rehearse(
    files: tuple[str, ...],
    bank: Path | None,
    tenant: str | None,
    format: str,
    config: Path | None,
    model: str | None,
    small: str | None,
    small_key: str | None,
    small_price: str | None,
    large_price: str | None,
    questions: int,
    examples: int,
    max_loss: float | None,
    budget_usd: float,
    limit: int,
    state: Path,
    data: Path | None,
    json_file: Path | None,
) -> None:
    """Ask the small engine past requests of FILES (JSONL, also gzipped) or of a bank: alone, with the most similar other
    requests as examples, and with random ones; beside it stand a copy of the nearest and the student of the task.

    Prints how close each comes to the recorded answers, with 95 % intervals, US dollars and seconds, what would be
    offloaded at which loss, and how much a gateway would come to prove. The formats are those of `understudy import`.
    Nothing is switched on.
    """
    configure("error")
    if bool(files) == (bank is not None):
        give_up("name FILES, or a data folder with --bank")
    if config is None and not small:
        give_up("name the small engine: --small URL=MODEL, or --config FILE")
    model = model if config is not None else None
    if bank is not None:
        chosen = chosen_for(["bank"], config, small, small_key, small_price, large_price)
        served, read = _served(chosen, model), _of_bank(bank, tenant, limit)
    else:
        log = read_files(files, format, limit)
        chosen = chosen_for(map(model_of, log.pairs), config, small, small_key, small_price, large_price)
        pairs, _ = served_pairs(log.pairs, chosen, model)
        if not pairs:
            names = ", ".join(chosen.models)
            give_up(f"no request of the log is for a model that is served ({names}): name one with --model")
        served = _served(chosen, pairs[0][0])
        read = _of_log([pair for name, pair in pairs if name == served])
    folder = data or bank or (chosen.memory.data_dir if chosen.memory is not None and config else None)
    rehearsal = _Rehearsal(chosen, served, budget_usd, state)
    loss = chosen.models[served].max_loss if max_loss is None else max_loss
    past, found = rehearsal.run(read, models_folder(chosen, folder), questions, examples)
    if not found.questions:
        give_up(
            "no question was answered: "
            + (rehearsal.why or f"each needs {examples} other requests under the same instructions")
        )
    result = _result(past, found, loss, examples) | {
        "model": served,
        "small": rehearsal.small,
        "source": "the bank" if bank is not None else "a log",
        "spent_usd": rehearsal.purse.spent_usd,
    }
    _print(result)
    if rehearsal.why:
        click.echo(rehearsal.why, err=True)
    from learning.rehearsal.kept import REPORT

    write_report(result, json_file)
    keep_report(result, folder, REPORT)


def _served(config: Config, model: str | None) -> str:
    """The served model whose small engine is asked: it must have one."""
    small = [name for name, each in config.models.items() if len(each.engines) > 1]
    name = model or small[0]
    if name not in config.models:
        give_up(f"--model {name!r} is not in the configuration: {', '.join(config.models)}")
    engines = config.models[name].engines
    if len(engines) < 2:
        give_up(
            f"models.{name}.engines is [{', '.join(engines)}]: nothing smaller is to be rehearsed;"
            f" [SMALL, {engines[-1]}] would be right"
        )
    return name


def _of_log(pairs: list[Any]) -> _Read:
    from learning.rehearsal.sources import of_log

    return lambda price, embedder: of_log(pairs, price, embedder)


def _of_bank(bank: Path, tenant: str | None, limit: int) -> _Read:
    from learning.rehearsal.sources import of_bank

    def read(price: Price, embedder: Embedder) -> Iterator[Past]:
        with store_in(bank) as store:
            counts = store.examples.tenants()
            whose = (
                tenant_named(store.keys, tenant)
                if tenant
                else max(counts, key=counts.__getitem__, default="")
            )
            if whose in store.examples.private.tenants():
                give_up("the tenant's bank is private: its examples are not read")
            yield from of_bank(store, whose, limit, price, embedder)

    return read


class _Rehearsal:
    """One engine that is asked, a budget, and what was answered before."""

    def __init__(self, config: Config, served: str, budget_usd: float, state: Path) -> None:
        from learning.logs.purse import Purse

        self.purse = Purse(budget_usd)
        self.why = ""
        """Why an engine was asked no more; empty where it was not so."""
        self._failed = 0
        """Requests in a row that were not answered."""
        self._config = config
        self._settings = config.models[served]
        self._state = state
        self._known: dict[str, list[Any]] = {}
        if state.exists():
            try:
                self._known = dict(_kept(state))
            except (OSError, ValueError) as error:
                give_up(f"--state {state}: {error}")

    @property
    def small(self) -> str:
        """Its name in the configuration."""
        return self._settings.engines[0]

    def run(self, read: _Read, models: Path, questions: int, examples: int) -> tuple[list[Past], Rehearsed]:
        """Blocks, with a line on standard error now and then."""
        from engines.registry import Registry
        from learning.logs.purse import Paid
        from learning.rehearsal.arms import rehearse as rehearsed
        from router.embedding.model import EmbeddingModelMissing
        from understudy.setup.engines import Tenants, engines

        try:
            past = self._past(read, models)
        except (EmbeddingModelMissing, OSError) as error:
            give_up(str(error))

        async def go() -> Rehearsed:
            only = self._config.model_copy(update={"engines": {self.small: self._config.engines[self.small]}})
            registry = Registry(engines(only, Tenants(secrets.token_bytes(32))))
            try:
                paid = Paid(registry[self.small], self.purse)
                return await rehearsed(
                    past,
                    lambda chat: self._ask(paid, chat),
                    questions=questions,
                    examples=examples,
                    advanced=_told(self.purse),
                )
            finally:
                await registry.aclose()

        return past, asyncio.run(go())

    def _past(self, read: _Read, models: Path) -> list[Past]:
        """The requests that can stand as a question or an example, with their vectors. Blocks."""
        from router.embedding.embedder import Embedder
        from understudy.setup.engines import price_of

        price = price_of(self._config.engines[self._settings.engines[-1]].price)
        memory = self._config.memory
        source = memory.examples.embedding_model if memory is not None else "package"
        embedder = Embedder.open(source, models)
        try:
            return list(read(price, embedder))
        finally:
            embedder.close()

    async def _ask(self, engine: Engine, chat: ChatRequest) -> Answer | None:
        from engines.asking import Bill, NotAnswered, ask
        from learning.rehearsal.arms import Answer
        from router.prompt import most_answer_tokens

        asked = self._config.engines[self.small]
        told = [str(getattr(asked, "base_url", "")), asked.model, chat.fields]
        key = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:32]
        if key in self._known:
            return Answer(*self._known[key])
        most = most_answer_tokens(chat) or _MOST_TOKENS
        try:
            said = await ask(engine, chat, most_tokens=most, bill=Bill({}), purpose="rehearsal")
        except NotAnswered as error:
            self._failed += 1
            self.why = f"{self.small} was asked no more: {error}"
            if self.purse.refused or self._failed >= _MOST_FAILED:
                return None
            raise
        self._failed, self.why = 0, ""
        self._known[key] = [said.text, said.cost_usd, said.latency_s]
        self._state.touch(mode=0o600)
        with self._state.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, self._known[key]]) + "\n")
        return Answer(said.text, said.cost_usd, said.latency_s)


def _kept(state: Path) -> Iterator[list[Any]]:
    """What was answered before. A last line that was cut off is dropped, and the file made whole."""
    text = state.read_text(encoding="utf-8")
    whole, end, torn = text.rpartition("\n")
    if torn:
        state.write_text(whole + end, encoding="utf-8")
    return map(json.loads, whole.splitlines())


def _told(purse: Purse) -> Callable[[int, int], None]:
    """A line now and then, on standard error."""
    say = now_and_then()
    return lambda done, of: say(f"{done} of {of} questions, ${purse.spent_usd:.4f} spent")


def _result(past: list[Past], found: Rehearsed, max_loss: float, examples: int) -> dict[str, Any]:
    """Every figure. Blocks for as long as a student's training and the gates' streams take."""
    # Before anything that imports usearch: see understudy.setup.examples.
    import onnxruntime  # noqa: F401

    from learning.rehearsal.report import report

    click.echo("the student is trained, and what a gateway would prove is computed", err=True)
    return report(past, found, max_loss, examples=examples) | {"made_at_s": time.time()}


def _print(result: dict[str, Any]) -> None:
    click.echo(f"{result['small']} for {result['model']}, from {result['source']}")
    click.echo(
        f"{'':<22}{'questions':>9}  {'close to the recorded':<24}{'against alone':<24}{'USD/1000':>9}{'s':>7}"
    )
    for row in result["ways"]:
        close = "{:.3f} [{:.3f}, {:.3f}]".format(row["quality"], *row["within"])
        alone = "{:+.3f} [{:+.3f}, {:+.3f}]".format(row["more"], *row["more_within"])
        click.echo(
            f"{row['way']:<22}{row['questions']:>9}  {close:<24}{alone:<24}{row['usd_per_1000']:>9.4f}"
            f"{row['median_s']:>7.2f}"
        )
    click.echo(f"\n{result['said']}\n{result['proven']}")
    click.echo(
        "The loss is counted against the recorded answers: another answer may be as good. These are predictions, no proofs:"
        " a gateway has to see as much for itself."
    )
