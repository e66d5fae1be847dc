"""Bounds what YAML's aliases stand for: a few lines of aliases of aliases stand for billions of values."""

from __future__ import annotations

import yaml


class TooManyAliases(yaml.constructor.ConstructorError):
    """Aliases stand for too much. `problem_mark` is where that begins."""


def check_aliases(root: yaml.Node, most: int) -> None:
    """Raises TooManyAliases where aliases, written out, add more than `most` values, or stand for what they are part of.

    What the text itself holds counts as nothing: a long file without aliases passes. Takes time by the text's length.
    """
    _size(root, most, {})


def _size(node: yaml.Node, most: int, known: dict[int, int | None]) -> int:
    """How many values a node stands for."""
    if id(node) in known:
        size = known[id(node)]
        if size is None:
            raise TooManyAliases(
                problem="an alias stands for what it is part of", problem_mark=node.start_mark
            )
        return size
    known[id(node)] = None
    met, size = len(known), 1
    for child in _children(node):
        size += _size(child, most, known)
    # What was met here for the first time is written out in the text.
    if size - 1 - (len(known) - met) > most:
        raise TooManyAliases(
            problem=f"aliases stand for more than {most} further values here", problem_mark=node.start_mark
        )
    known[id(node)] = size
    return size


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
