"""`understudy rehearse`: what a small engine would be worth on past requests, before anything is switched on."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.log import configure
from learning.bank.importing.formats import Pair
from understudy.commands.giving_up import give_up
from understudy.commands.learn_logs import chosen_for, models_folder, of_a_log, read_files, served_pairs
from understudy.settings.config import Config

if TYPE_CHECKING:
    from engines.chat import ChatRequest
    from engines.engine import Engine
    from learning.logs.purse import Purse
    from learning.rehearsal import Answer, Past, Rehearsed

_EVERY_S = 5.0
_MOST_TOKENS = 512
"""Of an answer to a request that names no bound."""
_MOST_FAILED = 5
"""Requests in a row without an answer after which the engine is taken to be gone."""


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@of_a_log
@click.option("--questions", type=click.IntRange(2), default=100, show_default=True, help="Questions asked.")
@click.option("--examples", type=click.IntRange(1, 20), default=5, show_default=True, help="Examples shown.")
@click.option(
    "--max-loss",
    type=click.FloatRange(0, 1),
    help="Loss against the recorded answers that may be promised [the model's max_loss].",
)
@click.option(
    "--budget-usd", type=click.FloatRange(min=0), required=True, help="What may be spent on asking."
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="A file of answers, with their texts: what is in it is not asked again, so a rehearsal can be gone on with.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write every figure here.")
def rehearse(
    files: tuple[str, ...],
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
    state: Path | None,
    json_file: Path | None,
) -> None:
    """Ask the small engine past requests of FILES (JSONL, also gzipped): alone, with the most similar other requests as
    examples, and with random ones.

    Prints how close each comes to the recorded answers, with 95 % intervals, US dollars and seconds, and what would be
    offloaded at which loss. The formats are those of `understudy import`. Nothing is switched on or stored but --state.
    """
    configure("error")
    read = read_files(files, format, limit)
    chosen = chosen_for(read.pairs, config, small, small_key, small_price, large_price)
    model = model if config is not None else None
    pairs, _ = served_pairs(read.pairs, chosen, model)
    if not pairs:
        give_up(
            f"no request of the log is for a model that is served ({', '.join(chosen.models)}): name one with --model"
        )
    served = pairs[0][0]
    mine = [pair for name, pair in pairs if name == served]
    rehearsal = _Rehearsal(chosen, served, budget_usd, state)
    found = rehearsal.run(mine, models_folder(chosen, None), questions, examples)
    if not found.similarity:
        give_up(
            "no question was answered: "
            + (
                rehearsal.why
                or f"each needs {examples} other requests under the same instructions in the log"
            )
        )
    _print(found, chosen.models[served].max_loss if max_loss is None else max_loss, rehearsal, json_file)


class _Rehearsal:
    """One engine that is asked, a budget, and what was answered before."""

    def __init__(self, config: Config, served: str, budget_usd: float, state: Path | None) -> None:
        from learning.logs.purse import Purse

        self.purse = Purse(budget_usd)
        self.served = served
        self.why = ""
        """Why an engine was asked no more; empty where it was not so."""
        self._failed = 0
        """Requests in a row that were not answered."""
        self._config = config
        self._settings = config.models[served]
        self._state = state
        self._known: dict[str, list[Any]] = {}
        if state is not None and state.exists():
            self._known = dict(_kept(state))

    @property
    def small(self) -> str:
        """Its name in the configuration."""
        return self._settings.engines[0]

    def run(self, pairs: list[Pair], models: Path, questions: int, examples: int) -> Rehearsed:
        """Blocks, with a line on standard error now and then."""
        from engines.registry import Registry
        from learning.logs.purse import Paid
        from learning.rehearsal import rehearse as rehearsed
        from router.embedding.model import EmbeddingModelMissing
        from understudy.setup.engines import Tenants, engines

        try:
            past = self._past(pairs, models)
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

        return asyncio.run(go())

    def _past(self, pairs: list[Pair], models: Path) -> list[Past]:
        """The log's requests that can stand as a question or an example, with their vectors. Blocks."""
        from engines.asking import chat_of
        from engines.chat import Usage, estimated_tokens, prompt_tokens
        from learning.rehearsal import Past
        from router.digest import question, scope
        from router.embedding.embedder import Embedder
        from understudy.setup.engines import price_of

        price = price_of(self._config.engines[self._settings.engines[-1]].price)
        memory = self._config.memory
        source = memory.examples.embedding_model if memory is not None else "package"
        embedder = Embedder.open(source, models)
        made = []
        try:
            for pair in pairs:
                chat = chat_of(pair.fields, pair.fields["messages"])
                if not (asked := question(chat.messages)):
                    continue
                used = Usage(
                    pair.prompt_tokens or prompt_tokens(chat.messages),
                    pair.completion_tokens or estimated_tokens(pair.answer),
                )
                vector = embedder.embed_blocking(asked)
                made.append(Past(chat, asked, pair.answer, scope(chat), vector, price.cost_usd(used) or 0.0))
        finally:
            embedder.close()
        return made

    async def _ask(self, engine: Engine, chat: ChatRequest) -> Answer | None:
        from engines.asking import Bill, NotAnswered, ask
        from learning.rehearsal import Answer
        from router.prompt import most_answer_tokens

        told = [self.small, self._config.engines[self.small].model, chat.fields]
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
        if self._state is not None:
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
    next_s = time.monotonic() + _EVERY_S

    def advanced(done: int, of: int) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + _EVERY_S
            click.echo(f"{done} of {of} questions, ${purse.spent_usd:.4f} spent", err=True)

    return advanced


def _print(found: Rehearsed, max_loss: float, rehearsal: _Rehearsal, json_file: Path | None) -> None:
    from learning.rehearsal import rows, sentence

    table, said = rows(found), sentence(found, max_loss)
    click.echo(
        f"{'':<22}{'questions':>9}  {'close to the recorded':<24}{'against alone':<24}{'USD/1000':>9}{'s':>7}"
    )
    for row in table:
        close = f"{row.quality:.3f} [{row.within.low:.3f}, {row.within.high:.3f}]"
        alone = f"{row.more:+.3f} [{row.more_within.low:+.3f}, {row.more_within.high:+.3f}]"
        click.echo(
            f"{row.way:<22}{row.questions:>9}  {close:<24}{alone:<24}{row.usd_per_1000:>9.4f}{row.median_s:>7.2f}"
        )
    click.echo(f"\n{said}")
    click.echo(
        "The loss is counted against the recorded answers: another answer may be as good. A gateway begins without it and"
        " has to see as much for itself."
    )
    if rehearsal.why:
        click.echo(rehearsal.why, err=True)
    if json_file is not None:
        result = {
            "model": rehearsal.served,
            "max_loss": max_loss,
            "ways": [asdict(row) for row in table],
            "said": said,
            "spent_usd": rehearsal.purse.spent_usd,
        }
        try:
            json_file.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        except (OSError, ValueError) as error:
            give_up(str(error))
