"""YAML of unknown origin, read within bounds: a few lines of aliases can stand for billions of values."""

from __future__ import annotations

from typing import Any

import yaml

from understudy.settings.aliases import TooManyAliases, check_aliases

MOST_BYTES = 256 * 1024
_MOST_VALUES = 20_000
_MOST_DEPTH = 50
_FASTEST: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""In C where PyYAML was built with it: ten times as fast."""


class _Loader(_FASTEST):  # type: ignore[misc, valid-type]
    """A date is a text: it is a version of an API."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_yaml_str)


class TooMuch(Exception):
    """The text is more than is read. Says which bound it passes."""


def read_bounded(text: str) -> Any:
    """What YAML text says. Raises TooMuch, before anything of it is built, and yaml.YAMLError.

    An alias counts as often as it is used, with all that it stands for.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise TooMuch(f"it has more than {MOST_BYTES // 1024} KiB")
    _check_events(text)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        try:
            check_aliases(node, _MOST_VALUES)
        except TooManyAliases as error:
            raise TooMuch(str(error.problem)) from error
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_events(text: str) -> None:
    """Composing nests as deep as the text does and takes time; looking at its events does neither."""
    depth = count = 0
    for event in yaml.parse(text, _Loader):
        count += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MOST_DEPTH:
            raise TooMuch(f"it nests deeper than {_MOST_DEPTH} levels")
        if count > _MOST_VALUES:
            raise TooMuch(f"it has more than {_MOST_VALUES} values")
