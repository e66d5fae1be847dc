"""Hands settings to the object that works by them: a dataclass whose fields are filled from groups of settings by name.

A default is written once. What somebody may set has its default in the group of settings, and none in the dataclass; what
is fixed has its value in the dataclass, beside the code that uses it, and is no setting. `knobs_of` refuses a field that
is both.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

from understudy.settings.group import Settings

T = TypeVar("T")

_UNITS = {
    "_s": (("_ms", 1e-3), ("_min", 60.0), ("_h", 3600.0), ("_days", 86_400.0)),
    "_bytes": (("_kib", 1024.0), ("_mib", 1024.0**2)),
}
"""A field's unit to those a setting may be written in, and how many of the field's one of them is."""


def knobs_of(kind: type[T], *groups: Settings, **given: Any) -> T:
    """A `kind` from the first group that has a setting of the field's name, whatever its unit; `given` comes first.

    Raises TypeError for a field without a value, and for one that also has a default of its own.
    """
    values = dict(given)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in values:
            values |= _found(field.name, groups)
        if field.name in values and _has_default(field):
            raise TypeError(
                f"{kind.__qualname__}.{field.name} has a default, and is a setting: write one of the two"
            )
    return kind(**values)


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _found(name: str, groups: tuple[Settings, ...]) -> dict[str, Any]:
    for group in groups:
        if name in type(group).model_fields:
            return {name: getattr(group, name)}
        for unit, others in _UNITS.items():
            for other, factor in others if name.endswith(unit) else ():
                setting = name.removesuffix(unit) + other
                if setting in type(group).model_fields:
                    value = getattr(group, setting)
                    return {name: value if value is None else _whole(value * factor, unit)}
    return {}


def _whole(value: float, unit: str) -> float:
    return int(value) if unit == "_bytes" else value
