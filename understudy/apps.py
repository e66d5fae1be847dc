"""Semantic functions: prompts written as Python functions, whose calls feed each other inside the gateway.

    from openai import OpenAI
    from understudy.apps import App, semantic_function

    @semantic_function(model="gpt-4o", output="code")
    def write_code(task):
        '''You are an expert software engineer. Write Python code of {{task}}. Code:'''

    @semantic_function(model="gpt-4o", output="tests")
    def write_tests(task, code):
        '''You are an experienced QA engineer. Write test code for {{task}}. Code: {{code}}. Your test code:'''

    with App(OpenAI()):
        code = write_code("a snake game")
        tests = write_tests("a snake game", code)
        print(code.get(), tests.get())

A call asks nobody: it returns a variable. The first `get` sends all calls collected so far as one run (`POST /v1/runs`).
This module imports nothing else of this package's and may be copied; it works with any client that has `get` and `post` as
`openai.OpenAI` has.
"""

from __future__ import annotations

import inspect
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from openai import OpenAI

Criteria = Literal["latency", "ttft", "throughput"]
Value = str | list[str]
Transforms = Sequence[str | Mapping[str, Any]]

_NAME = re.compile(r"(?<!\{)(?:\{\{\{\{)*\{\{([A-Za-z_][A-Za-z0-9_.-]{0,63})\}\}")
_WAIT_S = 60.0
"""How long one request waits for a value; `get` asks again until it is there."""
_entered: ContextVar[tuple[App, ...]] = ContextVar("understudy_apps", default=())


