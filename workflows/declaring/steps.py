"""One step of a definition, by its kind. What its names refer to is `workflows.declaring.names`' to check."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workflows.declaring.faults import meant
from workflows.declaring.fields import NAME_REMEDY, Fields, is_name
from workflows.declaring.world import LOCAL, Does, World
from workflows.definition import ITEM, KINDS, SO_FAR, Kind, OnError, Splits, StepSpec
from workflows.errors import WorkflowError
from workflows.transform import read_transforms

Read = dict[str, Any]
"""Fields of a StepSpec."""

SAMPLING = (
    "frequency_penalty",
    "logit_bias",
    "max_completion_tokens",
    "max_tokens",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "stop",
    "temperature",
    "top_p",
    "verbosity",
)
"""Fields of a chat body that a step may have; those of one engine only stand under `params`."""
_NEVER = ("messages", "model", "n", "stream", "stream_options", "tools", "tool_choice", "understudy")
"""Fields of a chat body that are the workflow's own, or that a step cannot answer with."""
_EVERYWHERE = ("after", "if", "unless")
_CHAT = ("model", "params", "on_error", "warm", *SAMPLING)
_TOOL = ("tool", "args", "effects", "idempotent")
TESTS = ("equals", "matches", "contains", "above")
FIELDS: Mapping[Kind, tuple[str, ...]] = {
    "chat": ("chat", "splits", "items", *_CHAT),
    "split": ("split", "tokens", "overlap", "component"),
    "embed": ("embed", "component"),
    "ingest": ("ingest", "collection", "component"),
    "search": ("search", "in", "k", "component"),
    "rerank": ("rerank", "by", "k", "component"),
    "tool": _TOOL,
    "map": ("map", "chat", *_CHAT, *_TOOL),
    "fold": ("fold", "chat", "first", "initial", *_CHAT),
    "loop": ("loop", "first", "initial", "until", "max_rounds", *_CHAT),
    "when": ("when", *TESTS),
    "first_of": ("first_of",),
    "merge": ("merge", "how", "k"),
    "transform": ("transform", "apply"),
}
"""The fields of a step of each kind, beside `after`, `if` and `unless`; its own name is what it works on."""
_MOST_TOKENS = 8192
_MOST_RETRIES = 3
_MOST_ROUNDS = 32
_ROUNDS = 5
"""The rounds of a `loop` that does not say."""
_WITHIN: frozenset[Kind] = frozenset({"chat", "tool"})
"""Kinds whose names are fields of `map` and `fold`, too."""
DEFAULT_K = 5
DEFAULT_TOKENS = 256


def read_step(fields: Fields, world: World, model: str) -> StepSpec | None:
    """One step; None if not even its kind is known. `model`: where the step names none."""
    kind = _kind(fields)
    if kind is None:
        return None
    fields.known((*FIELDS[kind], *_EVERYWHERE))
    read = _READERS[kind](fields, world, model)
    return StepSpec(
        fields.step,
        kind,
        **read,
        after=fields.steps("after"),
        condition=_condition(fields),
    )


def _kind(fields: Fields) -> Kind | None:
    found = [kind for kind in KINDS if kind in fields.given]
    if len(found) > 1:
        found = [kind for kind in found if kind not in _WITHIN]
    if not found:
        known = ", ".join(KINDS)
        near = next((meant(str(key), KINDS) for key in fields.given if "mean" in meant(str(key), KINDS)), "")
        fields.fault("", "nothing says what the step does", near or f"write one of {known}")
        return None
    if len(found) > 1:
        fields.fault("", f"it is {' and '.join(found)} at once", "make it one step each")
        return None
    return found[0]


def _condition(fields: Fields) -> tuple[str, bool] | None:
    named = {field: fields.steps(field) for field in ("if", "unless") if fields.has(field)}
    if len(named) > 1 or any(len(steps) > 1 for steps in named.values()):
        fields.fault("unless" if len(named) > 1 else next(iter(named)), "is a second condition", "keep one")
    for field, steps in named.items():
        if steps:
            return steps[0], field == "if"
    return None


# ---- chats


def _chat(fields: Fields, world: World, model: str) -> Read:
    messages = fields.messages("chat")
    splits = _splits(fields)
    items = fields.number("items", 1, world.max_items, 0) or None
    if items is not None and splits is None:
        fields.fault("items", "an answer that is not split has no items", "add `splits`, or leave it out")
    names = fields.without_places("chat", fields.names_in("chat", messages))
    return {
        "messages": messages,
        "reads": names,
        "splits": splits,
        "items": items,
        **_asked(fields, world, model),
    }


