"""`understudy import-config litellm.yaml`: a configuration of LiteLLM, Bifrost or Portkey as one of ours."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import click
import yaml

from understudy.commands.giving_up import give_up
from understudy.importing.bounded_yaml import MOST_BYTES, TooMuch
from understudy.importing.litellm import NotLiteLLM, imported
from understudy.importing.report import Report
from understudy.settings.core_yaml import Dumper
from understudy.settings.file import ConfigError, parse_config, resolve

_MOST_PRICES_BYTES = 32 * 2**20
_HEAD = "# From {name}, by `understudy import-config`. `understudy check` shows what it comes to.\n"


@click.command("import-config")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="File to write; standard output if not given."
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option(
    "--prices",
    type=click.Path(path_type=Path),
    help="LiteLLM's price table (model_prices_and_context_window.json), for models whose price the file does not say.",
)
def import_config(path: Path, output: Path | None, force: bool, prices: Path | None) -> None:
    """Read a configuration of LiteLLM, Bifrost or Portkey, write one of ours, and tell what became of each setting, and why.

    No secret of the file is copied: what stands there in clear is to be exported as an environment variable. Status 1: what
    was written cannot be used yet. 2: nothing was written.
    """
    if output is not None and output.exists() and not force:
        give_up(f"{output} is there; --force replaces it")
    config, report = _imported(path, {} if prices is None else _table(prices))
    text = _HEAD.format(name=path.name) + yaml.dump(
        config, Dumper=Dumper, sort_keys=False, allow_unicode=True
    )
    for line in report.lines():
        click.echo(line, err=True)
    if (wrong := _wrong_with(config)) is not None:
        click.echo(f"understudy: what was written cannot be used yet:\n{wrong}", err=True)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        click.echo(f"understudy: wrote {output}. Next:\n  understudy check {output}", err=True)
    if wrong is not None:
        sys.exit(1)


def _table(path: Path) -> dict[str, Any]:
    """LiteLLM's price table, by model."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_PRICES_BYTES + 1)
        table = json.loads(text) if len(text) <= _MOST_PRICES_BYTES else None
    except OSError as error:
        give_up(f"cannot read {path}: {error.strerror or error}")
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        give_up(f"{path} is no price table: a JSON object of models, of 32 MiB at most, is right")
    return table


def _imported(path: Path, prices: dict[str, Any]) -> tuple[dict[str, Any], Report]:
    try:
        with path.open("rb") as file:
            return imported(file.read(MOST_BYTES + 1).decode("utf-8"), prices)
    except OSError as error:
        give_up(f"cannot read {path}: {error.strerror or error}")
    except UnicodeDecodeError as error:
        give_up(f"{path} is not UTF-8 text (byte {error.start})")
    except (NotLiteLLM, TooMuch) as error:
        give_up(f"{path} is not imported: {error}")
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        at = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        give_up(f"{path} is not valid YAML{at}")


def _wrong_with(config: dict[str, Any]) -> str | None:
    """Why our own configuration would be refused whatever the environment says; None where it would not be."""
    try:
        parse_config(resolve(config, _stand_ins(config)))
    except ConfigError as error:
        return str(error)
    return None


def _stand_ins(value: Any, key: str = "") -> dict[str, str]:
    """A value for each variable that is referred to, fit for the setting that reads it."""
    if isinstance(value, dict):
        return {k: v for name, each in value.items() for k, v in _stand_ins(each, str(name)).items()}
    if isinstance(value, list):
        return {k: v for each in value for k, v in _stand_ins(each, key).items()}
    names = _REFERENCE.findall(value) if isinstance(value, str) else []
    return {
        name: _STAND_INS.get(key, "stand-in-{name}-0123456789").format(name=name.lower()) for name in names
    }


_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")
_URL = "https://{name}.example.com"
_STAND_INS = {"base_url": _URL, "url": _URL, "endpoint": _URL, "api_version": "2024-10-21"}
