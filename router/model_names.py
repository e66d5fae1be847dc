"""Finds what is configured for a model's name: under the name itself, else under a wildcard that fits it (`gpt-4*`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeVar

T = TypeVar("T")
_LONGEST = 200
"""No model has a longer name; a client may send one."""


def is_wildcard(name: str) -> bool:
    """Tell if a configured name stands for several."""
    return "*" in name or "?" in name


def plain_names(names: Iterable[str]) -> list[str]:
    """Those that stand for themselves."""
    return [name for name in names if not is_wildcard(name)]


class ByModelName(Mapping[str, T]):
    """A mapping by model name. Looking a name up finds wildcards, too; going through it gives what was configured.

    Of several wildcards that fit, the one counts with the most characters that are no wildcards, then the first.
    """

    def __init__(self, configured: Mapping[str, T]) -> None:
        self._named = dict(configured)
        self._plain = {name: self._named[name] for name in plain_names(configured)}
        order = sorted(
            filter(is_wildcard, configured), key=lambda glob: -len(glob.replace("*", "").replace("?", ""))
        )
        self._globs = [(glob, configured[glob]) for glob in order]

    def __getitem__(self, name: str) -> T:
        found = self._found(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict; most names that are looked up are not there."""
        found = self._found(name)
        return default if found is None else found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._found(name) is not None

    def _found(self, name: str) -> T | None:
        found = self._plain.get(name)
        if found is None and self._globs and isinstance(name, str) and len(name) <= _LONGEST:
            return next((value for glob, value in self._globs if fnmatchcase(name, glob)), None)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)