def _asked(fields: Fields, world: World, model: str) -> Read:
    """Read who is asked, and with which further fields."""
    named = fields.text("model", model)
    if not named:
        fields.fault("model", "is missing", "name a model here, or one for all steps beside `steps`")
    elif not world.is_model(named):
        fields.fault(
            "model", "there is no such model", "name one of `models`, or set `upstream`", value=named
        )
    params = {field: fields.given[field] for field in SAMPLING if field in fields.given}
    # It has no effect: workflows that were written when beginnings of prompts were computed early stay valid.
    fields.flag("warm")
    return {"model": named, "params": {**params, **_params(fields)}, "on_error": _on_error(fields)}


def _on_error(fields: Fields) -> OnError | None:
    """Read what becomes of the step if its chat fails."""
    given = fields.given.get("on_error")
    if given is None:
        return None
    wrong = _wrong_on_error(fields, given)
    if wrong is None:
        return OnError(given.get("retry", 0), given.get("default"), given.get("skip", False))
    where, problem, value = wrong
    remedy = f"write {{retry: 0 to {_MOST_RETRIES}, default: a text or a list of texts}}, or skip: true for the default"
    fields.fault(where, problem, remedy, value=value)
    return None


def _wrong_on_error(fields: Fields, given: Any) -> tuple[str, str, Any] | None:
    """Return the place, the problem and the value of what is wrong with `on_error`; None if nothing is."""
    if not isinstance(given, dict) or not given or given.keys() - {"retry", "default", "skip"}:
        return "on_error", "is not understood", given
    retry, default, skip = given.get("retry", 0), given.get("default"), given.get("skip", False)
    if isinstance(retry, bool) or not isinstance(retry, int) or not 0 <= retry <= _MOST_RETRIES:
        return "on_error.retry", "is out of range", retry
    problem = _wrong_default(fields, default) if default is not None else ""
    if problem:
        return "on_error.default", problem, default
    if not isinstance(skip, bool) or (skip and (default is not None or _kind(fields) != "chat")):
        return "on_error.skip", "stands beside a default, or is not of a single chat", skip
    return None


def _wrong_default(fields: Fields, default: Any) -> str:
    if "splits" not in fields.given:
        return "" if isinstance(default, str) else "is no text"
    texts = isinstance(default, list) and all(isinstance(each, str) for each in default)
    return "" if texts else "is no list of texts, as the answer is split"


def _params(fields: Fields) -> Mapping[str, Any]:
    value = fields.given.get("params")
    if value is None:
        return {}
    if not isinstance(value, dict):
        fields.fault("params", "is no mapping", "write fields of the chat body", value=value)
        return {}
    for name in _NEVER:
        if name in value:
            fields.fault(f"params.{name}", "is not a step's to say", "leave it out")
    return value


def _splits(fields: Fields) -> Splits | None:
    value = fields.given.get("splits")
    if value is None:
        return None
    if value in ("json", "lines"):
        return Splits(value)
    if isinstance(value, dict) and value.keys() == {"regex"}:
        if _is_pattern(fields, "splits.regex", value["regex"]):
            return Splits("regex", value["regex"])
        return None
    fields.fault(
        "splits",
        "is no way to split an answer",
        "write json, lines or {regex: an expression of RE2}",
        value=value,
    )
    return None


def _map(fields: Fields, world: World, model: str) -> Read:
    over = _over(fields, "map")
    if fields.has("chat") and fields.has("tool"):
        fields.fault("tool", "a map asks a chat or a tool", "make it two steps")
    if fields.has("tool"):
        for field in ("chat", *_CHAT):
            if field in fields.given and field != "chat":
                fields.fault(field, "is of a chat, and this map calls a tool", "leave it out")
        return {"over": over, **_called(fields, world, (ITEM,))}
    for field in _TOOL:
        if field in fields.given:
            fields.fault(field, "is of a tool, and this map asks a chat", "leave it out")
    messages = fields.messages("chat")
    names = fields.without_places("chat", fields.names_in("chat", messages), (ITEM,))
    return {"over": over, "messages": messages, "reads": names, **_asked(fields, world, model)}


