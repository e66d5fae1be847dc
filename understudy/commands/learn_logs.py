"""`understudy learn --from logs`: what a recorded log would have saved, at which quality, before anything is switched on."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.log import configure
from learning.bank.importing.formats import FORMATS, Pair
from learning.bank.importing.lines import BadFile
from understudy.commands.configured import config_in
from understudy.commands.giving_up import give_up
from understudy.commands.import_progress import Progress
from understudy.commands.reports import keep_report, now_and_then, write_report
from understudy.settings.config import Config
from understudy.settings.file import ConfigError, parse_config

if TYPE_CHECKING:
    from learning.logs.pairs import ReadLog
    from learning.logs.report import Replayed

_NOWHERE = "http://127.0.0.1:9/v1"
"""An engine that is never asked must still have an address."""
_MOST_MODELS = 20


_OF_A_LOG = (
    click.option(
        "--format",
        type=click.Choice(FORMATS),
        default="auto",
        show_default=True,
        help="What wrote the files.",
    ),
    click.option(
        "--config", type=click.Path(path_type=Path), help="The gateway's configuration, or its draft."
    ),
    click.option("--model", help="The model of the configuration that serves all of the log's requests."),
    click.option("--small", metavar="URL=MODEL", help="Without --config: the small engine."),
    click.option("--small-key", envvar="UNDERSTUDY_SMALL_KEY", metavar="KEY", help="Its API key."),
    click.option(
        "--small-price",
        metavar="IN,OUT",
        help="Without --config: its US dollars per million tokens in and out.",
    ),
    click.option(
        "--large-price", metavar="IN,OUT", help="The same of the model that gave the log's answers."
    ),
    click.option(
        "--limit",
        type=click.IntRange(1),
        default=20_000,
        show_default=True,
        help="The latest so many requests.",
    ),
)


def of_a_log(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which requests of a log are meant, and which engines would have answered them."""
    for option in reversed(_OF_A_LOG):
        command = option(command)
    return command


@click.command("logs")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option(
    "--budget-usd",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="What may be spent on asking engines; at 0 none is asked, and the quality of offloading stays unknown.",
)
@of_a_log
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The gateway's data folder, whose admin pages then show the report [memory.data_dir of --config].",
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Also write every figure to this file."
)
def logs(
    files: tuple[str, ...],
    format: str,
    budget_usd: float,
    config: Path | None,
    model: str | None,
    small: str | None,
    small_key: str | None,
    small_price: str | None,
    large_price: str | None,
    limit: int,
    data: Path | None,
    json_file: Path | None,
) -> None:
    """Replay FILES (JSONL, also gzipped), each request decided only by what came before it, and print what that saves.

    Known: LiteLLM's logs, OpenAI's fine-tuning files and batch outputs (the batch's input first), {"request", "response"}
    lines. The large engine's answers come from the log. Nothing is switched on, and no data folder of yours is read.
    """
    configure("error")
    read = read_files(files, format, limit)
    if not read.pairs:
        why = "; ".join(f"{count} lines: {reason}" for reason, count in read.left_out.most_common(3))
        give_up(f"no line of the log can be replayed{': ' + why if why else ''}")
    chosen = chosen_for(map(model_of, read.pairs), config, small, small_key, small_price, large_price)
    model = model if config is not None else None
    pairs, not_served = served_pairs(read.pairs, chosen, model)
    read.left_out.update(not_served)
    if not pairs:
        give_up(
            f"no request of the log is for a model that is served ({', '.join(chosen.models)}): name one with --model"
        )
    folder = data or (chosen.memory.data_dir if chosen.memory is not None else None)
    result, labels = _replayed(chosen, pairs, budget_usd, folder)
    result |= {
        "made_at_s": time.time(),
        "lines": read.lines,
        "older": read.older,
        "left_out": dict(read.left_out.most_common()),
    }
    _print(result, labels)
    _write(result, labels, json_file, folder)


def read_files(files: tuple[str, ...], format: str, limit: int) -> ReadLog:
    from learning.logs.pairs import read_log

    with Progress(files) as progress:
        try:
            return read_log(
                files, format=format, most=limit, begin=progress.begin, advanced=progress.advanced
            )
        except (OSError, BadFile) as error:
            give_up(str(error))


def chosen_for(
    names: Iterable[str],
    config: Path | None,
    small: str | None,
    small_key: str | None,
    small_price: str | None,
    large_price: str | None,
) -> Config:
    """The configuration that is named, or one of the options' engines. `names`: of the models that requests were for."""
    if config is None:
        return _made(names, small, small_key, small_price, large_price)
    if small or small_price or large_price:
        give_up("with --config, engines and prices come from the file")
    return _configured(config)


def _configured(path: Path) -> Config:
    config = config_in(path)
    if not any(len(model.engines) > 1 for model in config.models.values()):
        name, model = next(iter(config.models.items()))
        give_up(
            f"no model of the configuration has a smaller engine before its reference: models.{name}.engines is"
            f" [{', '.join(model.engines)}]; [SMALL, {model.engines[-1]}] would be right, with SMALL under `engines`"
        )
    return config


