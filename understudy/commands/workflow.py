"""`understudy workflow check|explain FILE`: whether workflows can be carried out, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import yaml

from understudy.commands.as_json import JSON, print_json
from understudy.commands.giving_up import give_up
from understudy.commands.workflow_drawing import LEGEND, side_by_side
from understudy.settings.config import Config
from understudy.settings.core_yaml import read_yaml
from understudy.settings.file import ConfigError, load_config
from understudy.setup.assumed_profile import profile
from workflows.declared import DefinitionError, World, read_definition
from workflows.definition import Definition
from workflows.drawing import Drawing, draw
from workflows.plan import Note, Profile, planned

_MOST_PIECES = 4
"""Of one step that are drawn, as text."""
_FILE = click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
_CONFIG = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="Where FILE is one workflow: the configuration with its models and components.",
)


@click.group()
def workflow() -> None:
    """Check and explain workflows: of a configuration, or one in a file of its own."""


@workflow.command()
@_FILE
@_CONFIG
@JSON
def check(path: Path, config_path: Path | None, as_json: bool) -> None:
    """Name everything that is wrong with the workflows of FILE: a configuration, or one workflow as YAML or JSON."""
    definitions, _ = _read(path, config_path)
    told = [_summary(each) for each in definitions]
    if as_json:
        print_json(told)
        return
    for each in told:
        inputs = ", ".join(f"{name} ({kind})" for name, kind in each["inputs"].items()) or "no inputs"
        click.echo(f"{each['workflow']}  version {each['version']}  {len(each['steps'])} steps  {inputs}")


@workflow.command()
@_FILE
@_CONFIG
@click.option("--workflow", "name", help="Of a configuration: this workflow only.")
@click.option(
    "--items", multiple=True, metavar="NAME=N", help="How long the list NAME is; without it a guess."
)
@JSON
def explain(
    path: Path,
    config_path: Path | None,
    name: str | None,
    items: tuple[str, ...],
    as_json: bool,
) -> None:
    """Draw how the workflows of FILE are declared and how they are carried out, and which pass made each change."""
    definitions, config = _read(path, config_path)
    chosen = [each for each in definitions if name in (None, each.name)]
    if not chosen:
        known = ", ".join(each.name for each in definitions)
        give_up(f"there is no workflow {name!r} in {path}; there are {known}", 1)
    counts = _numbers("--items", items)
    known_names = {each for definition in chosen for each in (*definition.inputs, *definition.steps)}
    if unknown := sorted(counts.keys() - known_names):
        give_up(f"--items {unknown[0]}: nothing is called so; there are {', '.join(sorted(known_names))}", 2)
    explained = [_explained(each, profile(config), counts) for each in chosen]
    if as_json:
        print_json([_told(*each) for each in explained])
        return
    click.echo("\n\n".join("\n".join(_lines(*each)) for each in explained))


# ---- reading


def _read(path: Path, config_path: Path | None) -> tuple[list[Definition], Config | None]:
    """The workflows of a file, with the configuration they belong to."""
    try:
        value = read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        give_up(f"cannot read {path}: {error}", 2)
    except yaml.YAMLError as error:
        give_up(f"{path} is not valid YAML: {error}", 2)
    if not isinstance(value, dict):
        give_up(f"{path} must be a configuration or a workflow: a mapping", 2)
    alone = "steps" in value or "chain" in value
    try:
        config = _config(config_path) if alone else load_config(path)
        if config is not None and not alone:
            definitions = list(config.definitions().values())
        else:
            definitions = [_one(path, value, config)]
    except (ConfigError, DefinitionError) as error:
        give_up(f"configuration error\n{error}", 2)
    if not definitions:
        give_up(f"{path} has no workflows: write them below `workflows`", 1)
    return definitions, config


def _config(path: Path | None) -> Config | None:
    return None if path is None else load_config(path)


def _one(path: Path, value: Mapping[str, Any], config: Config | None) -> Definition:
    """A workflow in a file of its own, as `POST /v1/workflows` takes it; without a name, the file's is its own."""
    name = value.get("name", path.stem)
    fields = {field: each for field, each in value.items() if field != "name"}
    world = _ANY_MODEL if config is None else config.world()
    return read_definition(str(name), fields, world)


_ANY_MODEL = World({}, is_model=lambda name: True, taken=lambda name: False)
"""Without a configuration: any model, and the components that are there in any case."""


def _numbers(option: str, given: Iterable[str]) -> dict[str, int]:
    found = {}
    for each in given:
        name, _, number = each.partition("=")
        if not name or not number.isdecimal():
            give_up(f"{option} {each}: write NAME=N, such as documents=40", 2)
        found[name] = int(number)
    return found


# ---- telling

_Explained = tuple[Definition, tuple[Note, ...], Drawing, Drawing]
"""A definition, what the passes changed, and its graph without them and with them."""


def _explained(definition: Definition, engines: Profile, counts: Mapping[str, int]) -> _Explained:
    plain, made = (
        planned(definition, engines, frozenset(), counts),
        planned(definition, engines, counts=counts),
    )
    declared, carried_out = (draw(definition, each.plans, counts, _MOST_PIECES) for each in (plain, made))
    return definition, made.notes, declared, carried_out


def _summary(definition: Definition) -> dict[str, Any]:
    return {
        "workflow": definition.name,
        "version": definition.version,
        "inputs": {name: spec.kind for name, spec in definition.inputs.items()},
        "steps": {name: step.kind for name, step in definition.steps.items()},
        "chain": definition.chained,
        "output": definition.output,
        "passes": sorted(definition.passes),
    }


def _told(
    definition: Definition, notes: tuple[Note, ...], declared: Drawing, carried_out: Drawing
) -> dict[str, Any]:
    return {
        **_summary(definition),
        "p_graph": asdict(declared),
        "e_graph": asdict(carried_out),
        "changes": [asdict(note) for note in notes],
    }


def _lines(
    definition: Definition, notes: tuple[Note, ...], declared: Drawing, carried_out: Drawing
) -> Iterator[str]:
    off = "" if definition.passes else " (no passes)"
    yield f"{definition.name}  version {definition.version}{off}"
    yield ""
    yield from side_by_side(declared, carried_out, notes)
    yield ""
    yield LEGEND
    for number, note in enumerate(notes, 1):
        yield f"[{number}] {note.by}: {note.what}"