def _fold(fields: Fields, world: World, model: str) -> Read:
    messages = fields.messages("chat")
    first = fields.messages("first") if fields.has("first") else ()
    names = (
        *fields.without_places("chat", fields.names_in("chat", messages), (ITEM, SO_FAR)),
        *fields.without_places("first", fields.names_in("first", first), (ITEM, SO_FAR)),
    )
    return {
        "over": _over(fields, "fold"),
        "messages": messages,
        "first": first,
        "reads": tuple(dict.fromkeys(names)),
        "initial": fields.text("initial"),
        **_asked(fields, world, model),
    }


def _loop(fields: Fields, world: World, model: str) -> Read:
    messages = fields.messages("loop")
    first = fields.messages("first") if fields.has("first") else ()
    names = (
        *fields.without_places("loop", fields.names_in("loop", messages), (SO_FAR,)),
        *fields.without_places("first", fields.names_in("first", first), (SO_FAR,)),
    )
    until = fields.given.get("until")
    if not isinstance(until, dict) or until.keys() - set(TESTS):
        fields.fault(
            "until", "is no test", f"write {{contains: DONE}}, or another of {', '.join(TESTS)}", value=until
        )
        until = {}
    return {
        "messages": messages,
        "first": first,
        "reads": tuple(dict.fromkeys(names)),
        "initial": fields.text("initial"),
        "test": _test(fields, until, "until."),
        "max_rounds": fields.number("max_rounds", 1, _MOST_ROUNDS, _ROUNDS),
        **_asked(fields, world, model),
    }


# ---- components


def _tool(fields: Fields, world: World, model: str) -> Read:
    return _called(fields, world, ())


def _called(fields: Fields, world: World, places: Sequence[str]) -> Read:
    args = fields.given.get("args")
    if args is not None and not isinstance(args, dict):
        fields.fault("args", "is no mapping", "write the tool's arguments by name", value=args)
        args = None
    names = fields.without_places("args", fields.names_below("args", args), places)
    return {
        "component": _component(fields, world, "tool", "tool"),
        "args": args or {},
        "reads": names,
        "effects": bool(fields.flag("effects")),
        "idempotent": bool(fields.flag("idempotent")),
    }


def _split(fields: Fields, world: World, model: str) -> Read:
    tokens = fields.number("tokens", 1, _MOST_TOKENS, DEFAULT_TOKENS)
    overlap = fields.number("overlap", 0, _MOST_TOKENS, 0)
    if overlap >= tokens:
        fields.fault("overlap", "is not below `tokens`", f"write less than {tokens}", value=overlap)
    named = _component(fields, world, "component", "embed") if fields.has("component") else ""
    # Whose tokens are counted matters little: where several could, the house's are.
    component = named or world.default("embed") or LOCAL
    return {"over": _over(fields, "split"), "tokens": tokens, "overlap": overlap, "component": component}


def _embed(fields: Fields, world: World, model: str) -> Read:
    return {"over": _over(fields, "embed"), "component": _component(fields, world, "component", "embed")}


def _ingest(fields: Fields, world: World, model: str) -> Read:
    collection = fields.text("collection", required=fields.has("collection"))
    if collection and not is_name(collection):
        fields.fault("collection", "is no name", NAME_REMEDY, value=collection)
    # Without one it is the default, or that of the vectors it is given: `names` knows which.
    component = _component(fields, world, "component", "embed") if fields.has("component") else ""
    return {"over": _over(fields, "ingest"), "collection": collection, "component": component}


def _search(fields: Fields, world: World, model: str) -> Read:
    read: Read = {"over": _over(fields, "search"), "k": fields.number("k", 1, world.max_items, DEFAULT_K)}
    where = fields.given.get("in")
    if isinstance(where, dict) and where.keys() == {"collection"} and is_name(where["collection"]):
        read["index"] = f"collection:{where['collection']}"
        read["component"] = _component(fields, world, "component", "embed")
    elif isinstance(where, str) and "{{" in where:
        index = fields.reference("in")
        read["index"] = f"step:{index}"
        read["reads"] = () if index is None else (index,)
        read["component"] = fields.text("component")
    elif isinstance(where, str):
        read["component"] = _component(fields, world, "in", "search")
        read["index"] = f"component:{where}"
    else:
        problem = "is missing" if where is None else "is nothing to search in"
        remedy = 'write "{{an ingest step}}", {collection: its name} or the name of a search component'
        fields.fault("in", problem, remedy, value=where)
    return read


