"""Reads the names of keys where settings want ids: a key of the same file is named as it is there. Asks no store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from understudy.settings.config import Config

_OF_KEYS = ("deltas", "key_preferences", "opted_out_keys")
"""Settings that name keys, wherever they are: a mapping by key, or a list."""
_BLOCKS = ("memory", "models", "judging")


def with_key_ids(config: Config, id_of: Callable[[str], str]) -> Config:
    """The same configuration with ids in the place of names of its `keys`; `id_of` gives the id of such a key."""
    ids = {name: id_of(name) for name in config.keys}
    if not ids:
        return config
    changed = {name: _with_ids(getattr(config, name), ids) for name in _BLOCKS}
    return config.model_copy(update=changed)


def keys_named(config: Config) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each setting that names keys, and the names or ids that it has."""
    for name in _BLOCKS:
        yield from _named(getattr(config, name), name)


def _with_ids(value: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _with_ids(each, ids) for name, each in value.items()}
    if not isinstance(value, BaseModel):
        return value
    changed = {}
    for name in type(value).model_fields:
        of_it = getattr(value, name)
        if name not in _OF_KEYS:
            changed[name] = _with_ids(of_it, ids)
        elif isinstance(of_it, dict):
            changed[name] = {ids.get(key, key): each for key, each in of_it.items()}
        else:
            changed[name] = tuple(ids.get(key, key) for key in of_it)
    return value.model_copy(update=changed)


def _named(value: Any, where: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _named(each, f"{where}.{name}")
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            if name in _OF_KEYS:
                yield f"{where}.{name}", tuple(getattr(value, name))
            else:
                yield from _named(getattr(value, name), f"{where}.{name}")
