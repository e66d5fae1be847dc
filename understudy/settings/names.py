"""The names of all settings, dotted, with `*` for the name of an engine or a model."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class Named:
    """One setting."""

    name: str
    field: FieldInfo
    group: type[BaseModel]

    @property
    def advanced(self) -> bool:
        """Whether it stands under an `advanced:` block."""
        return ".advanced." in f".{self.name}."


def settings_of(group: type[BaseModel], prefix: str = "") -> Iterator[Named]:
    """Every setting of a group and of those below it; engines of several kinds tell what they share several times."""
    for name, field in group.model_fields.items():
        dotted = f"{prefix}{field.alias or name}"
        below, many = groups_in(field.annotation)
        for one in below:
            yield from settings_of(one, f"{dotted}.*." if many else f"{dotted}.")
        if not below:
            yield Named(dotted, field, group)


def groups_in(annotation: Any) -> tuple[list[type[BaseModel]], bool]:
    """The groups of settings that a field of this type holds, and whether it holds them by names; none for a plain one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation], False
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return groups_in(arguments[0])
    if origin in (Union, types.UnionType):
        return [group for each in arguments for group in groups_in(each)[0]], False
    if origin is dict:
        return groups_in(arguments[1])[0], True
    return [], False
