"""Makes commands: one of each operation, and one of each list or page of figures.

They open the store, also while a gateway runs on it: it follows within a second. Why they do not ask the gateway is in
docs/decisions/2026-11-28-operations.md.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from admin.operations.operation import TENANT, By, Operation, Outcome
from admin.page import ActionFailed, Asked, BadParameter, NotThere, Summary, Viewer
from admin.roles import Role, revealed
from admin.sources import GatewayInfo, Sources
from store import Store
from store.validating import fields_of
from understudy.commands.as_json import JSON, print_json
from understudy.commands.auditing import note, user
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.giving_up import give_up
from understudy.commands.tables import lines, table
from understudy.commands.tenant_option import tenant_named

Given = Mapping[str, Any]
Read = Callable[[Sources, Asked], Summary]
_CLICK_TYPES: dict[Any, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, str: click.STRING}
_A_TENANT = "A name as in `keys create`, or id:HEX."
OPERATOR = "operator"
"""Stands for the empty tenant: what was learnt from labels that the operator brought."""


def command(
    operation: Operation,
    *,
    options: Sequence[click.Parameter] | None = None,
    more: Sequence[click.Parameter] = (),
    given: Callable[[Given], Given] = dict,
    creates: bool = False,
) -> click.Command:
    """The command of an operation. Its options are the fields of the input, or `options`, and `more`.

    `given` makes the input of what was given. `creates`: whether it may make a data folder.
    """
    fields = fields_of(operation.input)
    params: list[click.Parameter] = [_argument(name, fields.get(name)) for name in operation.arguments]
    params += [*(options or ()), *more]
    if options is None:
        known = {*operation.arguments, *operation.of_pages}
        params += [_option(name, field) for name, field in fields.items() if name not in known]

    def run(data: Path, as_json: bool, **options: Any) -> None:
        with sources_in(data, create=creates) as sources:
            outcome = done(sources, operation, given(options))
        told(outcome, as_json=as_json)

    return _command(operation.name.rpartition("/")[2], operation.sentence, params, run)


def reading(
    name: str,
    sentence: str,
    read: Read,
    *,
    options: Sequence[click.Parameter] = (),
    rows: str = "",
    tables: Mapping[str, Sequence[str]],
    nothing: str = "",
    texts: bool = False,
) -> click.Command:
    """A command that shows a summary of the admin pages: as JSON, or for people. Without `texts` none is in it.

    `tables`: the columns of its lists. `rows`: the one list that is shown, or `nothing` where it is empty; without it all
    of the summary is.
    """

    def run(data: Path, as_json: bool, **given: Any) -> None:
        with sources_in(data) as sources:
            summary = shown(sources, read, given, Role.VIEWER_CONTENT if texts else Role.VIEWER)
        if as_json:
            print_json(summary[rows] if rows else summary)
        elif rows and not summary[rows]:
            click.echo(nothing, err=True)
        else:
            click.echo("\n".join(table(summary[rows], tables[rows]) if rows else lines(summary, tables)))

    return _command(name, sentence, list(options), run)


@contextmanager
def sources_in(data: Path, *, create: bool = False) -> Iterator[Sources]:
    """The open store of a data folder, as operations and summaries take it. What refuses an operation ends the process:
    with status 1 where it is so already or somebody was faster, else with 2."""
    with store_in(data, create=create) as store:
        made = Sources(
            store, store.sessions(), store.decisions.rollups(), GatewayInfo(), lambda: Store.open(data)
        )
        try:
            yield made
        except ActionFailed as error:
            give_up(str(error), 1)
        except (NotThere, BadParameter, ValueError) as error:
            give_up(str(error))
        finally:
            made.close()


def done(sources: Sources, operation: Operation, given: Given) -> Outcome:
    """Has an operation done by whoever runs the command, and notes it in the audit log, also where it was refused."""
    fields = fields_of(operation.input)
    read = {
        name: _value(sources.store, fields.get(name), value)
        for name, value in given.items()
        if operation.unread or value is not None
    }
    now_s = time.time()
    try:
        outcome = operation.do(sources, By(user(), now_s, "cli"), read)
    except ActionFailed as error:
        note(sources.store, operation.name, _target(operation, read), {"why": str(error)}, failed=True)
        raise
    if operation.role is not Role.VIEWER:
        note(sources.store, operation.name, outcome.target, outcome.detail)
    return outcome


def told(outcome: Outcome, *, as_json: bool) -> None:
    """Prints what came of an operation: the secret alone on standard output, if there is one."""
    value = outcome.value or {"said": outcome.said, **outcome.detail}
    if not outcome.secret:
        value.pop("secret", None)
    if as_json:
        print_json(value)
        return
    if outcome.secret:
        click.echo(outcome.secret)
    said = outcome.said or "\n".join(lines(value, {}))
    click.echo(said, err=bool(outcome.secret))
    if outcome.advice:
        click.echo(outcome.advice, err=True)


def shown(sources: Sources, read: Read, given: Given, role: Role = Role.VIEWER) -> Summary:
    """A summary as somebody with this role may see it."""
    query = {name: str(value) for name, value in given.items() if value is not None}
    if query.get("tenant", OPERATOR) != OPERATOR:
        query["tenant"] = tenant_named(sources.store.keys, query["tenant"])
    asked = Asked(Viewer(user(), role), time.time(), path=query, query=query)
    summary: Summary = revealed(read(sources, asked), role)
    return summary


def tenant_option(purpose: str) -> click.Option:
    """`--tenant NAME`."""
    return click.Option(["--tenant"], metavar="NAME", help=f"{purpose} {_A_TENANT}")


def _command(
    name: str, sentence: str, params: Sequence[click.Parameter], run: Callable[..., None]
) -> click.Command:
    made = data_option()(JSON(click.command(name, help=sentence)(run)))
    made.params[1:1] = params
    return made


def _argument(name: str, field: FieldInfo | None) -> click.Argument:
    if field is None:
        return click.Argument([name])
    return click.Argument([name], type=_click_type(_plain(field.annotation)), metavar=field.title)


def _option(name: str, field: FieldInfo) -> click.Option:
    kind, text, metavar = _plain(field.annotation), field.description or "", field.title
    default = None if field.is_required() else field.default or None
    if TENANT in field.metadata:
        text, metavar = f"{text} {_A_TENANT}".strip(), "NAME"
    return click.Option(
        [f"--{name.replace('_', '-')}"],
        type=None if kind is bool else _click_type(kind),
        is_flag=kind is bool,
        required=field.is_required(),
        default=default,
        show_default=default is not None,
        metavar=metavar,
        help=text,
    )


def _plain(annotation: Any) -> Any:
    """The type without `| None`."""
    if get_origin(annotation) in (Union, types.UnionType):
        return next(one for one in get_args(annotation) if one is not type(None))
    return annotation


def _click_type(kind: Any) -> click.ParamType[Any]:
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    return _CLICK_TYPES[kind]


def _value(store: Store, field: FieldInfo | None, value: Any) -> Any:
    if field is not None and TENANT in field.metadata:
        return "" if value == OPERATOR else tenant_named(store.keys, value)
    return value


def _target(operation: Operation, given: Given) -> str:
    return "/".join(str(given[name]) for name in operation.arguments if name in given)[:200]