def _rerank(fields: Fields, world: World, model: str) -> Read:
    by = fields.reference("by")
    return {
        "over": _over(fields, "rerank"),
        "by": by or "",
        "reads": () if by is None else (by,),
        "k": fields.number("k", 1, world.max_items, DEFAULT_K),
        "component": _component(fields, world, "component", "rerank"),
    }


def default_component(fields: Fields, world: World, field: str, does: Does) -> str:
    """Return who does it if a step names nobody. A fault if there is nobody, or more than one."""
    default = world.default(does)
    if default is None:
        several = ", ".join(world.who(does))
        remedy = f"name one of {several}" if several else f"add a component of kind {does} to `components`"
        fields.fault(field, f"nothing says which component is to {_VERBS[does]}", remedy)
    return default or ""


def _component(fields: Fields, world: World, field: str, does: Does) -> str:
    """Return who does it: as named, else the default."""
    named = fields.text(field)
    if named:
        known = world.who(does)
        if named not in known:
            problem = (
                f"it does not {_VERBS[does]}" if world.does(named) else "there is no component of this name"
            )
            remedy = meant(named, known) if known else f"add a component of kind {does} to `components`"
            fields.fault(field, problem, remedy, value=named)
        return named
    if field == "tool":
        fields.fault(field, "is missing", "name a component of kind tool")
        return ""
    return default_component(fields, world, field, does)


_VERBS: Mapping[Does, str] = {
    "embed": "embed",
    "rerank": "rerank",
    "search": "search",
    "tool": "answer calls as a tool",
}


# ---- what needs no component


def _when(fields: Fields, world: World, model: str) -> Read:
    return {"over": _over(fields, "when"), "test": _test(fields, fields.given, "")}


def _test(fields: Fields, given: Mapping[str, Any], within: str) -> tuple[str, str | float]:
    """The one test among what was given; `within`: where that stands."""
    tests = [test for test in TESTS if test in given]
    if len(tests) != 1:
        problem = "there is no test" if not tests else f"it has {len(tests)} tests"
        fields.fault(within.rstrip("."), problem, f"write one of {', '.join(TESTS)}")
        return ("", "")
    (test,) = tests
    argument, place = given[test], f"{within}{test}"
    if test == "above":
        if isinstance(argument, bool) or not isinstance(argument, int | float) or not math.isfinite(argument):
            fields.fault(place, "is no number", "write a number", value=argument)
            argument = 0.0
        return (test, float(argument))
    if test == "matches" and not _is_pattern(fields, place, argument):
        return (test, "")
    return (test, Fields(fields.faults, fields.step, {place: argument}).text(place, required=True))


def _is_pattern(fields: Fields, field: str, value: object) -> bool:
    try:
        read_transforms([{"regex": value}], field)
    except WorkflowError as error:
        reason = error.message.partition(".regex` ")[2] or error.message
        fields.fault(field, reason.rstrip("."), "write an expression of RE2", value=value)
        return False
    return True


def _first_of(fields: Fields, world: World, model: str) -> Read:
    return {"over": fields.references("first_of")}


def _merge(fields: Fields, world: World, model: str) -> Read:
    how = fields.word("how", ("concat", "top"), "concat")
    if how == "concat" and fields.has("k"):
        fields.fault("k", "`concat` keeps everything", "write `how: top`, or leave it out")
    k = fields.number("k", 1, world.max_items, 0)
    return {"over": fields.references("merge"), "how": how, "k": k}


def _transform(fields: Fields, world: World, model: str) -> Read:
    value = fields.given.get("apply")
    over = _over(fields, "transform")
    if not value:
        fields.fault("apply", "is missing", "write a list of transforms: [strip, {json: /answer}]")
        return {"over": over}
    try:
        return {"over": over, "transforms": read_transforms(value, "apply", "either")}
    except WorkflowError as error:
        fields.fault(error.param or "apply", error.message.rstrip("."), "correct the transform")
        return {"over": over}


def _over(fields: Fields, field: str) -> tuple[str, ...]:
    name = fields.reference(field)
    return () if name is None else (name,)


_READERS: Mapping[Kind, Callable[[Fields, World, str], Read]] = {
    "chat": _chat,
    "split": _split,
    "embed": _embed,
    "ingest": _ingest,
    "search": _search,
    "rerank": _rerank,
    "tool": _tool,
    "map": _map,
    "fold": _fold,
    "loop": _loop,
    "when": _when,
    "first_of": _first_of,
    "merge": _merge,
    "transform": _transform,
}
