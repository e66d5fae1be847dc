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
With `AsyncOpenAI` the same is `await code.aget()`, or `await code`. This module imports nothing else of this package's and
may be copied; it works with any client that has `get`, `post` and `put` as `openai.OpenAI` or `openai.AsyncOpenAI` has.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

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

    def __init__(self, app: App, name: str, *, given: bool = False) -> None:
        self.app = app
        self.name = name
        self.given = given
        """Whether its value is set, and not what a call answers."""
        self.id: str | None = None
        """Set when its run was sent."""
        self._not_sent: Exception | None = None

    @property
    def path(self) -> str:
        """Where the gateway has it."""
        return f"/apps/{self.app._name}/variables/{self.name}" if self.given else f"/variables/{self.id}"

    @property
    def unsent(self) -> bool:
        """Whether a run must be sent before it can be asked for."""
        return self.id is None and not self.given

    def get(self, criteria: Criteria = "latency", *, timeout_s: float | None = None) -> Value:
        """Its value: a text, or a list of texts where its transforms make one.

        Raises VariableFailed, TimeoutError after `timeout_s`, and what the client raises.
        """
        return self.app._get(self, criteria, timeout_s)

    def stream(self) -> Iterator[str]:
        """The pieces of its text as they come. Needs the package `openai`. Raises as `get` does."""
        return self.app._stream(self)

    def set(self, value: Value) -> None:
        """Set a variable of `App.variable`, which no call writes. Raises what the client raises."""
        self.app._client.put(**self.app._setting(self, value))

    async def aget(self, criteria: Criteria = "latency", *, timeout_s: float | None = None) -> Value:
        """As `get`, with AsyncOpenAI."""
        return await self.app._aget(self, criteria, timeout_s)

    def astream(self) -> AsyncIterator[str]:
        """As `stream`, with AsyncOpenAI."""
        return self.app._astream(self)

    async def aset(self, value: Value) -> None:
        """As `set`, with AsyncOpenAI."""
        await self.app._client.put(**self.app._setting(self, value))

    def __await__(self) -> Generator[Any, None, Value]:
        return self.aget().__await__()

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.id or 'not sent'})"


Argument = str | Variable


