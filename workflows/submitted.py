"""Reads what clients submit into the declared form: chat bodies with an object `understudy`, and bodies of `POST /v1/runs`.

A submitted step is a `chat` of `workflows.definition` that says what its variables are called and brings texts along.
Everything that can be refused without looking at stored state is refused here, with the field and the reason.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from workflows.criteria import Criteria
from workflows.definition import Output, StepSpec, submitted
from workflows.errors import WorkflowError, refuse_circle
from workflows.graph import Graph, Step
from workflows.names import StepId, VariableId, is_id, new_id, valid_app, valid_name
from workflows.template import names_in
from workflows.transform import Value, read_transforms, size_bytes
from workflows.unfolding import Unfolding

KEY = "understudy"
"""The object's name in a chat body; it never leaves for an engine."""
_FIELDS = ("app", "inputs", "submit", "criteria", "output", "outputs")
_MOST = 10**15
"""The most of a budget: more is none, and what is stored has 64 bits."""
How = Literal["retry", "skip", "value"]
_RUN_FIELDS = ("app", "steps", "inputs", "get", "budget", "background", "stream")
_WORKFLOW_RUN_FIELDS = ("workflow", "inputs", "budget", "background", "stream")
_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "reasoning_effort",
    "verbosity",
    "response_format",
)
"""Fields of a chat completion that say how an answer is to be, and not to what."""
_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
_NOT_OF_A_WORKFLOW = ("functions", "function_call", "audio", "logprobs", "prediction")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what may be submitted; the settings `workflows.*`."""

    max_steps: int
    max_value_bytes: int
    """The bytes of one text in `inputs`, in UTF-8."""


class Variable(str):
    """`{"variable": …}`: an id, or a name among the run's outputs or in the app."""


Source = str | Variable
"""The source of a name's value: a text, or a variable."""


@dataclass(frozen=True, slots=True)
class StepAsked:
    """One chat body that carries `understudy`."""

    spec: StepSpec
    app: str | None = None
    submit: bool = False
    """Answer 202 at once; otherwise the call waits for its inputs and answers."""
    criteria: Criteria | None = None

    @property
    def chat(self) -> Mapping[str, Any]:
        """The body without `understudy`; texts of its messages are templates."""
        return {**self.spec.params, "messages": list(self.spec.messages)}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of variables that it reads: outputs of its run, else the app's."""
        return tuple(name for name in self.spec.reads if not is_id("var", name))


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run; it is cancelled at the first one it meets. None: unlimited."""

    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RunAsked:
    """The body of `POST /v1/runs`: output names are unique, every name has a source, and there is no cycle."""

    app: str | None
    steps: tuple[StepAsked, ...]
    """In the order they came, called `s0`, `s1`, …"""
    get: Mapping[str, Criteria]
    """By output name. If nothing was said and the client waits: each output that no step reads, for latency."""
    budget: Budget
    background: bool
    stream: bool

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of all outputs."""
        return tuple(name for step in self.steps for name in step.spec.writes)

    @property
    def from_app(self) -> tuple[str, ...]:
        """Names that the run reads and does not write: the app's, to be looked up before `build`."""
        read = dict.fromkeys(name for step in self.steps for name in step.names)
        written = frozenset(self.outputs)
        return tuple(name for name in read if name not in written)


def steps_of(specs: Iterable[StepSpec], variables: Mapping[str, VariableId]) -> tuple[Step, ...]:
    """The steps of submitted ones. `variables` has an id for each name that they read or write."""
    definition = submitted(specs)
    ids = {name: name for step in definition.steps.values() for name in step.reads if is_id("var", name)}
    unfolded = Unfolding("", definition, {}, {}, known={**ids, **variables}).begin().graph()
    return tuple(unfolded.steps[name] for name in definition.steps)


@dataclass(frozen=True, slots=True)
class Built:
    """A run's graph with ids, as it is about to be stored."""

    graph: Graph
    variables: Mapping[str, VariableId]
    """Ids of the run's outputs by name."""
    gets: Mapping[VariableId | StepId, Criteria]
    """The variables and steps that were asked for."""


def build(asked: RunAsked, from_app: Mapping[str, VariableId]) -> Built:
    """The graph of a run with new ids; `from_app` has an id for each of `asked.from_app`."""
    variables = {name: new_id("var") for name in asked.outputs}
    graph = Graph(steps_of((step.spec for step in asked.steps), {**from_app, **variables}))
    return Built(graph, variables, {variables[name]: criteria for name, criteria in asked.get.items()})


@dataclass(frozen=True, slots=True)
class WorkflowAsked:
    """A call of a declared workflow."""

    name: str
    inputs: object
    """As they came, for workflows.called.read_inputs; None if there are none."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a chat completion for the output's chat."""
    budget: Budget = field(default_factory=Budget)
    background: bool = False
    stream: bool = False


