"""Writes `config.example.yaml` from the settings, so that the two never differ: `python -m understudy.settings.example`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from understudy.settings.config import Config, ModelSettings, Upstream
from understudy.settings.engines import OpenAIEngine, SimulatedEngineSettings, VLLMEngine, VLLMLocalEngine
from understudy.settings.learning import JudgingSettings
from understudy.settings.memory import MemorySettings

_HEAD = """\
# Every setting with its default and a sentence. ${NAME} is read from the environment, ${NAME:-default} with a fallback.
# `understudy check FILE` validates a file and shows what it comes to. Written by `python -m understudy.settings.example`.
"""


def example() -> str:
    """The whole example as YAML text."""
    lines = [_HEAD.rstrip()]
    for name, field in Config.model_fields.items():
        lines.append("")
        lines.append(f"# {field.description}")
        match name:
            case "upstream":
                lines += [f"{name}:", *_group(Upstream, 1, {"base_url": "https://api.openai.com/v1"})]
            case "engines":
                openai = {"base_url": "http://127.0.0.1:8000/v1"}
                lines += [f"{name}:", "  small:  # any name", *_group(OpenAIEngine, 2, openai)]
                vllm = {"kind": "vllm", "base_url": "http://127.0.0.1:8001/v1"}
                lines += ["  medium:", *_group(VLLMEngine, 2, vllm)]
                local = {"kind": "vllm-local", "model_dir": "org/model"}
                lines += ["  local:", *_group(VLLMLocalEngine, 2, local)]
                lines += [
                    "  large:",
                    *_group(SimulatedEngineSettings, 2, {"kind": "simulated", "role": "lead"}),
                ]
            case "models":
                model = {"engines": ["small", "medium", "large"]}
                lines += [
                    f"{name}:",
                    "  gpt-4o:  # the name clients ask for",
                    *_group(ModelSettings, 2, model),
                ]
            case "memory":
                lines += [f"{name}:", *_group(MemorySettings, 1, {"data_dir": "./data"})]
            case "judging":
                lines += [f"{name}:", *_group(JudgingSettings, 1, {"engine": "large"})]
            case _:
                lines += [f"{name}:", *_group(type(field.default), 1, {})]
    return "\n".join(lines) + "\n"


def _group(model: type[BaseModel], depth: int, given: dict[str, Any]) -> Iterator[str]:
    pad = "  " * depth
    for name, field in model.model_fields.items():
        yield f"{pad}# {field.description or _summary(model, name)}"
        value = given.get(name, _default(field))
        if isinstance(value, BaseModel):
            yield f"{pad}{name}:"
            yield from _group(type(value), depth + 1, {})
        else:
            yield f"{pad}{name}: {json.dumps(value, default=_plain)}"


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() else field.get_default()


def _summary(model: type[BaseModel], name: str) -> str:
    return "Which kind of engine this is." if name == "kind" else f"{model.__name__}.{name}"


def _plain(value: object) -> Any:
    return str(value) if isinstance(value, Path | SecretStr) else list(value)  # type: ignore[call-overload]


if __name__ == "__main__":
    Path("config.example.yaml").write_text(example(), encoding="utf-8")