class App:
    """Collects the calls made in its `with` block and sends them. For several threads; each enters for itself."""

    def __init__(
        self,
        client: OpenAI | AsyncOpenAI,
        name: str | None = None,
        *,
        budget: Mapping[str, float] | None = None,
    ) -> None:
        """`name`: the app in whose namespace the variables' names stand; None: they are known by their ids alone.

        `budget` (usd, tokens, seconds) is each run's.
        """
        self._client: Any = client
        self._name = name
        self._budget = budget
        self._lock = threading.Lock()
        self._sending, self._asending = threading.Lock(), asyncio.Lock()
        """Held while a run is sent: whose variable is in it waits for its id."""
        self._steps: list[dict[str, Any]] = []
        self._collected: list[Variable] = []
        self._used: dict[str, int] = {}
        self._undeclared: list[Variable] = []
        """Variables of `variable` that the gateway does not know yet."""

    def __enter__(self) -> App:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _entered.set(_entered.get()[:-1])

    async def __aenter__(self) -> App:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    def variable(self, name: str) -> Variable:
        """A variable that no call writes: pass it to calls, and set its value later (`Variable.set`).

        Raises ValueError for an app without a name.
        """
        if self._name is None:
            raise ValueError("A variable that is set needs an app with a name: App(client, name).")
        made = Variable(self, name, given=True)
        self._undeclared.append(made)
        return made

    def send(self, get: Mapping[str, Criteria] | None = None) -> None:
        """Sends what was collected as one run; nothing where nothing was. `get` has criteria by variable name.

        Raises what the client raises; then these calls are dropped, and getting their variables raises it again.
        """
        with self._sending:
            sent, request = self._run_of(get)
            if not sent:
                return
            try:
                for declaring in self._declaring():
                    self._client.put(**declaring)
                run = self._client.post(**request)
            except Exception as error:
                _not_sent(sent, error)
                raise
            _known(sent, run)

    async def asend(self, get: Mapping[str, Criteria] | None = None) -> None:
        """As `send`, with AsyncOpenAI."""
        async with self._asending:
            sent, request = self._run_of(get)
            if not sent:
                return
            try:
                for declaring in self._declaring():
                    await self._client.put(**declaring)
                run = await self._client.post(**request)
            except Exception as error:
                _not_sent(sent, error)
                raise
            _known(sent, run)

    def _run_of(self, get: Mapping[str, Criteria] | None) -> tuple[list[Variable], dict[str, Any]]:
        """The variables that were collected, and the request that sends their calls."""
        with self._lock:
            body: dict[str, Any] = {"steps": self._steps, "get": dict(get or {}), "background": True}
            sent, self._steps, self._collected = self._collected, [], []
        if self._name is not None:
            body["app"] = self._name
        if self._budget is not None:
            body["budget"] = dict(self._budget)
        # The client may repeat a request whose answer it lost.
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        return sent, {"path": "/runs", "cast_to": object, "body": body, "options": {"headers": headers}}

    def _wanted(self, variable: Variable, criteria: Criteria) -> dict[str, Criteria]:
        """The gets of a run whose first get is this. Who waits for one of several results is about to wait for the others:
        what no call reads is got for latency, too."""
        if criteria != "latency":
            return {variable.name: criteria}
        with self._lock:
            given = [value for step in self._steps for value in step["understudy"]["inputs"].values()]
            read = {value["variable"] for value in given if isinstance(value, dict)}
            unread = [each.name for each in self._collected if each.name not in read]
        return dict.fromkeys([variable.name, *unread], criteria)

    def _setting(self, variable: Variable, value: Value) -> dict[str, Any]:
        if not variable.given:
            raise ValueError(f"{variable!r} is written by a call.")
        if variable in self._undeclared:
            self._undeclared.remove(variable)
        return {"path": variable.path, "cast_to": object, "body": {"value": value}}

    def _declaring(self) -> Iterator[dict[str, Any]]:
        while self._undeclared:
            yield {"path": self._undeclared.pop().path, "cast_to": object, "body": {}}

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

    def _input(self, value: Argument) -> str | dict[str, str]:
        if isinstance(value, str):
            return value
        if value._not_sent is not None:
            raise value._not_sent
        if value.app is not self and (value.given or value.id is None):
            raise ValueError(f"{value!r} belongs to another App, which has not been sent yet.")
        return {"variable": value.id or value.name}

    def _get(self, variable: Variable, criteria: Criteria, timeout_s: float | None) -> Value:
        if variable.unsent:
            self.send(self._wanted(variable, criteria))
        asking = _Asking(variable, criteria, timeout_s)
        while True:
            try:
                found = self._client.get(**asking.request())
            except Exception as error:
                raise asking.failure(error) from error
            if (value := asking.value(found)) is not None:
                return value

    async def _aget(self, variable: Variable, criteria: Criteria, timeout_s: float | None) -> Value:
        if variable.unsent:
            await self.asend(self._wanted(variable, criteria))
        asking = _Asking(variable, criteria, timeout_s)
        while True:
            try:
                found = await self._client.get(**asking.request())
            except Exception as error:
                raise asking.failure(error) from error
            if (value := asking.value(found)) is not None:
                return value

    def _stream(self, variable: Variable) -> Iterator[str]:
        from openai import Stream

        if variable.unsent:
            self.send({variable.name: "ttft"})
        asking = _Asking(variable, "ttft", None)
        try:
            with self._client.get(**asking.stream(Stream[object])) as events:
                for event in events:
                    yield from _piece(event)
        except Exception as error:
            raise asking.failure(error) from error

    async def _astream(self, variable: Variable) -> AsyncIterator[str]:
        from openai import AsyncStream

        if variable.unsent:
            await self.asend({variable.name: "ttft"})
        asking = _Asking(variable, "ttft", None)
        try:
            async with await self._client.get(**asking.stream(AsyncStream[object])) as events:
                async for event in events:
                    for piece in _piece(event):
                        yield piece
        except Exception as error:
            raise asking.failure(error) from error