def read_workflow_call(body: Mapping[str, Any]) -> WorkflowAsked:
    """A chat body whose model is a workflow. Raises WorkflowError with `param` from the body's root."""
    refused = next((name for name in _NOT_OF_A_WORKFLOW if body.get(name)), None)
    if refused is not None:
        raise WorkflowError(
            f"A workflow takes no `{refused}`: it answers with a text, and its steps say what they ask.",
            param=refused,
            code="unsupported_field",
        )
    if body.get("n") not in (None, 1):
        raise WorkflowError(
            "A workflow gives one answer: `n` must be 1.", param="n", code="unsupported_field"
        )
    said = body.get(KEY)
    fields = {} if said is None else _object(said, KEY, ("inputs",))
    return WorkflowAsked(
        str(body.get("model")),
        fields.get("inputs"),
        {name: body[name] for name in _SAMPLING if body.get(name) is not None} | _tools(body),
        stream=_flag(body.get("stream"), "stream"),
    )


def _tools(body: Mapping[str, Any]) -> dict[str, Any]:
    """The client's tools, for the chat that answers; and what was called since the user's last message and what came of it,
    which follows the messages of that chat."""
    if not body.get("tools"):
        return {}
    messages = body.get("messages") or []
    last = max((at for at, each in enumerate(messages) if each.get("role") == "user"), default=-1)
    return {name: body[name] for name in _TOOLS if body.get(name) is not None} | {
        "messages": messages[last + 1 :]
    }


def read_workflow_run(body: Mapping[str, Any]) -> WorkflowAsked:
    """The body of `POST /v1/runs` that names a workflow. Raises WorkflowError with `param` from the body's root."""
    fields = _object(body, "", _WORKFLOW_RUN_FIELDS)
    name = fields.get("workflow")
    if not isinstance(name, str):
        raise WorkflowError("`workflow` must be the name of a workflow.", param="workflow")
    return WorkflowAsked(
        name,
        fields.get("inputs"),
        budget=_budget(fields.get("budget")),
        background=_flag(fields.get("background"), "background"),
        stream=_flag(fields.get("stream"), "stream"),
    )


def read_resolution(body: object, max_bytes: int) -> tuple[How, Value | None]:
    """Read what is to become of a step whose outcome nobody knows: asked again, skipped, or given a value."""
    fields = _object(body, "", ("action", "value"))
    action, value = fields.get("action"), fields.get("value")
    if action in ("retry", "skip") and value is None:
        return action, None
    if action is not None or value is None:
        raise WorkflowError(
            'Say {"action": "retry"}, {"action": "skip"} or {"value": …}.',
            param="action",
            code="invalid_value",
        )
    if not isinstance(value, str) and not (
        isinstance(value, list) and all(isinstance(item, str) for item in value)
    ):
        raise WorkflowError("`value` must be a text, or a list of texts.", param="value", code="invalid_type")
    if size_bytes(value) > max_bytes:
        raise WorkflowError(
            f"`value` is longer than the {max_bytes} bytes that one value may have.",
            param="value",
            code="value_too_large",
            status=413,
        )
    return "value", value


def read_step(body: Mapping[str, Any], limits: Limits, id: StepId = "s0") -> StepAsked:
    """A chat body that has the key `understudy`, as a call of its own; its step is called `id`.

    Raises WorkflowError; among others `unknown_name` for a name in its messages that neither `inputs` nor an app can have.
    """
    step = _read_step(body, limits, id, {})
    if step.submit and body.get("stream"):
        raise WorkflowError(
            "A call with `submit` is answered at once and has nothing to stream: stream the get of its variable.",
            param="stream",
        )
    if step.app is None:
        _refuse_unknown(step, ())
    refuse_circle(dict.fromkeys(step.spec.writes, step.spec.reads), param="messages")
    return step


def read_run(body: object, limits: Limits) -> RunAsked:
    """The body of `POST /v1/runs`. Raises WorkflowError with `param` from the body's root."""
    fields = _object(body, "", _RUN_FIELDS)
    background = _flag(fields.get("background"), "background")
    inputs = _inputs(fields.get("inputs"), "inputs", limits)
    steps = _steps(fields.get("steps"), limits, inputs)
    app = _shared_app(_app(fields.get("app"), "app"), steps)
    produced = _produced(steps, inputs)
    for index, step in enumerate(steps if app is None else ()):
        with _within(f"steps[{index}]"):
            _refuse_unknown(step, produced)
    refuse_circle({name: step.spec.reads for name, step in produced.items()}, param="steps")
    return RunAsked(
        app,
        steps,
        _gets(fields.get("get"), steps, produced, waits=not background),
        _budget(fields.get("budget")),
        background,
        _flag(fields.get("stream"), "stream"),
    )


