"""The documentation against the repository: links resolve, and the reference pages name what the code has."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from tests.fences import GUIDES, Fence, fences
from understudy.reference import commands
from understudy.settings.core_yaml import read_yaml

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
REFERENCE = ROOT / "docs" / "reference"
NOT_SERVED = ("tests", "benchmarks", "loadtest")
"""Packages whose headers, series and events are none of the gateway's."""
ROOMS = sorted({path.parent.name for path in ROOT.glob("*/__init__.py")} | {"benchmarks", "tests"})
FIELDS = ("understudy.decision_id", "understudy.inputs")
"""Members of spans and requests that read like modules."""
LEVELS = ("debug", "info", "warning", "error")


def describes_the_code(page: Path) -> bool:
    """Decisions and the changelog tell of what was, and a page whose code was removed says so."""
    told = page.name == "CHANGELOG.md" or page.parent.name == "decisions"
    return not told and "**The code was removed**" not in page.read_text(encoding="utf-8")


@cache
def descriptions() -> tuple[Path, ...]:
    return tuple(page for page in PAGES if describes_the_code(page))


def test_every_relative_link_resolves() -> None:
    broken = []
    for page in PAGES:
        for target in links(page):
            file, _, anchor = target.partition("#")
            found = (page.parent / file).resolve() if file else page
            if not found.exists() or (anchor and anchor not in anchors(found)):
                broken.append((page.name, target))
    assert not broken


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / target).resolve() for target in links(index)}
    pages = {page for page in PAGES if page.parent.parent == ROOT / "docs"}
    assert not pages - listed


def test_a_how_to_is_one_screen() -> None:
    for page in (ROOT / "docs" / "how-to").glob("*.md"):
        assert len(page.read_text(encoding="utf-8").splitlines()) <= 60, page


def test_the_code_names_pages_that_exist() -> None:
    named = re.compile(r"\bdocs/[\w./-]+\.md\b")
    missing = set()
    for path in tracked():
        if path.suffix in (".py", ".html", ".yaml", ".toml") or path.name in ("Dockerfile", "Makefile"):
            for name in named.findall(path.read_text(encoding="utf-8")):
                if not (ROOT / name).exists():
                    missing.add(f"{path.relative_to(ROOT)}: {name}")
    assert not missing


def test_every_path_that_is_named_exists() -> None:
    """Whole paths from the repository's root; a folder's ends with a slash."""
    named = {(page.name, name) for page in descriptions() for name in paths_named(page)}
    assert not {one for one in named if not (ROOT / one[1]).exists()}


def test_every_module_and_every_chore_that_is_named_exists() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in descriptions())
    chores = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    unknown = {f"make {name}" for name in re.findall(r"(?:^ {4}|`)make ([a-z-]+)", text, re.MULTILINE)} - {
        f"make {name}" for name in chores
    }
    rooms = "|".join(ROOMS)
    modules = re.findall(rf"python -m ((?:{rooms})(?:\.\w+)*)", text)
    names = [
        name for name in re.findall(rf"`((?:{rooms})(?:\.\w+)+)(?:\(.*?\))?`", text) if not is_a_setting(name)
    ]
    assert not unknown | {name for name in [*modules, *names] if not is_in_the_code(name)}


def test_every_step_of_the_walks_names_a_function_that_exists() -> None:
    page = (ROOT / "docs" / "explanation" / "three-walks.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| `([\w.]+)` \|", page, re.MULTILINE)
    assert len(steps) == len(re.findall(r"^\| \d+ ", page, re.MULTILINE))
    assert not [step for step in steps if not defines(ROOT / step[0], step[1])]


def test_every_setting_that_is_named_exists() -> None:
    settings = settings_and_groups()
    for page in descriptions():
        shown = {key for block in yaml_blocks(page) for key in dotted(block)}
        named = re.findall(r"`((?:models|engines)\.NAME(?:\.[a-z_]+)+)", page.read_text(encoding="utf-8"))
        shown |= {name.replace("NAME", "any") for name in named}
        assert not {key for key in shown if not known(key, settings)}, page


