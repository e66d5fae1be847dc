"""From a YAML file to a Config: environment references resolved, errors that name key, value and remedy."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from store.people.limits import Budget, Limits, Retention, names_of
from store.validating import FROM_OUTSIDE
from understudy.settings.config import Config, meant
from understudy.settings.core_yaml import read_yaml
from understudy.settings.names import settings_of
from understudy.settings.prices import BadPrices, with_list_prices
from understudy.settings.retired import without_retired

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class ConfigError(Exception):
    """The configuration cannot be used. The text is for a person and holds no secret."""


def load_config(path: Path, environment: Mapping[str, str] | None = None) -> Config:
    """Read and validate `path`. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})") from error
    try:
        data = read_yaml(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {_yaml_problem(error)}") from error
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply to be a configuration") from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must be a mapping of settings, not {_kind(data)}")
    return parse_config(resolve(data, os.environ if environment is None else environment))


def parse_config(data: Mapping[str, Any]) -> Config:
    """Validate settings whose references are resolved. Raises ConfigError naming every wrong key.

    A key that begins with x- holds anchors for others.
    """
    current = {k: v for k, v in data.items() if not str(k).startswith("x-")}
    if not _LITELLM.isdisjoint(current):
        raise ConfigError(
            "this looks like a configuration of LiteLLM: `understudy import-config FILE -o config.yaml` writes one of ours"
        )
    current, retired = without_retired(current)
    try:
        current, unlisted = with_list_prices(current)
        config = Config.model_validate(current, context=FROM_OUTSIDE)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(dict(problem)) for problem in error.errors())) from None
    except BadPrices as error:
        raise ConfigError(str(error)) from None
    return config.taken_along((*retired, *unlisted))


def resolve(value: Any, environment: Mapping[str, str], where: str = "") -> Any:
    """Replace `${NAME}` and `${NAME:-default}` in every string. Raises ConfigError naming every unset one."""
    unset: list[str] = []
    resolved = _resolved(value, environment, where, unset)
    if unset:
        raise ConfigError("\n".join(unset))
    return resolved


def _resolved(value: Any, environment: Mapping[str, str], where: str, unset: list[str]) -> Any:
    if isinstance(value, dict):
        return {
            k: _resolved(v, environment, f"{where}.{k}" if where else str(k), unset) for k, v in value.items()
        }
    if isinstance(value, list):
        return [_resolved(v, environment, f"{where}.{i}", unset) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def substitute(match: re.Match[str]) -> str:
        name, default = match.groups()
        found = environment.get(name, default)
        if found is None:
            unset.append(
                f"{where}: ${{{name}}} is not set in the environment; export {name}, or write ${{{name}:-default}}"
            )
            return ""
        return found

    return _REFERENCE.sub(substitute, value)


_RECORDS = {"limits": Limits, "each_user": Limits, "retention": Retention}
"""Settings that are models of the store; the one within another is a budget."""
_ALIKE = 0.75
"""Likeness of two names from which one may be a slip for the other."""
_PLAINER = {
    "dict_type": "a mapping is right, each name with its settings",
    "model_type": "a mapping is right, each setting with its value",
    "tuple_type": "a list is right, such as [one, another]",
    "too_short": "it needs at least one entry",
}
"""By the type of a problem: what would be right, where pydantic speaks of Python."""
_LITELLM = frozenset({"model_list", "litellm_settings", "general_settings", "router_settings"})
_CREDENTIALS = re.compile(r"//[^/]*@")
_MAY_HOLD_CREDENTIALS = re.compile("[@?#]")
"""Where a URL has one of these, what stands around it may be a credential."""
_SECRET_KEYS = re.compile(
    r"key|token|secret|password|authorization|webhooks|database_url|listen_url", re.IGNORECASE
)


def _explain(problem: dict[str, Any]) -> str:
    # The union's tag ("openai") sits in the location; the person never wrote it.
    parts = [str(part) for part in problem["loc"]]
    if len(parts) > 2 and parts[0] in ("engines", "components"):
        del parts[2]
    key = ".".join(parts) or "configuration"
    message = str(problem["msg"]).removeprefix("Value error, ").replace("valid dictionary", "mapping")
    match problem["type"]:
        case "extra_forbidden":
            return f"{key}: no such setting; {_nearest(key)}"
        case "unexpected_keyword_argument":
            known = names_of(_RECORDS.get(parts[-2], Budget))
            return f"{key}: no such setting; known: {', '.join(known)}"
        case "missing":
            return f"{key}: required, and missing"
        case "union_tag_invalid":
            tag, known = problem["ctx"]["tag"], problem["ctx"]["expected_tags"]
            return f"{key}.kind: {tag!r} is not one of {known}{meant(str(tag), known.replace(chr(39), '').split(', '))}"
        case "literal_error":
            known = str(problem["ctx"]["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
            message += meant(str(problem.get("input")), known)
        case "value_error" if key == "configuration":
            return message
        case "value_error" if isinstance(problem.get("input"), dict):
            return f"{key}: {message}"
    message = _PLAINER.get(problem["type"], message)
    # The blocks of keys and webhooks have secrets in them, but not in everything.
    inner = parts[0] == "keys" or parts[2:3] == ["events"]
    named = ".".join(parts[2:]) if inner and len(parts) > 2 else key
    return f"{key} is {_shown(named, problem.get('input'))}: {message[:1].lower()}{message[1:]}"


def _shown(key: str, value: object) -> str:
    """A wrong value, where it can hold no secret."""
    # A mapping or a list may hold a key further down: only its kind is told.
    if isinstance(value, dict | list):
        return _kind(value)
    hidden = _SECRET_KEYS.search(key) or _CREDENTIALS.search(str(value))
    if hidden or (key.endswith("_url") and _MAY_HOLD_CREDENTIALS.search(str(value))):
        return "(not shown)"
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _nearest(key: str) -> str:
    """Which setting was meant, most likely."""
    starred = re.sub(r"^(engines|models|components|keys|tenants)\.[^.]+\.", r"\1.*.", key)
    starred = re.sub(r"^(models\.\*\.tasks)\.[^.]+\.", r"\1.*.", starred)
    settings = [setting.name for setting in settings_of(Config)]
    groups = [group for name in settings for group in accumulate(name.split(".")[:-1], "{}.{}".format)]
    same_leaf = [name for name in settings if name.rpartition(".")[2] == starred.rpartition(".")[2]]
    known = same_leaf or [*settings, *groups]
    meant = difflib.get_close_matches(starred, known, n=1, cutoff=0.0 if same_leaf else _ALIKE)
    if not meant:
        return "docs/reference/settings.md lists them all"
    given = key.split(".")
    parts = (
        given[i] if part == "*" and i < len(given) else part for i, part in enumerate(meant[0].split("."))
    )
    return f"did you mean {'.'.join(parts)}?"


def _yaml_problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem


def _kind(value: object) -> str:
    return {
        "list": "a list",
        "dict": "a mapping",
        "str": "a text",
        "int": "a number",
        "float": "a number",
    }.get(type(value).__name__, type(value).__name__)
