"""Reads what a client submits: a chat body with its object `understudy`, and the body of `POST /v1/runs`.

Everything that can be refused without looking at stored state is refused here, with the field and the reason.
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from workflows.criteria import Criteria
from workflows.errors import WorkflowError
from workflows.names import is_id, valid_app, valid_name
from workflows.template import names_in
from workflows.transform import Transform, Value, read_transforms, size_bytes

KEY = "understudy"
"""The object's name in a chat body; it never leaves for an engine."""
_FIELDS = ("app", "inputs", "submit", "criteria", "output", "outputs")
_MOST = 10**15
"""Of a budget: more is none, and what is stored has 64 bits."""
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
_NOT_OF_A_WORKFLOW = ("tools", "tool_choice", "functions", "function_call", "audio", "logprobs", "prediction")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what may be submitted; the settings `workflows.*`."""

    max_steps: int
    max_value_bytes: int
    """Of one text in `inputs`, in UTF-8."""


@dataclass(frozen=True, slots=True)
class Ref:
    """`{"variable": …}`: an id, or a name among the run's outputs or in the app."""

    variable: str

    @property
    def named(self) -> bool:
        """Whether it is a name and not an id."""
        return not is_id("var", self.variable)


@dataclass(frozen=True, slots=True)
class Output:
    """One variable that a step writes."""

    name: str
    transforms: tuple[Transform, ...] = ()


@dataclass(frozen=True, slots=True)
class Submitted:
    """The object `understudy` of one chat body."""

    app: str | None
    inputs: Mapping[str, str | Ref]
    submit: bool
    """Answer 202 at once; otherwise the call waits for its inputs and answers."""
    criteria: Criteria | None
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class StepAsked:
    """One chat body that carries `understudy`."""

    chat: Mapping[str, Any]
    """The body without `understudy`; texts of its messages are templates."""
    submitted: Submitted
    sources: Mapping[str, str | Ref]
    """Where the value of each name in its messages comes from: a text, an id, or a name (`Ref.named`)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of variables that it reads: outputs of its run, else the app's."""
        refs = (source for source in self.sources.values() if isinstance(source, Ref))
        return tuple(dict.fromkeys(ref.variable for ref in refs if ref.named))


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may use; it is cancelled at the first limit it meets. None: unlimited."""

    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RunAsked:
    """The body of `POST /v1/runs`: output names are unique, every name has a source, and there is no cycle."""

    app: str | None
    steps: tuple[StepAsked, ...]
    """In the order they came. Names that the run's `inputs` have are replaced by those in `sources`."""
    get: Mapping[str, Criteria]
    """By output name. Where nothing was said and the client waits: each output that no step reads, for latency."""
    budget: Budget
    background: bool
    stream: bool

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of all outputs."""
        return tuple(output.name for step in self.steps for output in step.submitted.outputs)

    @property
    def from_app(self) -> tuple[str, ...]:
        """Names that the run reads and does not write: the app's, to be looked up before `graph.build`."""
        read = dict.fromkeys(name for step in self.steps for name in step.names)
        return tuple(name for name in read if name not in frozenset(self.outputs))


@dataclass(frozen=True, slots=True)
class WorkflowAsked:
    """A call of a declared workflow."""

    name: str
    inputs: object
    """As they came, for workflows.called.read_inputs; None where there are none."""
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
        {name: body[name] for name in _SAMPLING if body.get(name) is not None},
        stream=_flag(body.get("stream"), "stream"),
    )


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
    """What is to become of a step whose outcome nobody knows: asked again, skipped, or given a value."""
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


def read_submitted(value: object, limits: Limits) -> Submitted:
    """The object `understudy` of a chat body. Raises WorkflowError with `param` from the body's root."""
    fields = _object(value, KEY, _FIELDS)
    app = _app(fields.get("app"), f"{KEY}.app")
    submit = _flag(fields.get("submit"), f"{KEY}.submit")
    outputs = _outputs(fields)
    if submit and not outputs:
        raise WorkflowError(
            "A call with `submit` writes at least one variable: name it in `understudy.output`.",
            param=f"{KEY}.output",
        )
    return Submitted(
        app,
        _inputs(fields.get("inputs"), f"{KEY}.inputs", limits),
        submit,
        None if fields.get("criteria") is None else _criteria(fields["criteria"], f"{KEY}.criteria"),
        outputs,
    )


def read_step(body: Mapping[str, Any], limits: Limits) -> StepAsked:
    """A chat body that has the key `understudy`, as a call of its own.

    Raises WorkflowError; among others `unknown_name` for a name in its messages that neither `inputs` nor an app can have.
    """
    step = _read_step(body, limits)
    if step.submitted.submit and body.get("stream"):
        raise WorkflowError(
            "A call with `submit` is answered at once and has nothing to stream: stream the get of its variable.",
            param="stream",
        )
    if step.submitted.app is None:
        _refuse_unknown(step, frozenset())
    own = {output.name for output in step.submitted.outputs}
    itself = next((name for name in step.names if name in own), None)
    if itself is not None:
        raise cycle([itself, itself], "messages")
    return step


def read_run(body: object, limits: Limits) -> RunAsked:
    """The body of `POST /v1/runs`. Raises WorkflowError with `param` from the body's root."""
    fields = _object(body, "", _RUN_FIELDS)
    background = _flag(fields.get("background"), "background")
    inputs = _inputs(fields.get("inputs"), "inputs", limits)
    steps = _steps(fields.get("steps"), limits)
    app = _shared_app(_app(fields.get("app"), "app"), steps)
    produced = _produced(steps, inputs)
    steps = _with_sources(steps, inputs, frozenset(produced) if app is None else None)
    _refuse_cycle(steps, produced)
    return RunAsked(
        app,
        steps,
        _gets(fields.get("get"), steps, produced, waits=not background),
        _budget(fields.get("budget")),
        background,
        _flag(fields.get("stream"), "stream"),
    )