class _Asking:
    """The requests that ask for one variable until it has a value. Raises what its run could not be sent for."""

    def __init__(self, variable: Variable, criteria: Criteria, timeout_s: float | None) -> None:
        if variable._not_sent is not None:
            raise variable._not_sent
        self._variable, self._criteria, self._timeout_s = variable, criteria, timeout_s
        self._end_s = None if timeout_s is None else time.monotonic() + timeout_s

    def request(self) -> dict[str, Any]:
        """What the client is to get."""
        wait_s = _WAIT_S
        if self._end_s is not None:
            wait_s = min(_WAIT_S, max(0.0, self._end_s - time.monotonic()))
        params = {"criteria": self._criteria, "wait_s": f"{wait_s:.3f}"}
        return self._getting(params, wait_s + 30)

    def stream(self, kind: type[Any]) -> dict[str, Any]:
        """The same for a stream of this kind."""
        params = {"criteria": self._criteria, "stream": "true"}
        return {**self._getting(params, _WAIT_S), "stream": True, "stream_cls": kind}

    def _getting(self, params: dict[str, str], timeout_s: float) -> dict[str, Any]:
        options = {"params": params, "timeout": timeout_s}
        return {"path": self._variable.path, "cast_to": object, "options": options}

    def value(self, found: Any) -> Value | None:
        """The value; None where it is to be asked for again. Raises TimeoutError."""
        if found["status"] == "ready":
            value: Value = found["value"]
            return value
        if self._end_s is not None and time.monotonic() >= self._end_s:
            raise TimeoutError(f"{self._variable!r} has no value after {self._timeout_s} s.")
        return None

    def failure(self, error: Exception) -> Exception:
        """VariableFailed for an answer, or an event of a stream, that says so; else the client's error."""
        body = getattr(error, "body", None)
        told = body if isinstance(body, dict) else {}
        status = getattr(error, "status_code", None)
        if status != 424 and (status is not None or not told):
            return error
        return VariableFailed(told.get("message") or str(error), told.get("code") or "producer_failed")


def _piece(event: Any) -> Iterator[str]:
    """The text that an event of a stream brings. Raises VariableFailed for a text that begins anew."""
    if event["type"] == "variable.delta":
        yield event["delta"]
    if event["type"] == "variable.restarted":
        raise VariableFailed("The call is asked again; what came before is void.", "restarted")


def _known(sent: Sequence[Variable], run: Any) -> None:
    for variable in sent:
        variable.id = run["variables"][variable.name]["id"]


def _not_sent(sent: Sequence[Variable], error: Exception) -> None:
    for variable in sent:
        variable._not_sent = error


def _written(value: Any) -> str:
    """A number, a boolean or JSON as it stands in a prompt. Raises TypeError for anything else."""
    return json.dumps(value, ensure_ascii=False)


def _is_parts(value: Any) -> bool:
    """Whether it is a list of texts and variables, which stand one a line."""
    return isinstance(value, list | tuple) and all(isinstance(part, str | Variable) for part in value)


def semantic_function(
    *,
    model: str,
    output: str | Mapping[str, Transforms] = "output",
    transform: Transforms = (),
    system: str | None = None,
    **chat: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a prompt of a function: its docstring is the template, `{{name}}` the parameter `name`.

    A call takes texts, variables, lists of both (one a line), numbers, booleans and JSON, and returns a variable named
    `output`; where `output` maps names to transforms, a tuple of variables. An `async def` is called the same, and its
    variable awaited. `system` is a system message, a template, too; `chat` has further fields of the request, such as
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
            inputs, lists = _apart(function.__name__, bound.arguments)
            asked = [{**message, "content": _spread(message["content"], lists)} for message in messages]
            made = app._collect({**chat, "model": model, "messages": asked}, inputs, outputs)
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


def _apart(function: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Argument], dict[str, list[str]]]:
    """The inputs of a call, the parts of lists apart; and for each list the names of its parts. Raises TypeError."""
    inputs: dict[str, Argument] = {}
    lists: dict[str, list[str]] = {}
    for name, value in arguments.items():
        if _is_parts(value):
            lists[name] = [f"{name}.{at}" for at in range(len(value))]
            inputs.update(zip(lists[name], value, strict=True))
            continue
        if not isinstance(value, str | Variable):
            try:
                value = _written(value)
            except TypeError:
                kind = type(value).__name__
                raise TypeError(
                    f"{function}: {name} must be a text, a Variable, a list of these, or JSON, not {kind}."
                ) from None
        inputs[name] = value
    return inputs, lists


def _spread(template: str, lists: Mapping[str, Sequence[str]]) -> str:
    """The template with each name of a list as the names of its parts, one a line."""

    def parts(match: re.Match[str]) -> str:
        if match[1] not in lists:
            return match[0]
        before = match[0][: match.start(1) - match.start() - 2]
        return before + "\n".join("{{" + name + "}}" for name in lists[match[1]])

    return _NAME.sub(parts, template) if lists else template