def test_every_configuration_that_is_shown_is_valid() -> None:
    """As it stands, or, where it is a piece, beside the engines that the pages speak of."""
    from understudy.settings.file import parse_config, resolve

    price = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}
    engine = {"base_url": "http://127.0.0.1:9/v1", "api_key": "none", "price": price}
    engines = dict.fromkeys(("small", "large", "judge"), engine)
    beside = {
        "upstream": {"base_url": "http://127.0.0.1:9/v1", "api_key": "none"},
        "memory": {"data_dir": "./data"},
        "judging": {"engine": "judge", "share_offloaded": 0.1},
    }
    for page, block in shown():
        settings = resolve(block, EVERYTHING_EXPORTED)
        if not ("upstream" in block or {"engines", "models"} <= set(block)):
            of_page = {
                name: ({} if "api_key_command" in each else {"api_key": "none"}) | each
                for name, each in settings.get("engines", {}).items()
                # A folder with a model, which is not here.
                if "model_dir" not in each
            }
            settings = beside | settings | {"engines": engines | of_page}
        with noting(page):
            parse_config(settings)


def shown() -> list[tuple[Path, dict[str, Any]]]:
    """Every piece of a configuration with its page."""
    return [(page, block) for page in descriptions() for block in yaml_blocks(page)]


@contextmanager
def noting(page: Path) -> Iterator[None]:
    """Name the page where something on it fails."""
    try:
        yield
    except Exception as error:
        error.add_note(str(page))
        raise


class _Exported(dict[str, str]):
    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, f"stand-in-0123456789-{name}")


EVERYTHING_EXPORTED = _Exported(
    WEBHOOK_URL="https://hooks.example/1",
    SLACK_URL="https://hooks.slack.com/services/1",
    TEAMS_URL="https://prod-1.westeurope.logic.azure.com/workflows/1",
    WEBHOOK_SECRET="whsec_" + "A" * 32,
    UNDERSTUDY_DATABASE_URL="postgresql://understudy@db.example/understudy?sslmode=verify-full",
)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_block_that_readers_paste_is_whole_and_says_what_it_needs(page: Path) -> None:
    with noting(page):
        for fence in fences(page):
            is_whole(fence)


def is_whole(fence: Fence) -> None:
    """Raises what is wrong with a block's syntax, or AssertionError."""
    commands = fence.language in ("sh", "python")
    assert not commands or fence.needs in ("run", "serve", "gateway", "yours"), fence
    match fence.language:
        case "sh":
            done = subprocess.run(["bash", "-n"], input=fence.text.encode(), capture_output=True, check=False)
            assert done.returncode == 0, (done.stderr, fence)
            for body in re.findall(r"-d '(.*?)'", fence.text, re.DOTALL):
                json.loads(body)
            for header in re.findall(r"-H ['\"](.*?)['\"] *(?:-|\\|\n|$)", fence.text):
                assert re.match(r"[\w-]+: \S", header), (header, fence)
        case "python":
            compile(fence.text, str(fence.page), "exec")
        case "json":
            read, rest = json.JSONDecoder(), fence.text.strip()
            while rest:
                rest = rest[read.raw_decode(rest)[1] :].strip()
        case "yaml":
            assert read_yaml(fence.text) is not None, fence
        case _:
            assert fence.language in ("text", "sql"), fence


def test_every_workflow_that_is_shown_can_be_carried_out() -> None:
    for page in descriptions():
        with noting(page):
            can_be_carried_out(list(yaml_blocks(page)))


def can_be_carried_out(blocks: list[dict[str, Any]]) -> None:
    from understudy.settings.config import Config
    from understudy.settings.workflows import WorkflowsSettings

    shown = [WorkflowsSettings.model_validate(block["workflows"]) for block in blocks if "workflows" in block]
    components = {name: each for block in blocks for name, each in block.get("components", {}).items()}
    definitions = {name: each for settings in shown for name, each in settings.definitions.items()}
    Config.model_validate(
        {
            "upstream": {"base_url": "http://127.0.0.1:9/v1"},
            "memory": {"data_dir": None},
            "components": components,
            "workflows": definitions,
        }
    )


def test_the_page_of_commands_is_what_the_program_says() -> None:
    from understudy.reference import reference

    page = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m understudy.reference"
    assert not [name for name, _ in commands(program()) if f"# {name}\n" not in page]


def test_every_command_that_is_shown_can_be_given() -> None:
    shown = {(page.name, line) for page in descriptions() for line in commands_shown(page)}
    assert not {one for one in shown if not is_known(one[1].split())}


def test_every_header_is_in_the_reference() -> None:
    page = (REFERENCE / "headers.md").read_text(encoding="utf-8").lower()
    assert not {name for name in headers() if f"`{name.lower()}" not in page}