# ---- one call


def _read_step(body: Mapping[str, Any], limits: Limits) -> StepAsked:
    submitted = read_submitted(body.get(KEY), limits)
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise WorkflowError("`messages` must be a list of messages.", param="messages")
    n = body.get("n")
    if submitted.outputs and n not in (None, 1):
        raise WorkflowError("A call that writes variables has one answer: `n` must be 1.", param="n")
    sources = {name: submitted.inputs.get(name, Ref(name)) for name in names_in(messages)}
    return StepAsked({key: body[key] for key in body if key != KEY}, submitted, sources)


def _refuse_unknown(step: StepAsked, known: frozenset[str]) -> None:
    unknown = next((name for name in step.names if name not in known), None)
    if unknown is None:
        return
    in_inputs = any(ref == Ref(unknown) for ref in step.submitted.inputs.values())
    raise WorkflowError(
        f"Nothing is called {unknown!r}: it is not in `inputs`, no step of this request writes it, and there is no `app`.",
        param=f"{KEY}.inputs" if in_inputs else "messages",
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


def _inputs(value: object, param: str, limits: Limits) -> Mapping[str, str | Ref]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WorkflowError(f"`{param}` must be an object.", param=param)
    return {
        _name(name, param): _input(each, f"{param}.{name}", limits.max_value_bytes)
        for name, each in value.items()
    }


def _input(value: object, param: str, max_bytes: int) -> str | Ref:
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
            return Ref(variable)
    raise WorkflowError(
        f'`{param}` must be a text or {{"variable": …}} with an id or a name of a variable.', param=param
    )


# ---- a run


def _steps(value: object, limits: Limits) -> tuple[StepAsked, ...]:
    if not isinstance(value, list) or not value:
        raise WorkflowError("`steps` must be a list of at least one chat body.", param="steps")
    if len(value) > limits.max_steps:
        raise WorkflowError(
            f"The run has {len(value)} steps; {limits.max_steps} are allowed.",
            param="steps",
            code="too_many_steps",
        )
    return tuple(_step(index, each, limits) for index, each in enumerate(value))


def _step(index: int, value: object, limits: Limits) -> StepAsked:
    place = f"steps[{index}]"
    if not isinstance(value, dict):
        raise WorkflowError(f"`{place}` must be a chat body.", param=place)
    try:
        step = _read_step(value, limits)
    except WorkflowError as error:
        raise error.within(place) from None
    if not step.submitted.outputs:
        raise WorkflowError(
            f"`{place}` writes no variable: name one in `understudy.output`.", param=f"{place}.{KEY}.output"
        )
    return step


def _shared_app(app: str | None, steps: Sequence[StepAsked]) -> str | None:
    """A run has one app, wherever it is named."""
    for index, step in enumerate(steps):
        if step.submitted.app is not None:
            if app is not None and step.submitted.app != app:
                raise WorkflowError(
                    "All steps of a run belong to one app.", param=f"steps[{index}].{KEY}.app"
                )
            app = step.submitted.app
    return app


def _produced(steps: Sequence[StepAsked], inputs: Mapping[str, str | Ref]) -> Mapping[str, int]:
    """Which step writes an output, by its name."""
    produced: dict[str, int] = {}
    for index, step in enumerate(steps):
        for output in step.submitted.outputs:
            if output.name in produced or output.name in inputs:
                raise _duplicate(output.name, f"steps[{index}].{KEY}.output")
            produced[output.name] = index
    return produced


def _with_sources(
    steps: Sequence[StepAsked], inputs: Mapping[str, str | Ref], known: frozenset[str] | None
) -> tuple[StepAsked, ...]:
    """The steps with the run's inputs among their sources. `known`: the names that there are; None: an app may have more."""
    found = []
    for index, step in enumerate(steps):
        sources = {
            name: inputs.get(source.variable, source) if isinstance(source, Ref) else source
            for name, source in step.sources.items()
        }
        found.append(replace(step, sources=sources))
        if known is not None:
            try:
                _refuse_unknown(found[-1], known)
            except WorkflowError as error:
                raise error.within(f"steps[{index}]") from None
    return tuple(found)


def _refuse_cycle(steps: Sequence[StepAsked], produced: Mapping[str, int]) -> None:
    before = {
        index: [produced[name] for name in step.names if name in produced] for index, step in enumerate(steps)
    }
    try:
        graphlib.TopologicalSorter(before).prepare()
    except graphlib.CycleError as error:
        names = list(_names_around(error.args[1], steps))
        raise cycle([*names, names[0]], "steps") from None


def _names_around(circle: Sequence[int], steps: Sequence[StepAsked]) -> Iterator[str]:
    """The variable by which each step of a circle feeds the next."""
    for step, after in itertools.pairwise(circle):
        written = {output.name for output in steps[step].submitted.outputs}
        yield next(name for name in steps[after].names if name in written)


def _gets(
    value: object, steps: Sequence[StepAsked], produced: Mapping[str, int], *, waits: bool
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
        if step.submitted.criteria is not None:
            for output in step.submitted.outputs:
                gets.setdefault(output.name, step.submitted.criteria)
    if not gets and waits:
        read = {name for step in steps for name in step.names}
        gets = {name: Criteria.LATENCY for name in produced if name not in read}
    return gets


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


def cycle(names: Sequence[str], param: str | None = None) -> WorkflowError:
    """The error of a circle of variables, the first name also last."""
    shown = " -> ".join(names if len(names) <= 20 else [*names[:19], "…", names[-1]])
    return WorkflowError(f"Variables feed each other in a circle: {shown}.", param=param, code="cycle")


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
