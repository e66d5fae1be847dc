"""YAML as its 1.2 core schema reads it: a date, `1:30`, `yes` and `on` are texts, `0o17` is a number. Knows no setting.

PyYAML reads YAML 1.1, in which they are a date, 90 and true.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from understudy.settings.aliases import check_aliases

_MOST_REPEATED = 10_000
"""Values that aliases may add to a configuration."""

_TAG = "tag:yaml.org,2002:"
_NUMBER = r"(?:0|[1-9][0-9]{0,300})"
"""`010` stays a text: a setting that is a text keeps its zero, and one that is a number reads 10."""
_PLAIN = {
    "null": (r"~|null|Null|NULL|", "~nN\0"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (rf"[-+]?{_NUMBER}|0o[0-7]{{1,300}}|0x[0-9a-fA-F]{{1,300}}", "-+0123456789"),
    "float": (
        rf"[-+]?(?:\.[0-9]+|{_NUMBER}(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
    # Of YAML 1.1, and in so many files that 1.2's tools read it, too.
    "merge": ("<<", "<"),
}
"""By what it stands for: how a scalar without quotes is written, and the characters it begins with (\\0: none)."""


class _Loader(yaml.SafeLoader):
    """Takes no key twice: the last one would win in silence. Takes no aliases that stand for too much."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012, as PyYAML has it

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            check_aliases(node, _MOST_REPEATED)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise yaml.constructor.ConstructorError(
                problem=f"this is no {node.tag.removeprefix(_TAG)}", problem_mark=node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in lines:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value!r} is there for the second time (first in line {lines[key.value]})",
                    problem_mark=key.start_mark,
                )
            lines[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        for key, _ in node.value:
            # A name is a text, also the model 4.1 and the tenant 2024.
            if isinstance(key, yaml.ScalarNode):
                key.tag = f"{_TAG}str"


class Dumper(yaml.SafeDumper):
    """Quotes a text that YAML 1.1 or 1.2 would read as something else. Writes what is there twice twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node), 0)


for _name, (_written, _begins) in _PLAIN.items():
    _pattern, _first = re.compile(rf"(?:{_written})\Z"), [*_begins.replace("\0", "")]
    for _reads in (_Loader, Dumper):
        _reads.add_implicit_resolver(f"{_TAG}{_name}", _pattern, [*_first, ""] if "\0" in _begins else _first)
_Loader.add_constructor(f"{_TAG}int", _integer)


def read_yaml(text: str) -> Any:
    """What YAML text says. Raises yaml.YAMLError, also for a key that is there twice."""
    return yaml.load(text, _Loader)