def test_every_metric_series_and_its_labels_are_in_the_reference() -> None:
    rows = {
        found[1]: line
        for line in (REFERENCE / "metrics.md").read_text(encoding="utf-8").splitlines()
        if (found := re.match(r"\| `(understudy_[a-z_]+)` \|", line))
    }
    told = {name: series(name, rows) for name, _ in declared_series()}
    assert told and not {name for name, row in told.items() if row is None}
    missing = {
        f"{name}: {label}"
        for name, labels in declared_series()
        for label in labels
        if f"`{label}`" not in (told[name] or "")
    }
    assert not missing


def test_every_log_event_is_in_the_reference() -> None:
    page = (REFERENCE / "log.md").read_text(encoding="utf-8")
    events = {event for event in logged_events() if f"`{event}`" not in page and f'"{event}"' not in page}
    assert not events


# ---- pages


def paths_named(page: Path) -> set[str]:
    """What reads like a path of a file or folder in one of our rooms."""
    rooms = "|".join(ROOMS)
    text = page.read_text(encoding="utf-8")
    found = re.findall(rf"(?<![\w./-])(?:{rooms})/[\w./-]*[\w/]", text)
    return {name for name in found if name.endswith((".py", "/", ".yaml", ".html", ".css", ".js", ".sql"))}


def prose(page: Path) -> str:
    """A page without its code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def links(page: Path) -> list[str]:
    """Targets of a page's links to files of the repository."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


@cache
def anchors(page: Path) -> frozenset[str]:
    """The names by which a page's headings are linked to."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} +(.*?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found[name] = found.get(name, 0) + 1
    return frozenset(found) | {f"{name}-{n}" for name, count in found.items() for n in range(1, count)}


# ---- code


@cache
def tracked() -> tuple[Path, ...]:
    """Files of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout
    return tuple(path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file())


@cache
def served() -> tuple[str, ...]:
    """The text of every module of the packages that serve, whatever they are called."""
    packages = [path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name not in NOT_SERVED]
    texts = tuple(file.read_text(encoding="utf-8") for each in packages for file in each.rglob("*.py"))
    assert texts
    return texts


def defines(file: Path, dotted_name: str) -> bool:
    """Whether a file has this function, class or method."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for name in dotted_name.split("."):
        found = [
            node
            for node in body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name
        ]
        if not found:
            return False
        body = found[0].body
    return True


def is_in_the_code(name: str) -> bool:
    """Whether a dotted name is a module, something that a module names, or a part of the store's facade."""
    parts = name.split(".")
    facade = ROOT / "store" / "store.py"
    if parts[0] == "store" and f"self.{parts[1]}" in facade.read_text(encoding="utf-8"):
        return True
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            text = file.read_text(encoding="utf-8") if file.is_file() else None
            if text is not None and all(re.search(rf"\b{part}\b", text) for part in parts[count:]):
                return True
    return False


def is_a_setting(name: str) -> bool:
    """Whether a dotted name is a setting or a group (`NAME`: any), a file of the documentation or data, or a field."""
    if name.endswith((".md", ".db", ".json")) or name in FIELDS:
        return True
    return known(name.replace(".NAME.", ".any."), settings_and_groups())


def nodes(word: str) -> Iterator[ast.AST]:
    """Walk the modules with a word in them, one after the other: holding all trees takes longer than parsing."""
    for text in served():
        if word in text:
            yield from ast.walk(ast.parse(text))


def text_of(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_headers(node: ast.expr) -> bool:
    return name_of(node).lower().endswith("headers")


def headers() -> set[str]:
    """Names that are read from, or written to, something called headers; and ours, wherever they stand."""
    found: list[str | None] = []
    for node in nodes("header"):
        match node:
            case ast.Call(func=ast.Attribute(value=owner), args=[first, *_]) if is_headers(owner):
                found.append(text_of(first))
            case ast.Subscript(value=owner, slice=key) if is_headers(owner):
                found.append(text_of(key))
            case ast.Compare(left=left, comparators=others) if any(map(is_headers, others)):
                found.append(text_of(left))
            case ast.Assign(targets=[target], value=ast.Dict(keys=keys)) if is_headers(target):
                found += map(text_of, keys)
            case ast.keyword(arg="headers", value=value):
                found += [
                    text_of(k) for each in ast.walk(value) if isinstance(each, ast.Dict) for k in each.keys
                ]
            case ast.Constant(value=str(value)) if re.fullmatch(
                r"x-understudy-[a-z-]*[a-z]|[a-z-]*ratelimit-[a-z-]*[a-z]|retry-after-ms|x-should-retry",
                value,
            ):
                found.append(value)
    return {name for name in found if name}


def declared_series() -> list[tuple[str, list[str]]]:
    """(name, labels) of every metric: calls with a name of ours and a description."""
    found = []
    for node in nodes("understudy_"):
        match node:
            case ast.Call(args=[ast.Constant(value=str(name)), ast.Constant() | ast.JoinedStr(), *rest]) if (
                re.fullmatch(r"understudy_[a-z_]+", name)
            ):
                labels = rest[0].elts if rest and isinstance(rest[0], ast.List) else []
                found.append((name, [label for each in labels if (label := text_of(each))]))
    return found


def series(name: str, rows: dict[str, str]) -> str | None:
    """A series' row; counters are told with the ending that Prometheus gives them."""
    return rows.get(name) or rows.get(f"{name}_total")


def logged_events() -> set[str]:
    """Names of events: what follows the level in a call that logs."""
    found = set()
    for node in nodes("log"):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=level), args=[event, *_]) if (
                level in LEVELS
            ):
                found |= {text_of(each) for each in alternatives(event)}
            case ast.Call(func=function, args=[level, event, *_]) if (
                "log" in name_of(function) or "tell" in name_of(function)
            ) and text_of(level) in LEVELS:
                found.add(text_of(event))
    return {event for event in found if event}


