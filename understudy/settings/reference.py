"""Writes `docs/reference/settings.md`, every setting with its default: `python -m understudy.settings.reference`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr

from store.validating import what_differs
from understudy.settings.config import Config
from understudy.settings.names import Named, settings_of

_FILE = Path("docs/reference/settings.md")
_HEAD = """\
# Settings

Every setting with its default. `*` stands for a name of your choice. `config.example.yaml` shows the common ones as a file;
those under `advanced` are for when something has been measured and needs another value. Values in bold are required where
their block is used. The file is YAML 1.2: dates, `1:30`, `yes` and `010` are texts. A group that begins with `x-` holds
anchors. Written by `python -m understudy.settings.reference`.
"""
_WAITING = """\
## How long is waited

Seconds that an engine has (`engines.*.advanced`, `upstream.advanced`) where the setting is null. What is set holds always.

| setting | alone | while another engine [stands in](failover.md#who-stands-in) |
|---|---|---|
| `connect_s` | 5 | 5 |
| `first_data_s` | 600 | 3 times what this engine lately needed; at least 60, or 300 for models that reason |
| `gap_s` | 600 | 120, if that engine can carry the answer on; else 600 |
| `answer_s` | 600 | 600 |

`first_data_s` ends with the first event that says something: comments, pings, a bare role and other opening events do not.
What an engine lately needed are its own times to first data: the 99th of its latest 100 streams of that model, in this
worker. Models reason that are known to by their names, the client's or the engine's (`o3`, `gpt-5`, `deepseek-r1`, `qwq`,
`magistral`, `grok-4`, `gemini-2.5`, `...-thinking`; all of them in `engines/timeouts.py`), and those that a request asks to.
How long a client waits it tells by `x-stainless-read-timeout` or `x-stainless-timeout`, as OpenAI's SDKs do. Half of that is
left to the engine that stands in, as long as nothing was said; if it is longer than 600 it takes the place of 600, up to
3600.
"""


def reference() -> str:
    """The whole page."""
    lines = [_HEAD]
    for section, settings in groupby(_each_once(), key=lambda setting: setting.name.partition(".")[0]):
        lines += [f"## {section}", "", Config.model_fields[section].description or "", ""]
        lines += ["| setting | default | values | what it does |", "|---|---|---|---|"]
        lines += [*map(_row, settings), ""]
    lines.append(_WAITING)
    return "\n".join(lines).rstrip() + "\n"


def _each_once() -> Iterator[Named]:
    """Kinds of engines share settings, and each has a `kind` of its own."""
    seen: set[str] = set()
    for setting in settings_of(Config):
        if setting.name not in seen:
            seen.add(setting.name)
            yield setting


def _row(setting: Named) -> str:
    field = setting.field
    default = (
        "**required**" if field.is_required() else f"`{json.dumps(field.get_default(), default=_plain)}`"
    )
    said = field.description or _KINDS[setting.name]
    if setting.name == "engines.*.kind":
        default = '`"openai"`'
    return f"| `{setting.name}` | {default} | {_values(setting)} | {said.replace('|', chr(92) + '|')} |"


def _values(setting: Named) -> str:
    """What it may be, as far as its type and bounds say: `0 to 1`, `above 0`, the words of a choice."""
    if setting.name in _KINDS:
        return ""
    words = [word for word in get_args(setting.field.annotation) if isinstance(word, str)]
    if words:
        return ", ".join(words)
    bounds: dict[type, Any] = {type(one): one for one in setting.field.metadata}
    low = f"{bounds[Ge].ge}" if Ge in bounds else f"above {bounds[Gt].gt}" if Gt in bounds else ""
    high = f"{bounds[Le].le}" if Le in bounds else f"below {bounds[Lt].lt}" if Lt in bounds else ""
    if low and high:
        return f"{low} to {high}"
    return low if low.startswith("above") else f"{low} or more" if low else ""


_KINDS = {
    "engines.*.kind": "openai, anthropic, azure, vllm, vllm-local or simulated.",
    "components.*.kind": "local, openai, rerank, search, tool or simulated.",
}
"""Which kinds there are; each has a group of settings, and says its own word only."""


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return what_differs(value)
    return str(value) if isinstance(value, Path | SecretStr) else list(value)  # type: ignore[call-overload]


if __name__ == "__main__":
    _FILE.parent.mkdir(parents=True, exist_ok=True)
    _FILE.write_text(reference(), encoding="utf-8")