class VariableFailed(Exception):
    """A variable will have no value: its call failed, or one that it depends on."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Variable:
    """What a call will answer. Pass it to other calls, or get its value."""

    def __init__(self, app: App, name: str) -> None:
        self.app = app
        self.name = name
        self.id: str | None = None
        """Set when its run was sent."""
        self._not_sent: Exception | None = None

    def get(self, criteria: Criteria = "latency", *, timeout_s: float | None = None) -> Value:
        """Its value: a text, or a list of texts where its transforms make one.

        Raises VariableFailed, TimeoutError after `timeout_s`, and what the client raises.
        """
        return self.app._get(self, criteria, timeout_s)

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.id or 'not sent'})"


class App:
    """Collects the calls made in its `with` block and sends them. For several threads; each enters for itself."""

    def __init__(
        self, client: OpenAI, name: str | None = None, *, budget: Mapping[str, float] | None = None
    ) -> None:
        """`name`: the app in whose namespace the variables' names stand; None: they are known by their ids alone.

        `budget` (usd, tokens, seconds) is each run's.
        """
        self._client = client
        self._name = name
        self._budget = budget
        self._lock = threading.Lock()
        self._steps: list[dict[str, Any]] = []
        self._collected: list[Variable] = []
        self._used: dict[str, int] = {}

    def __enter__(self) -> App:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _entered.set(_entered.get()[:-1])

    def send(self, get: Mapping[str, Criteria] | None = None) -> None:
        """Sends what was collected as one run; nothing where nothing was. `get` has criteria by variable name.

        Raises what the client raises; then these calls are dropped, and getting their variables raises it again.
        """
        with self._lock:
            if not self._steps:
                return
            body: dict[str, Any] = {"steps": self._steps, "get": dict(get or {}), "background": True}
            if self._name is not None:
                body["app"] = self._name
            if self._budget is not None:
                body["budget"] = dict(self._budget)
            sent, self._steps, self._collected = self._collected, [], []
            try:
                # The client may repeat a request whose answer it lost.
                headers = {"Idempotency-Key": str(uuid.uuid4())}
                run: Any = self._client.post("/runs", cast_to=object, body=body, options={"headers": headers})
            except Exception as error:
                for variable in sent:
                    variable._not_sent = error
                raise
            for variable in sent:
                variable.id = run["variables"][variable.name]["id"]

    def _collect(
        self, chat: dict[str, Any], inputs: dict[str, Any], outputs: Mapping[str, Transforms]
    ) -> list[Variable]:
        with self._lock:
            given = {name: self._input(value) for name, value in inputs.items()}
            made = [Variable(self, self._unused(name)) for name in outputs]
            step = {
                "inputs": given,
                "outputs": [
                    {"name": variable.name, "transform": [*transforms]}
                    for variable, transforms in zip(made, outputs.values(), strict=True)
                ],
            }
            self._steps.append({**chat, "understudy": step})
            self._collected += made
            return made

    def _unused(self, name: str) -> str:
        """`code`, then `code_2`, `code_3`."""
        count = self._used[name] = self._used.get(name, 0) + 1
        return name if count == 1 else self._unused(f"{name}_{count}")

    def _input(self, value: str | Variable) -> str | dict[str, str]:
        if isinstance(value, str):
            return value
        if value._not_sent is not None:
            raise value._not_sent
        if value.id is None and value.app is not self:
            raise ValueError(f"{value!r} belongs to another App, which has not been sent yet.")
        return {"variable": value.id or value.name}

    def _get(self, variable: Variable, criteria: Criteria, timeout_s: float | None) -> Value:
        if variable.id is None:
            self.send({variable.name: criteria})
        if variable._not_sent is not None:
            raise variable._not_sent
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            wait_s = _WAIT_S if end_s is None else min(_WAIT_S, max(0.0, end_s - time.monotonic()))
            found = self._asked(variable, {"criteria": criteria, "wait_s": f"{wait_s:.3f}"}, wait_s)
            if found["status"] == "ready":
                value: Value = found["value"]
                return value
            if end_s is not None and time.monotonic() >= end_s:
                raise TimeoutError(f"{variable!r} has no value after {timeout_s} s.")

    def _asked(self, variable: Variable, params: dict[str, Any], wait_s: float) -> Any:
        options: Any = {"params": params, "timeout": wait_s + 30}
        try:
            return self._client.get(f"/variables/{variable.id}", cast_to=object, options=options)
        except Exception as error:
            if getattr(error, "status_code", None) == 424:
                body = getattr(error, "body", None)
                told = body if isinstance(body, dict) else {}
                message, code = told.get("message") or str(error), told.get("code") or "producer_failed"
                raise VariableFailed(message, code) from error
            raise


def semantic_function(
    *,
    model: str,
    output: str | Mapping[str, Transforms] = "output",
    transform: Transforms = (),
    system: str | None = None,
    **chat: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a prompt of a function: its docstring is the template, `{{name}}` the parameter `name`.

    A call takes texts and variables and returns a variable named `output`; where `output` maps names to transforms, a tuple
    of variables. `system` is a system message, a template, too; `chat` has further fields of the request, such as
    `temperature`. Raises ValueError for a template with a name that is no parameter.
    """
    outputs = {output: transform} if isinstance(output, str) else dict(output)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        messages = _messages(function, system)
        for name in _NAME.findall(" ".join(message["content"] for message in messages)):
            if name not in signature.parameters:
                raise ValueError(f"{function.__name__}: {{{{{name}}}}} is not a parameter.")

        def call(*args: Any, **kwargs: Any) -> Any:
            if not _entered.get():
                raise RuntimeError(f"{function.__name__} is called within `with App(client):`.")
            app = _entered.get()[-1]
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            for name, value in bound.arguments.items():
                if not isinstance(value, str | Variable):
                    raise TypeError(
                        f"{function.__name__}: {name} must be a text or a Variable, not {type(value).__name__}."
                    )
            made = app._collect({**chat, "model": model, "messages": messages}, bound.arguments, outputs)
            return made[0] if isinstance(output, str) else tuple(made)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return call

    return decorate


def _messages(function: Callable[..., Any], system: str | None) -> list[dict[str, str]]:
    template = inspect.getdoc(function)
    if not template:
        raise ValueError(f"{function.__name__} has no docstring: it is the prompt.")
    user = {"role": "user", "content": template}
    return [user] if system is None else [{"role": "system", "content": system}, user]