# ---- one call


def _read_step(
    body: Mapping[str, Any], limits: Limits, id: StepId, of_run: Mapping[str, Source]
) -> StepAsked:
    """`of_run`: what the whole run's inputs say of names."""
    fields = _object(body.get(KEY), KEY, _FIELDS)
    app = _app(fields.get("app"), f"{KEY}.app")
    submit = _flag(fields.get("submit"), f"{KEY}.submit")
    outputs = _outputs(fields)
    if submit and not outputs:
        raise WorkflowError(
            "A call with `submit` writes at least one variable: name it in `understudy.output`.",
            param=f"{KEY}.output",
        )
    inputs = _inputs(fields.get("inputs"), f"{KEY}.inputs", limits)
    criteria = None if fields.get("criteria") is None else _criteria(fields["criteria"], f"{KEY}.criteria")
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise WorkflowError("`messages` must be a list of messages.", param="messages")
    if outputs and body.get("n") not in (None, 1):
        raise WorkflowError("A call that writes variables has one answer: `n` must be 1.", param="n")
    found = {name: inputs.get(name, Variable(name)) for name in names_in(messages)}
    found = {
        name: of_run.get(source, source) if isinstance(source, Variable) else source
        for name, source in found.items()
    }
    sources = {name: str(source) for name, source in found.items() if isinstance(source, Variable)}
    spec = StepSpec(
        id,
        "chat",
        messages=tuple(messages),
        reads=tuple(dict.fromkeys(sources.values())),
        params={key: value for key, value in body.items() if key not in (KEY, "messages")},
        outputs=outputs,
        given={name: source for name, source in found.items() if not isinstance(source, Variable)},
        sources=sources,
    )
    return StepAsked(spec, app, submit, criteria)


def _refuse_unknown(step: StepAsked, known: Container[str]) -> None:
    unknown = next((name for name in step.names if name not in known), None)
    if unknown is None:
        return
    renamed = any(source == unknown != name for name, source in step.spec.sources.items())
    raise WorkflowError(
        f"Nothing is called {unknown!r}: it is not in `inputs`, no step of this request writes it, and there is no `app`.",
        param=f"{KEY}.inputs" if renamed else "messages",
        code="unknown_name",
    )


def _outputs(fields: Mapping[str, Any]) -> tuple[Output, ...]:
    one, several = fields.get("output"), fields.get("outputs")
    if one is not None and several is not None:
        raise WorkflowError("Give `output` or `outputs`, not both.", param=f"{KEY}.outputs")
    if one is not None:
        return (_output(one, f"{KEY}.output"),)
    if several is None:
        return ()
    if not isinstance(several, list):
        raise WorkflowError(f"`{KEY}.outputs` must be a list.", param=f"{KEY}.outputs")
    outputs: dict[str, Output] = {}
    for index, each in enumerate(several):
        place = f"{KEY}.outputs[{index}]"
        output = _output(each, place)
        if output.name in outputs:
            raise _duplicate(output.name, f"{place}.name")
        outputs[output.name] = output
    return tuple(outputs.values())


def _output(value: object, param: str) -> Output:
    fields = _object(value, param, ("name", "transform"))
    name = _name(fields.get("name"), f"{param}.name")
    return Output(name, read_transforms(fields.get("transform") or [], f"{param}.transform"))


def _inputs(value: object, param: str, limits: Limits) -> Mapping[str, Source]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WorkflowError(f"`{param}` must be an object.", param=param)
    return {
        _name(name, param): _input(each, f"{param}.{name}", limits.max_value_bytes)
        for name, each in value.items()
    }


def _input(value: object, param: str, max_bytes: int) -> Source:
    if isinstance(value, str):
        if len(value) > max_bytes or len(value.encode("utf-8", "surrogatepass")) > max_bytes:
            raise WorkflowError(
                f"`{param}` is longer than the {max_bytes} bytes that one value may have.",
                param=param,
                code="value_too_large",
                status=413,
            )
        return value
    if isinstance(value, dict) and value.keys() == {"variable"}:
        variable = value["variable"]
        if is_id("var", variable) or valid_name(variable):
            return Variable(variable)
    raise WorkflowError(
        f'`{param}` must be a text or {{"variable": …}} with an id or a name of a variable.', param=param
    )


# ---- a run


def _steps(value: object, limits: Limits, inputs: Mapping[str, Source]) -> tuple[StepAsked, ...]:
    if not isinstance(value, list) or not value:
        raise WorkflowError("`steps` must be a list of at least one chat body.", param="steps")
    if len(value) > limits.max_steps:
        raise WorkflowError(
            f"The run has {len(value)} steps; {limits.max_steps} are allowed.",
            param="steps",
            code="too_many_steps",
        )
    return tuple(_step(index, each, limits, inputs) for index, each in enumerate(value))


