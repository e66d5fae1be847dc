"""Writes `docs/reference/commands.md`, every command with its options: `python -m understudy.reference`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from understudy.__main__ import main

_FILE = Path("docs/reference/commands.md")
_SHARED_BY = 3
"""An option with the same meaning in so many commands is explained once."""
_HEAD = """\
# Commands

Every command of `understudy`, as `understudy COMMAND --help` (or `-h`) prints it. Written by
`python -m understudy.reference`. `python -m understudy` is `understudy`, `python -m loadtest` is `understudy load`.

- **Data folder.** Commands with `--data` work on the folder of `memory.data_dir`, while a gateway runs on it or without one.
- **Tenant.** `--tenant NAME` takes a name as given to `understudy keys create --tenant`, or `id:HEX` as in the log. Without
  any key `default` is the tenant of requests without a credential (`memory.anonymous`). An unknown name is refused.
- **Exit status.** 0: done. 1: refused as things stand (it is so already, it is kept in the configuration, somebody else was
  faster), or done with a result that a script should notice (see the command). 2: it could not be done, or wrong options.
  130: interrupted.
"""
_LONG = 80
"""A longer list of shared options stands once, at the first command that has it."""
Row = tuple[str, str]
"""An option's cell and its meaning's."""


def reference() -> str:
    """The whole page."""
    found = list(commands(main))
    shared = _shared([row for _, command in found for row in _rows(command)])
    lines = [_HEAD, "## Shared options", "", "The same in every command that names them.", ""]
    lines += [*_table(sorted(shared)), ""]
    told: dict[str, str] = {}
    for name, command in found:
        lines += [f"##{'#' * (name.count(' ') > 1)} {name}", "", *_section(name, command, shared, told), ""]
    return "\n".join(lines).rstrip() + "\n"


def commands(group: click.Group, above: str = "understudy") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group with its whole name."""
    context = click.Context(group, info_name=above)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{above} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{above} {name}")


def _shared(rows: list[Row]) -> frozenset[Row]:
    """Rows that several commands have; of each option's at most the most frequent."""
    found: dict[str, Row] = {}
    for row, count in Counter(rows).most_common():
        if count >= _SHARED_BY:
            found.setdefault(_option(row), row)
    return frozenset(found.values())


def _option(row: Row) -> str:
    return row[0].partition(" ")[0].rstrip(",")


def _section(
    name: str, command: click.Command, shared: frozenset[Row], told: dict[str, str]
) -> Iterator[str]:
    """A command's text and options. `told`: lists of shared options, and the command that has each in full."""
    context = click.Context(command, info_name=name)
    arguments = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    if arguments and not isinstance(command, click.Group):
        yield f"`{name} {' '.join(arguments)}`"
        yield ""
    yield _prose(command.help or "")
    rows = _rows(command)
    own = [row for row in rows if row not in shared]
    also = ", ".join(_option(row) for row in rows if row in shared)
    first = told.setdefault(also, name)
    if own:
        yield ""
        yield from _table(own)
    if also:
        yield ""
        same = f"as of [{first}](#{first.replace(' ', '-')})"
        yield f"[Shared](#shared-options): {also if name == first or len(also) < _LONG else same}."


def _table(rows: list[Row]) -> list[str]:
    return ["| option | meaning |", "|---|---|", *(f"| {option} | {meaning} |" for option, meaning in rows)]


def _rows(command: click.Command) -> list[Row]:
    context = click.Context(command)
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    return [_row(option, context) for option in options]


def _row(option: click.Option, context: click.Context) -> Row:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    takes = "" if option.is_flag else f" `{_takes(option.make_metavar(context))}`"
    said, given = option.help or "", option.get_help_extra(context)
    extra = [f"Default: `{given['default']}`."] if "default" in given else []
    extra += ["Required."] if option.required else []
    return _cell(names + takes), _cell(_prose(" ".join([said, *extra]).strip()))


def _takes(metavar: str) -> str:
    """What an option takes, without click's brackets around choices and its word for bounds."""
    return metavar.removesuffix(" RANGE").strip("[]") if "|" in metavar else metavar.removesuffix(" RANGE")


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _prose(text: str) -> str:
    """Click's help as Markdown: paragraphs, and pages that it names as links."""
    plain = re.sub(r"[\b\f]", "", cleandoc(text))
    linked = re.sub(r"docs/(\w[\w-]*)/([\w-]+)\.md", _link, plain)
    return re.sub(r"(?<![`\w-])(--[a-z][\w-]*)(?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)", r"`\1`", linked).replace(
        "<", "&lt;"
    )


def _link(found: re.Match[str]) -> str:
    room, page = found.groups()
    return f"[{page.replace('-', ' ')}]({f'{page}.md' if room == 'reference' else f'../{room}/{page}.md'})"


if __name__ == "__main__":
    _FILE.write_text(reference(), encoding="utf-8")
