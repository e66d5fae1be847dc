"""Renders summaries as HTML with Jinja2: everything is escaped and undefined names are errors.

Invisible characters appear as escapes, here for all pages and twins (admin/invisible.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from admin.choices import MOST_CHOICES
from admin.formats import filters
from admin.glossary import TERMS
from admin.invisible import escaped_ascii_json, escaped_html, escaped_json
from admin.static_files import StaticFiles

# Dataclasses are not serialised: Content is one, and must be revealed first.
_OPTIONS = (
    orjson.OPT_INDENT_2
    | orjson.OPT_SERIALIZE_NUMPY
    | orjson.OPT_NON_STR_KEYS
    | orjson.OPT_PASSTHROUGH_DATACLASS
)
_FOLDER = Path(__file__).parent / "templates"


class Rendering:
    """Every template, compiled once."""

    def __init__(self, static: StaticFiles, shared: Mapping[str, Any], zone: tzinfo = UTC) -> None:
        """`shared`: values that every template may use, such as the menu. `zone`: of times."""
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(filters(zone))
        self._environment.policies["json.dumps_function"] = _dumps
        self._environment.globals.update(
            static=static.url, terms_of=TERMS, most_choices=MOST_CHOICES, **shared
        )

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """The page as HTML. Raises Jinja2's errors, for example for an undefined name."""
        return escaped_html(self._environment.get_template(template).render(values))


def as_json(summary: Any) -> bytes:
    """A revealed summary as JSON. Raises TypeError for other types, including Content that was not revealed."""
    return escaped_json(orjson.dumps(summary, option=_OPTIONS))


def _dumps(value: Any, **options: Any) -> str:
    """JSON of what a script draws."""
    return escaped_ascii_json(json.dumps(value, **options))
