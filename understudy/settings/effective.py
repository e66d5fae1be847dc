"""The effective settings as rows for the admin pages, each with its source, secrets masked; and what a pasted file comes to.

A pasted text is never resolved from this process's environment: whoever may paste must not thereby read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, SecretStr

from admin.sources import Checked, Setting
from store.validating import what_differs
from understudy.settings.config import Config
from understudy.settings.core_yaml import read_yaml
from understudy.settings.file import ConfigError, load_config, parse_config, resolve

_MASK = "(not shown)"
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_LONGEST = 400


class EffectiveSettings:
    """What is in force in this process's gateway, and where each value comes from."""

    def __init__(self, config: Config, file: Path | None) -> None:
        self._config = config
        self._file = file
        self._references = dict(_references(_raw(file))) if file is not None else {}

    def rows(self) -> list[Setting]:
        """Every setting, in the order of config.example.yaml."""
        return [
            Setting(key, value, self._source(key, is_set), description)
            for key, value, is_set, description in _flat(self._config)
        ]

    def news(self) -> tuple[str, ...]:
        """What the file says now that a restart would change: keys, or why it could not be used; empty without any."""
        if self._file is None:
            return ()
        try:
            then = load_config(self._file)
        except ConfigError as error:
            return tuple(str(error).splitlines())
        changes = _changes(self._config, then)
        # The command line has the last word on these.
        return tuple(key for key, _, _ in changes if not key.startswith("listen.") and key != "admin.enabled")

    def check(self, text: str) -> Checked:
        """Whether a pasted configuration could be used, and what it would change."""
        try:
            data = read_yaml(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            return Checked((f"not valid YAML: {where}{getattr(error, 'problem', None) or 'see there'}",), ())
        except RecursionError:
            return Checked(("it is nested too deeply to be a configuration",), ())
        if not isinstance(data or {}, dict):
            return Checked(("it must be a mapping of settings",), ())
        try:
            then = parse_config(resolve(data or {}, _Unresolved()))
        except ConfigError as error:
            lines = str(error).splitlines()
            return Checked(
                tuple(
                    f"{line} (this depends on the environment, which is not looked at here)"
                    if _REFERENCE.search(line)
                    else line
                    for line in lines
                ),
                (),
            )
        return Checked((), tuple(_changes(self._config, then)))

    def _source(self, key: str, is_set: bool) -> str:
        if key in self._references:
            return f"environment: {self._references[key]}"
        if not is_set:
            return "default"
        return "file" if self._file is not None else "command line"


class _Unresolved(Mapping[str, str]):
    """An environment in which every name stands for its own reference."""

    def __getitem__(self, name: str) -> str:
        return f"${{{name}}}"

    def get(self, name: str, default: Any = None) -> Any:
        return default if default is not None else self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _changes(now: Config, then: Config) -> list[tuple[str, str, str]]:
    before = {key: value for key, value, _, _ in _flat(now)}
    after = {key: value for key, value, _, _ in _flat(then)}
    return [
        (key, before.get(key, "(not set)"), after.get(key, "(not set)"))
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    ]


def _flat(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, str, bool, str]]:
    """(dotted key, value as YAML, whether somebody set it, description) of every setting below."""
    for name, field in type(model).model_fields.items():
        key, value = f"{prefix}{field.alias or name}", getattr(model, name)
        is_set = name in model.model_fields_set
        description = field.description or (type(model).__doc__ or "").strip().split("\n")[0]
        if isinstance(value, BaseModel):
            yield from _flat(value, f"{key}.")
        elif isinstance(value, Mapping) and any(isinstance(one, BaseModel) for one in value.values()):
            for one, settings in value.items():
                yield from _flat(settings, f"{key}.{one}.")
        else:
            yield key, _shown(value), is_set, description


def _shown(value: Any) -> str:
    if isinstance(value, SecretStr):
        return _MASK
    if isinstance(value, Mapping):
        return _yaml({str(k): _MASK if isinstance(v, SecretStr) else _plain(v) for k, v in value.items()})
    return _yaml(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return what_differs(value)
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000).strip()
    text = text.removesuffix("\n...").strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _raw(file: Path) -> Any:
    try:
        return read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None


def _references(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(dotted key, names) of settings whose text refers to the environment."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _references(one, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        names = [name for one in value if isinstance(one, str) for name in _REFERENCE.findall(one)]
        if names:
            yield key, ", ".join(dict.fromkeys(names))
    elif isinstance(value, str) and (names := _REFERENCE.findall(value)):
        yield key, ", ".join(dict.fromkeys(names))