def alternatives(event: ast.expr) -> tuple[ast.expr, ...]:
    return (event.body, event.orelse) if isinstance(event, ast.IfExp) else (event,)


def program() -> click.Group:
    """The console script, wherever it is."""
    import tomllib
    from importlib import import_module

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, attribute = project["scripts"]["understudy"].partition(":")
    found = getattr(import_module(module), attribute)
    assert isinstance(found, click.Group)
    return found


def options(command: click.Command) -> set[str]:
    """The long names of a command's options."""
    params = [param for param in command.params if isinstance(param, click.Option)]
    return {
        name for param in params for name in (*param.opts, *param.secondary_opts) if name.startswith("--")
    }


def commands_shown(page: Path) -> Iterator[str]:
    """`understudy ...` in a page's blocks of code, a line each, without what the shell does with it."""
    for fence in fences(page):
        for line in fence.text.replace("\\\n", " ").splitlines():
            found = re.match(r" *(?:\S*/)?understudy (\w[^#|>&]*)", line)
            if found is not None and "OPTIONS" not in line:
                yield found[1]


def is_known(words: list[str]) -> bool:
    """Whether there is such a command, with all the options that are given."""
    command: click.Command | None = program()
    if words[:2] == ["learn", "--from"]:
        words = ["learn", *words[2:]]
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        below = command.get_command(click.Context(command), words[0])
        if below is None:
            break
        command, words = below, words[1:]
    return command is not program() and command is not None and given <= options(command) | {"--help"}


def settings_and_groups() -> set[str]:
    """Dotted names of every setting and of every group of them."""
    from understudy.settings.config import Config
    from understudy.settings.names import settings_of

    names = {setting.name for setting in settings_of(Config)}
    return names | {name.rsplit(".", n)[0] for name in names for n in range(1, name.count(".") + 1)}


def known(key: str, settings: set[str]) -> bool:
    """Whether a dotted key is a setting, a group, or lies within a setting that holds a mapping."""
    parts = key.split(".")
    if parts[0] in ("components", "engines", "guardrails", "keys", "models", "tenants") and len(parts) > 1:
        parts[1] = "*"
    if parts[0] == "workflows" and len(parts) > 1 and f"workflows.{parts[1]}" not in settings:
        # A workflow: whether it can be carried out is another test's.
        return True
    if parts[2:3] == ["tasks"] and len(parts) > 3:
        parts[3] = "*"
    if parts[:2] == ["upstream", "prices"] and len(parts) > 2:
        parts[2] = "*"
    name = ".".join(parts)
    return name in settings or any(
        name.startswith(f"{each}.")
        for each in settings
        if not each.endswith(".*") and is_plain(each, settings)
    )


def is_plain(name: str, settings: set[str]) -> bool:
    return not any(other.startswith(f"{name}.") for other in settings)


def yaml_blocks(page: Path) -> Iterator[dict[str, Any]]:
    """The pieces of a configuration that a page shows."""
    from understudy.settings.config import Config

    for fence in fences(page, "yaml"):
        block = read_yaml(fence.text)
        if isinstance(block, dict) and set(block) & set(Config.model_fields):
            yield block


def dotted(block: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, value in block.items():
        yield f"{above}{key}"
        if isinstance(value, dict):
            yield from dotted(value, f"{above}{key}.")