def _made(
    names: Iterable[str],
    small: str | None,
    small_key: str | None,
    small_price: str | None,
    large_price: str | None,
) -> Config:
    """The configuration of `serve --small --large` for every model of the log."""
    engine: dict[str, Any] = {"base_url": _NOWHERE, "model": "small"}
    if small:
        url, _, name = small.rpartition("=")
        if not url or not name:
            give_up("--small: write URL=MODEL, e.g. http://127.0.0.1:8000/v1=my-model")
        engine = {"base_url": url, "model": name, "api_key": small_key or "none"}
    engine["price"] = _price("--small-price", small_price)
    served = {
        name: {"engines": ["small", "large"], "policy": "few_shot"}
        for name, _ in Counter(names).most_common(_MOST_MODELS)
    }
    try:
        return parse_config(
            {
                "engines": {
                    "small": engine,
                    "large": {"base_url": _NOWHERE, "price": _price("--large-price", large_price)},
                },
                "models": served,
                "memory": {"examples": {"enabled": True}},
            }
        )
    except ConfigError as error:
        give_up(f"configuration error\n{error}")


def _price(option: str, text: str | None) -> dict[str, float]:
    if text is None:
        return {}
    try:
        into, out = (float(part) for part in text.split(","))
    except ValueError:
        give_up(f"{option} {text!r}: write IN,OUT in US dollars per million tokens, e.g. 0.15,0.60")
    return {"input_usd_per_mtok": into, "output_usd_per_mtok": out}


def model_of(pair: Pair) -> str:
    """The model that a request of the log was for."""
    name = pair.fields.get("model")
    return name if isinstance(name, str) and name else pair.source


def served_pairs(
    pairs: list[Pair], config: Config, model: str | None
) -> tuple[list[tuple[str, Pair]], Counter[str]]:
    """Each pair with the served model that answers it; and how many there are for models that are not served."""
    if model is not None and model not in config.models:
        give_up(f"--model {model!r} is not in the configuration: {', '.join(config.models)}")
    only = model or (next(iter(config.models)) if len(config.models) == 1 else None)
    found: list[tuple[str, Pair]] = []
    refused: Counter[str] = Counter()
    for pair in pairs:
        asked = model_of(pair)
        name = model or (asked if asked in config.models else only)
        if name is None:
            refused[f"its model {asked[:60]!r} is not served"] += 1
        else:
            found.append((name, pair))
    return found, refused


def _replayed(
    config: Config, pairs: list[tuple[str, Pair]], budget_usd: float, folder: Path | None
) -> tuple[dict[str, Any], dict[str, str]]:
    # Before anything that imports usearch: see understudy.setup.examples.
    import onnxruntime  # noqa: F401

    from learning.logs.purse import Purse
    from learning.logs.report import report
    from router.embedding.model import EmbeddingModelMissing
    from store.errors import StoreError
    from understudy.build import CannotStart
    from understudy.log_replay import LogReplay, Stuck

    purse = Purse(budget_usd)
    replay = LogReplay(config, purse, models_folder(config, folder))
    try:
        answered = _progress(len(pairs), lambda: purse.spent_usd)
        found = asyncio.run(replay.run(pairs, answered=answered))
    except (CannotStart, EmbeddingModelMissing, StoreError, Stuck, OSError) as error:
        give_up(str(error))
    priced = any(
        config.engines[model.engines[-1]].price.both_usd_per_mtok for model in config.models.values()
    )
    result = report(found, priced=priced)
    result |= {
        "budget_usd": budget_usd,
        "spent_usd": purse.spent_usd,
        "asked": purse.requests,
        "not_asked": purse.refused,
    }
    return result, replay.labels


def models_folder(config: Config, folder: Path | None) -> Path:
    """Where an embedding model is built already, or may be kept for the next time."""
    from router.embedding.model import users_models

    memory = config.memory
    if memory is not None and memory.advanced.embedding_cache_dir is not None:
        return memory.advanced.embedding_cache_dir
    if folder is not None and (folder / "models").is_dir():
        return folder / "models"
    return users_models()


def _progress(total: int, spent: Callable[[], float]) -> Callable[[int, Replayed], None]:
    """A line now and then, on standard error."""
    ways: Counter[str] = Counter()
    say = now_and_then()

    def answered(done: int, one: Replayed) -> None:
        ways[one.way] += 1
        say(
            f"{done} of {total} requests replayed: {ways['exact']} cache hits, {ways['offloaded']} offloaded, "
            f"${spent():.4f} spent"
        )

    return answered


def _print(result: dict[str, Any], labels: dict[str, str]) -> None:
    from learning.logs.report import cautions, table

    click.echo(table(result, labels))
    for line in cautions(result):
        click.echo(line)


def _write(
    result: dict[str, Any], labels: dict[str, str], json_file: Path | None, folder: Path | None
) -> None:
    from learning.logs.report import REPORT

    named = [{**row, "instructions": labels.get(row["scope"], "")} for row in result["scopes"]]
    write_report({**result, "scopes": named}, json_file)
    # Without the instructions' words: what is kept in the folder must go when somebody is forgotten.
    keep_report(result, folder, REPORT)