def _step(index: int, value: object, limits: Limits, inputs: Mapping[str, Source]) -> StepAsked:
    place = f"steps[{index}]"
    if not isinstance(value, dict):
        raise WorkflowError(f"`{place}` must be a chat body.", param=place)
    with _within(place):
        step = _read_step(value, limits, f"s{index}", inputs)
    if not step.spec.outputs:
        raise WorkflowError(
            f"`{place}` writes no variable: name one in `understudy.output`.", param=f"{place}.{KEY}.output"
        )
    return step


@contextmanager
def _within(place: str) -> Iterator[None]:
    """Errors name their field from further out."""
    try:
        yield
    except WorkflowError as error:
        raise error.within(place) from None


def _shared_app(app: str | None, steps: Sequence[StepAsked]) -> str | None:
    """A run has one app, wherever it is named."""
    for index, step in enumerate(steps):
        if step.app is not None:
            if app is not None and step.app != app:
                raise WorkflowError(
                    "All steps of a run belong to one app.", param=f"steps[{index}].{KEY}.app"
                )
            app = step.app
    return app


def _produced(steps: Sequence[StepAsked], inputs: Container[str]) -> Mapping[str, StepAsked]:
    """Which step writes an output, by its name."""
    produced: dict[str, StepAsked] = {}
    for index, step in enumerate(steps):
        for name in step.spec.writes:
            if name in produced or name in inputs:
                raise _duplicate(name, f"steps[{index}].{KEY}.output")
            produced[name] = step
    return produced


def _gets(
    value: object, steps: Sequence[StepAsked], produced: Container[str], *, waits: bool
) -> Mapping[str, Criteria]:
    if value is not None and not isinstance(value, dict):
        raise WorkflowError("`get` must be an object of output names with criteria.", param="get")
    gets = {name: _criteria(each, f"get.{name}") for name, each in (value or {}).items()}
    unknown = next((name for name in gets if name not in produced), None)
    if unknown is not None:
        raise WorkflowError(
            f"No step writes {str(unknown)[:64]!r}.", param=f"get.{str(unknown)[:64]}", code="unknown_name"
        )
    for step in steps:
        if step.criteria is not None:
            for name in step.spec.writes:
                gets.setdefault(name, step.criteria)
    if not gets and waits:
        gets = dict.fromkeys(_unread(steps), Criteria.LATENCY)
    return gets


def _unread(steps: Sequence[StepAsked]) -> list[str]:
    """Return the names that are written and that no step reads."""
    read = {name for step in steps for name in step.names}
    return [name for step in steps for name in step.spec.writes if name not in read]


def _budget(value: object) -> Budget:
    if value is None:
        return Budget()
    fields = _object(value, "budget", ("usd", "tokens", "seconds"))
    for name, each in fields.items():
        number = isinstance(each, int if name == "tokens" else int | float) and not isinstance(each, bool)
        if each is not None and not (number and 0 < each <= _MOST):
            raise WorkflowError(
                f"`budget.{name}` must be a number above zero, and at most {_MOST}.", param=f"budget.{name}"
            )
    return Budget(**fields)


# ---- fields


def _duplicate(name: str, param: str) -> WorkflowError:
    return WorkflowError(
        f"{name!r} is written twice: a variable is written once.", param=param, code="duplicate_output"
    )


def _object(value: object, param: str, fields: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        where = f"`{param}`" if param else "The body"
        raise WorkflowError(f"{where} must be an object.", param=param or None)
    unknown = next((key for key in value if key not in fields), None)
    if unknown is not None:
        place = f"{param}.{unknown}" if param else str(unknown)
        raise WorkflowError(
            f"There is no field `{place[:200]}`; there are {', '.join(fields)}.",
            param=place[:200],
            code="unknown_field",
        )
    return value


def _app(value: object, param: str) -> str | None:
    if value is None:
        return None
    if not valid_app(value):
        raise WorkflowError(f"`{param}` must be 1 to 64 of A-Z a-z 0-9 _ . : -", param=param)
    return str(value)


def _name(value: object, param: str) -> str:
    if not valid_name(value) or is_id("var", value):
        raise WorkflowError(
            f"`{param}`: a name has 1 to 64 of A-Z a-z 0-9 _ . - and begins with a letter or _; "
            "it does not look like an id.",
            param=param,
        )
    return str(value)


def _criteria(value: object, param: str) -> Criteria:
    if isinstance(value, str) and value in Criteria.__members__.values():
        return Criteria(value)
    raise WorkflowError(f"`{param}` must be one of {', '.join(Criteria)}.", param=param)


def _flag(value: object, param: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise WorkflowError(f"`{param}` must be true or false.", param=param)
    return bool(value)
