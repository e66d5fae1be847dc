"""Writes the requests that the demo offers to try as two files, so that what is to be typed fits into a narrow terminal."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from simulation.demo.settings import KEY, MODEL, SMALL

_BY = "# Written by `understudy demo` to ask its gateway, while that runs."
_SHELL = """#!/bin/sh
{by}
# With `small`, the small engine answers by itself, without examples.
if [ "$1" = small ]; then
  set -- -H 'x-understudy-engine: {small}' -H 'x-understudy-examples: 0'
fi
curl -i {url}/v1/chat/completions \\
  -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' "$@" \\
  -d {body}
echo
"""
_PYTHON = """{by}
from openai import OpenAI

client = OpenAI(base_url="{url}/v1", api_key="{key}")
answer = client.chat.completions.create(model="{model}", messages=[{message!r}])
print(answer.choices[0].message.content)
"""


def write_scripts(folders: Sequence[Path], url: str, question: str) -> tuple[str, str]:
    """Writes `try-it.sh` and `try_it.py`; returns the command that runs each.

    They go into the first of `folders` that can be written and has no other file of these names. Raises OSError where
    none can.
    """
    message = {"role": "user", "content": question}
    body = shlex.quote(json.dumps({"model": MODEL, "messages": [message]}))
    texts = {
        "try-it.sh": _SHELL.format(by=_BY, small=SMALL, url=url, key=KEY, body=body),
        "try_it.py": _PYTHON.format(by=_BY, url=url, key=KEY, model=MODEL, message=message),
    }
    folder = next((one for one in folders if _may_hold(one, list(texts))), folders[-1])
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "try-it.sh").chmod(0o755)
    shell, python = _seen(folder / "try-it.sh"), _seen(folder / "try_it.py")
    return shell if "/" in shell else f"./{shell}", f"{_seen(Path(sys.executable))} {python}"


def _may_hold(folder: Path, names: list[str]) -> bool:
    there = [folder / name for name in names if (folder / name).exists()]
    return os.access(folder, os.W_OK) and all(_BY in one.read_text("utf-8", "replace") for one in there)


def _seen(path: Path) -> str:
    """A path as it is typed in the current folder."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
