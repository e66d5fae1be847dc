"""The applications that are measured: calls that feed each other, with texts made from a seed.

A call's content names others' answers as `{{name}}`, as understudy's semantic variables do: the same application is
played by its client, call by call, or handed over whole.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_NAME = re.compile(r"\{\{(\w+)\}\}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
CODE_ANSWER, DESIGN_ANSWER, COMMENT_ANSWER = 300, 500, 100
"""Tokens of a file's code, of the design of all files, and of a review of one file."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a model."""

    name: str
    content: str
    """The user's message, with `{{name}}` where another call's answer goes."""
    answer_tokens: int
    system: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The calls whose answers it needs, each once."""
        return tuple(dict.fromkeys(_NAME.findall(self.content)))

    def fields(self, model: str) -> dict[str, Any]:
        """The chat body, names and all."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        messages = [*system, {"role": "user", "content": self.content}]
        return {"model": model, "messages": messages, "max_tokens": self.answer_tokens}


@dataclass(frozen=True, slots=True)
class Application:
    """Calls, each after those it reads; the client wants the last, or those of `outputs`."""

    kind: str
    calls: tuple[Call, ...]
    outputs: tuple[str, ...] = ()
    """Names of calls."""

    @property
    def wanted(self) -> tuple[str, ...]:
        """The names of the calls that give the result, a line each."""
        return self.outputs or (self.calls[-1].name,)

    def run_body(self, model: str, **more: Any) -> dict[str, Any]:
        """The body of `POST /v1/runs`. `more`: further fields of each call's body."""
        steps = [
            {**call.fields(model), **more, "understudy": {"output": {"name": call.name}}}
            for call in self.calls
        ]
        return {"steps": steps, "get": dict.fromkeys(self.wanted, "latency")}


def filled(call: Call, answers: Mapping[str, str], model: str) -> dict[str, Any]:
    """The call's chat body with the answers it needs in their places."""
    fields = call.fields(model)
    fields["messages"][-1]["content"] = _NAME.sub(lambda match: answers[match[1]], call.content)
    return fields


@lru_cache(maxsize=4096)
def words(key: str, tokens: int) -> str:
    """So many tokens of text, as estimated by four characters a token: words of three letters and a blank."""
    chance = random.Random(key)
    return "".join("".join(chance.choices(_LETTERS, k=3)) + " " for _ in range(tokens))


def chain(key: str, steps: int, chunk_tokens: int = 1_024, answer_tokens: int = 50) -> Application:
    """A long document summarized chunk by chunk, each call with the summary so far."""
    calls = [Call("s0", f"Summarize. {words(f'{key}/0', chunk_tokens)}", answer_tokens)]
    calls += [
        Call(
            f"s{step}",
            f"Refine: {{{{s{step - 1}}}}} by {words(f'{key}/{step}', chunk_tokens)}",
            answer_tokens,
        )
        for step in range(1, steps)
    ]
    return Application("chain", tuple(calls))


def map_reduce(key: str, chunks: int, chunk_tokens: int = 1_024, answer_tokens: int = 50) -> Application:
    """A long document whose chunks are summarized side by side, and their summaries together."""
    maps = [
        Call(f"m{chunk}", f"Summarize. {words(f'{key}/{chunk}', chunk_tokens)}", answer_tokens)
        for chunk in range(chunks)
    ]
    together = " ".join(f"{{{{m{chunk}}}}}" for chunk in range(chunks))
    return Application("map-reduce", (*maps, Call("summary", f"Combine: {together}", answer_tokens)))


def roles(key: str, files: int, rounds: int = 3, *, joined: bool = True) -> Application:
    """An architect, a coder and a reviewer per file, and so many rounds of review and revision (Parrot, section 8.4).

    `joined`: a last call of one token reads all files; else the client gets each file.
    """
    system = words("roles/system", 200)
    task = words(f"{key}/task", 100)
    calls = [Call("design", f"{task} Design all files.", DESIGN_ANSWER, system)]
    project = f"{task} {{{{design}}}} "
    calls += [Call(f"c0f{n}", f"{project}Write file {n:04d}.", CODE_ANSWER, system) for n in range(files)]
    for turn in range(1, rounds + 1):
        code = project + " ".join(f"{{{{c{turn - 1}f{n}}}}}" for n in range(files))
        calls += [
            Call(f"r{turn}f{n}", f"{code} Review file {n:04d}.", COMMENT_ANSWER, system) for n in range(files)
        ]
        calls += [
            Call(
                f"c{turn}f{n}",
                f"{code} Revise file {n:04d} by {{{{r{turn}f{n}}}}}.",
                CODE_ANSWER,
                system,
            )
            for n in range(files)
        ]
    last = tuple(f"c{rounds}f{n}" for n in range(files))
    if not joined:
        return Application("roles", tuple(calls), last)
    calls.append(Call("done", " ".join(f"{{{{{name}}}}}" for name in last), 1, system))
    return Application("roles", tuple(calls))
